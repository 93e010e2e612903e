"""The simulated study of benchmarks/driver.py is a whole one: a real driver would take its ledger for its own."""

from __future__ import annotations

from pathlib import Path

from benchmarks.driver import Driver, study
from study.ledger import LEDGER, Ledger, events
from study.resume import rebuild
from study.search import StudySearcher
from study.stopping import StopPerCell
from tests.support.invariants import check_ledger


def test_its_ledger_is_that_of_a_finished_study(tmp_path: Path) -> None:
    config = study(tmp_path, trials=20, cells=1)
    driver = Driver(config, tmp_path / config.name)
    assert driver.to_the_end() == 21
    assert len(check_ledger(tmp_path / config.name)) == 21
    assert sum(event["event"] == "row" for event in events(tmp_path / config.name)) == driver.rows
    searcher = StudySearcher(config)
    standing = rebuild(events(tmp_path / config.name), searcher, StopPerCell(config), Ledger(tmp_path / LEDGER))
    assert standing.finished
    assert searcher.over


def test_it_has_as_many_cells_as_it_says(tmp_path: Path) -> None:
    assert len(study(tmp_path, trials=10_000, cells=200).cells()) == 200
    assert study(tmp_path, trials=10_000, cells=200).search_trials == 50
