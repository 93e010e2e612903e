"""fairtrial data cache, as a user types it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import Result
from filelock import FileLock
from typer.testing import CliRunner

from study.__main__ import app
from tests.support import trees
from trainables.contract import DatasetRef
from trainables.datasets.pixels import cache_folder, decode_once


def run(*words: object, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, ["data", "cache", *map(str, words)], input=answer)


@pytest.fixture
def cached(tmp_path: Path) -> Path:
    """The folder of decoded photos."""
    ref = DatasetRef("image_folder", str(trees.folders(tmp_path / "photos [1]", list("abcd"))))
    decode_once(ref, 24)
    return cache_folder(ref, 24)


def name_of(folder: Path) -> str:
    return f"{folder.parent.name}/{folder.name}"


def test_an_empty_cache_is_one_sentence(own_home: Path) -> None:
    assert run().stdout == f"Nothing is cached in {own_home}.\n"
    assert run("--remove", "all").stdout == f"There is nothing to remove in {own_home}.\n"


def test_the_list_has_name_size_day_and_what_it_holds(cached: Path, own_home: Path) -> None:
    (own_home / "features" / "x-tiny-0.parts").mkdir(parents=True)
    shown = run().stdout
    assert f"{name_of(cached)}\n" in shown
    assert "8 images of image_folder at 24 pixels, from " in shown
    assert "photos [1]" in shown
    assert "last used 2" in shown
    assert "features/x-tiny-0.parts" in shown
    assert "unfinished features, left by a process that was killed" in shown
    assert f"in {own_home}. " in shown


def test_remove_asks_first(cached: Path) -> None:
    refused = run("--remove", name_of(cached), answer="n\n")
    assert refused.exit_code == 1
    assert f"Remove {name_of(cached)} (" in refused.stdout
    assert cached.exists()
    silent = run("--remove", name_of(cached))
    assert silent.exit_code == 2
    assert "pass --yes" in silent.stderr
    assert cached.exists()
    agreed = run("--remove", name_of(cached), answer="y\n")
    assert agreed.exit_code == 0
    assert f"{name_of(cached)} is removed (" in agreed.stdout
    assert not cached.exists()


def test_remove_all_and_unfinished(cached: Path, own_home: Path) -> None:
    left = own_home / "pixels" / "x-24-0.unfinished"
    left.mkdir()
    assert run("--remove", "unfinished", "--yes").exit_code == 0
    assert not left.exists()
    assert cached.exists()
    assert run("--remove", "all", "--yes").exit_code == 0
    assert not cached.exists()


def test_what_a_process_is_making_is_not_removed(cached: Path) -> None:
    with FileLock(cached.with_suffix(".lock")):
        result = run("--remove", name_of(cached), "--yes")
    assert result.exit_code == 2
    assert f"a process is at work on {name_of(cached)}" in " ".join(result.stderr.split())
    assert cached.exists()


def test_an_unknown_name_is_refused(cached: Path) -> None:
    result = run("--remove", name_of(cached)[:-1], "--yes")
    assert result.exit_code == 2
    assert f"Did you mean '{name_of(cached)}'?" in result.stderr
