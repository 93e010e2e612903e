"""The simulated study of benchmarks/driver.py has a ledger that a real driver accepts."""

from __future__ import annotations

from pathlib import Path

from analysis.record.record import Record
from benchmarks.driver import Driver, study
from study.config.plan import expand
from study.driver.resume import rebuild
from study.search.early_stopping import EarlyStopping
from study.search.searcher import StudySearcher
from tests.support.record import check_record


def test_its_ledger_is_that_of_a_finished_study(tmp_path: Path) -> None:
    config = study(tmp_path, trials=20, cells=1)
    plan = expand(config)
    driver = Driver(config, tmp_path / config.name)
    assert driver.to_the_end() == 20 + 3 * 2 + 1  # search, finalists, final
    rows = check_record(tmp_path / config.name)
    assert len(rows) == 27
    assert sum(map(len, rows.values())) == driver.rows
    searcher, record = StudySearcher(plan), Record(tmp_path / config.name)
    rebuild(record, searcher, EarlyStopping(plan))
    assert record.state.finished
    assert searcher.over


def test_it_has_as_many_cells_as_it_says(tmp_path: Path) -> None:
    assert len(expand(study(tmp_path, trials=10_000, cells=200)).cells) == 200
    assert study(tmp_path, trials=10_000, cells=200).search_trials == 50
