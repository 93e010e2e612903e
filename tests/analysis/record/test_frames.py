"""Which final trials a study's frames count."""

from __future__ import annotations

import json
from pathlib import Path

from analysis import read_study
from analysis.record.kept_files import KEPT
from analysis.record.ledger import Ledger
from analysis.record.specs import SPECS, digest_of
from analysis.record.trial_id import TrialId
from tests.support.events import CELL, study_started, trial_ended, trial_started
from tests.support.synthetic_study import RATIO, spec
from trainables.contract import QUERIES


def write(home: Path, rounds: dict[TrialId, int]) -> None:
    """Write a study of finished final trials, each begun at the time that is given."""
    text = json.dumps(spec(RATIO))
    (home / SPECS).mkdir(parents=True)
    (home / SPECS / f"{digest_of(text)}.json").write_text(text)
    ledger = Ledger(home)
    ledger.append(study_started())
    for trial, at in rounds.items():
        ledger.append(trial_started(trial, spec=digest_of(text), at=at))
        (home / KEPT / trial.folder).mkdir(parents=True)
        (home / KEPT / trial.folder / QUERIES).write_text("fold,rule,class\n")
        ledger.append(trial_ended(trial, at=at + 1))
    ledger.close()


def test_final_trials_of_the_last_round_count_whatever_the_clock_says(tmp_path: Path) -> None:
    first = {TrialId(CELL, "final", seed): 1000 + seed for seed in (1, 2)}
    again = {TrialId(CELL, "final", seed, round=2): 500 + seed for seed in (1, 2)}
    other = {TrialId(CELL, "published", 1): 2000}
    write(tmp_path / "made", first | again | other)
    found = read_study(tmp_path / "made").finals
    assert sorted(found["trial"]) == ["final-1-round2", "final-2-round2", "published-1"]


def test_a_replicate_whose_last_round_failed_has_no_number(tmp_path: Path) -> None:
    home = tmp_path / "made"
    write(home, {TrialId(CELL, "final", 1, replicate=each): 1000 for each in (1, 2)})
    ledger, again = Ledger(home), TrialId(CELL, "final", 1, replicate=2, round=2)
    ledger.append(trial_started(again, spec=digest_of(json.dumps(spec(RATIO)))))
    assert len(read_study(home).finals) == 2, "while it runs, the earlier round counts"
    ledger.append(trial_ended(again, outcome="failed"))
    ledger.close()
    assert read_study(home).finals["trial"].to_list() == ["final-1"]
