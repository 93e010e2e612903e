"""Splits as files: written, read back, and refused where they were touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from study.config.plan import expand
from study.config.protocols import FixedValidation, KFold, StudyProtocol
from study.config.split_files import digest, parse_splits, split_file_name, splits_text
from study.driver.folder import write_splits
from tests.conftest import MakeConfig
from trainables.contract import Split

TRAIN, TEST = tuple(range(8)), tuple(range(8, 12))
FOLDS = KFold(4, "shuffled", 0)
SPLITS = FOLDS.splits(TRAIN, TEST)


def read_splits(
    path: Path, protocol: str = "k_fold:4", divides: StudyProtocol = FOLDS
) -> tuple[Split, ...]:
    return parse_splits(
        path.read_text(),
        path.name,
        "sketches",
        protocol=protocol,
        divides=divides,
        halves=(TRAIN, TEST),
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / split_file_name("sketches", "k_fold:4")
    path.write_text(splits_text("sketches", "k_fold:4", SPLITS))
    return path


def test_a_file_is_json_with_a_hash_and_reads_back(file: Path) -> None:
    assert file.name == "sketches-k_fold-4.json"
    assert json.loads(file.read_text())["hash"] == digest(SPLITS)
    assert read_splits(file) == SPLITS


def test_the_hash_is_of_the_class_lists_alone() -> None:
    assert digest(SPLITS) == digest(tuple(Split(s.train, s.select, s.test) for s in SPLITS))
    assert digest(SPLITS) == digest(
        tuple(s.sealed() for s in SPLITS)
    )  # a search trial's tag names the file of its study
    assert digest(SPLITS) != digest(SPLITS[:3])


def test_a_file_that_was_changed_is_refused_and_one_without_a_hash_is_taken(file: Path) -> None:
    found = json.loads(file.read_text())
    one, other = found["splits"][:2]
    one["train"], one["select"], other["train"], other["select"] = (
        other["train"],
        other["select"],
        one["train"],
        one["select"],
    )
    file.write_text(json.dumps(found))
    with pytest.raises(ValueError, match="was changed after it was written"):
        read_splits(file)
    del found["hash"]
    file.write_text(json.dumps(found))
    assert len(read_splits(file)) == 4


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("nonsense", "is not a list of splits"),
        (
            '{"splits": [{"train": [0, 1]}]}',
            "is not a list of splits with train, select and test classes: 'select'",
        ),
        (
            '{"splits": [{"train": [0, 1], "select": [1, 2], "test": [8]}]}',
            "breaks a law: classes are disjoint",
        ),
        (
            '{"splits": [{"train": [0, 1, 2, 3, 4, 5], "select": [6, 7], "test": [8]}]}',
            "breaks a law: all splits have the official test",
        ),
        (
            splits_text("sketches", "fixed_validation", [Split(TRAIN, TEST, TEST)]),
            "breaks a law: who selects on test classes peeks",
        ),
        (
            '{"dataset": "cub200", "splits": [{"train": [0], "select": [1], "test": [8]}]}',
            "divides cub200, but the study has sketches",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(
    tmp_path: Path, text: str, sentence: str
) -> None:
    (tmp_path / "mine.json").write_text(text)
    with pytest.raises(ValueError, match=sentence):
        read_splits(tmp_path / "mine.json", "fixed_validation", FixedValidation(0.1, 0))


@pytest.mark.parametrize(
    ("protocol", "divides", "sentence"),
    [
        (
            "fixed_validation",
            FixedValidation(0.1, 0),
            "was made for k_fold:4, but the study has fixed_validation; run it under k_fold:4",
        ),
        (
            "k_fold",
            KFold(2, "shuffled", 0),
            "k_fold has 2 splits here, but split_file=sketches-k_fold-4.json has 4; use another",
        ),
    ],
)
def test_a_file_of_another_protocol_is_refused(
    file: Path, protocol: str, divides: StudyProtocol, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_splits(file, protocol, divides)
    assert read_splits(file, "k_fold", FOLDS) == SPLITS


def test_a_file_of_another_share_is_refused_where_the_name_says_one(file: Path) -> None:
    half = FixedValidation(0.5, 0)
    file.write_text(splits_text("sketches", "fixed_validation", half.splits(TRAIN, TEST)))
    with pytest.raises(
        ValueError,
        match=(
            r"fixed_validation:0.3 holds out 2 classes, but .* holds out 4; write "
            r"fixed_validation, or"
        ),
    ):
        read_splits(file, "fixed_validation:0.3", FixedValidation(0.3, 0))
    for protocol, divides in (
        ("fixed_validation:0.5", half),
        ("fixed_validation", FixedValidation(0.1, 0)),
    ):
        assert read_splits(file, protocol, divides) == half.splits(TRAIN, TEST)


def test_folds_that_hold_a_class_out_twice_are_refused(file: Path) -> None:
    file.write_text(splits_text("sketches", "k_fold", [*SPLITS[:3], SPLITS[0]]))
    with pytest.raises(ValueError, match="breaks a law: each train class is held out exactly once"):
        read_splits(file)


def test_a_missing_file_says_where_such_files_come_from(config: MakeConfig, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="every study writes such files into its splits folder"):
        config(split_file=str(tmp_path / "none.json"))


def test_the_file_of_the_default_protocol_makes_no_honest_study(
    config: MakeConfig, tmp_path: Path
) -> None:
    """Its select classes are the test classes: a search on them would be called
    selected-on-validation.
    """
    write_splits(expand(config()), tmp_path)
    text = (tmp_path / "splits" / "sketches-default.json").read_text()
    for name, said in (
        ("as-it-is", text),
        ("renamed", text.replace('"default"', '"fixed_validation"')),
    ):
        (tmp_path / name).write_text(said)
        with pytest.raises(
            ValueError,
            match=r"was made for default, but the study has|who selects on test classes peeks",
        ):
            config(split_file=str(tmp_path / name))


def test_a_file_is_one_datasets_under_one_protocol(config: MakeConfig, tmp_path: Path) -> None:
    write_splits(expand(config()), tmp_path)
    own = str(tmp_path / "splits" / "sketches-fixed_validation.json")
    assert Path(own).exists()
    with pytest.raises(
        ValueError,
        match=r"for one protocol, but the study has fixed_validation, fixed_validation:0.3; make",
    ):
        config(split_file=own, protocols=["fixed_validation", "fixed_validation:0.3"])


def test_a_file_that_changes_under_a_study_changes_none_of_its_trials(
    config: MakeConfig, tmp_path: Path
) -> None:
    drawn = [
        expand(config(split_seed=seed)).splits("sketches", "fixed_validation") for seed in (5, 6)
    ]
    path = tmp_path / "mine.json"
    path.write_text(splits_text("sketches", "fixed_validation", drawn[0]))
    plan = expand(config(split_file=str(path)))
    path.write_text(splits_text("sketches", "fixed_validation", drawn[1]))
    assert plan.splits("sketches", "fixed_validation") == drawn[0]
    assert expand(config(split_file=str(path))).splits("sketches", "fixed_validation") == drawn[1]


DIVIDED = {
    "fixed_validation": ({}, 3),
    "k_fold:2": ({}, 3),
    "default": ({}, 1),
    "k_fold:4": ({"fold_order": "consecutive"}, 1),
}


@pytest.mark.parametrize("protocol", DIVIDED)
def test_every_replicate_has_its_own_split_where_one_is_drawn(
    config: MakeConfig, protocol: str
) -> None:
    changes, different = DIVIDED[protocol]
    plan = expand(config(protocols=[protocol], searches=3, **changes))
    drawn = [plan.splits("sketches", protocol, replicate=each) for each in plan.replicates]
    assert len(set(drawn)) == different
    assert [splits for *_, splits in plan.all_splits()] == drawn[:different]


def test_with_a_split_file_all_replicates_share_its_split(
    config: MakeConfig, tmp_path: Path
) -> None:
    write_splits(expand(config()), tmp_path)
    own = str(tmp_path / "splits" / "sketches-fixed_validation.json")
    plan = expand(config(split_file=own, protocols=["fixed_validation"], searches=3))
    assert (
        len({plan.splits("sketches", "fixed_validation", replicate=each) for each in (1, 2)}) == 1
    )


def test_a_study_takes_its_splits_from_a_file_except_under_default(
    config: MakeConfig, tmp_path: Path
) -> None:
    drawn = config(split_seed=5)
    plan = expand(drawn)
    path = tmp_path / "mine.json"
    path.write_text(
        splits_text("sketches", "fixed_validation", plan.splits("sketches", "fixed_validation"))
    )
    study = config(split_file=str(path))
    assert expand(study).splits("sketches", "fixed_validation") == plan.splits(
        "sketches", "fixed_validation"
    )
    assert expand(study).splits("sketches", "default") == expand(config()).splits(
        "sketches", "default"
    )
