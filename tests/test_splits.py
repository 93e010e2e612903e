"""Splits as files: written, read back, and refused where they were touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from study.protocols import KFold
from study.splits import digest, read_splits, split_file_name, splits_text
from tests.conftest import MakeConfig
from trainables.contract import Split

TRAIN, TEST = tuple(range(8)), tuple(range(8, 12))
SPLITS = KFold(4, "shuffled", 0).splits(TRAIN, TEST)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / split_file_name("sketches", "k_fold:4")
    path.write_text(splits_text("sketches", "k_fold:4", SPLITS))
    return path


def test_a_file_is_json_with_a_hash_and_reads_back(file: Path) -> None:
    assert file.name == "sketches-k_fold-4.json"
    assert json.loads(file.read_text())["hash"] == digest(SPLITS)
    assert read_splits(file, "sketches", TRAIN, TEST) == SPLITS


def test_the_hash_is_of_the_class_lists_alone() -> None:
    assert digest(SPLITS) == digest(tuple(Split(s.train, s.select, s.test) for s in SPLITS))
    assert digest(SPLITS) != digest(SPLITS[:3])


def test_a_file_that_was_changed_is_refused_and_one_without_a_hash_is_taken(file: Path) -> None:
    found = json.loads(file.read_text())
    found["splits"][0]["train"], found["splits"][0]["select"] = found["splits"][0]["select"], found["splits"][0]["train"]
    file.write_text(json.dumps(found))
    with pytest.raises(ValueError, match="was changed after it was written"):
        read_splits(file, "sketches", TRAIN, TEST)
    del found["hash"]
    file.write_text(json.dumps(found))
    assert len(read_splits(file, "sketches", TRAIN, TEST)) == 4


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("nonsense", "is not a list of splits"),
        ('{"splits": [{"train": [0, 1]}]}', "is not a list of splits with train, select and test classes: 'select'"),
        ('{"splits": [{"train": [0, 1], "select": [1, 2], "test": [8]}]}', "breaks a law: classes are disjoint"),
        ('{"splits": [{"train": [0, 1, 2, 3, 4, 5], "select": [6, 7], "test": [8]}]}', "breaks a law: all splits have the official test"),
        ('{"dataset": "cub200", "splits": [{"train": [0], "select": [1], "test": [8]}]}', "divides cub200, but the study has sketches"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "mine.json").write_text(text)
    with pytest.raises(ValueError, match=sentence):
        read_splits(tmp_path / "mine.json", "sketches", TRAIN, TEST)


def test_a_missing_file_says_where_such_files_come_from(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="every study writes such files into its splits folder"):
        read_splits(tmp_path / "none.json", "sketches", TRAIN, TEST)


def test_a_study_takes_its_splits_from_a_file_except_under_default(config: MakeConfig, tmp_path: Path) -> None:
    drawn = config(split_seed=5)
    path = tmp_path / "mine.json"
    path.write_text(splits_text("sketches", "fixed_validation", drawn.splits("sketches", "fixed_validation")))
    given = config(split_file=str(path))
    assert given.splits("sketches", "fixed_validation") == drawn.splits("sketches", "fixed_validation")
    assert given.splits("sketches", "default") == config().splits("sketches", "default")
