"""Studies on the shared local Ray: warm slots, divergence, failure, restart of a dead slot."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from ray import cloudpickle
from rich.console import Console

from analysis.tracking import read_study
from study import run_study
from study.live import View
from tests.conftest import MakeConfig
from trainables.contract import TrialSpec
from trainables.learner import Learner

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("local_ray")]

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # slots do not import tests

ONE = {"losses": ["contrastive"], "protocols": ["fixed_validation"], "baselines": False, "seeds": 1}


def quiet(config: Any) -> View:
    return View(config, Console(file=io.StringIO()))


def test_a_slot_stays_warm_from_trial_to_trial(config: MakeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """All trials run in as many processes as there are slots."""
    marks = []

    class Watching(View):
        def ended(self, spec: TrialSpec, name: str, outcome: str, result: dict[str, Any]) -> None:
            super().ended(spec, name, outcome, result)
            marks.append(result["pid"])

    study = config(name="warm", losses=["contrastive", "triplet"], slots=2, search_trials=3)
    done = run_study(study, view=Watching(study, Console(file=io.StringIO())))
    assert len(marks) == done.trials == 2 * (3 + 2) + 2 * 2 + 3
    assert len(set(marks)) <= 2
    assert done.failed == 0


def test_a_diverged_trial_ends_normally_with_the_worst_score(config: MakeConfig) -> None:
    study = config(name="diverges", **ONE, learning_rate=1e30)
    done = run_study(study, view=quiet(study))
    trials = read_study(done.tracking_uri, "diverges").trials
    assert set(trials["status"]) == {"FINISHED"}
    assert set(trials["outcome"]) == {"diverged"}
    assert set(trials.loc[trials["phase"] == "search", "select/best"]) == {0.0}
    assert done.failed == 0


class FailingLearner(Learner):
    """Fails like a bug in one loss would: in every trial of one cell."""

    def epoch(self) -> Any:
        if self.spec.cell.loss == "triplet":
            raise RuntimeError("broken on purpose")
        return super().epoch()


class DyingLearner(Learner):
    """Kills its process once, in its second epoch."""

    def epoch(self) -> Any:
        mark = Path(os.environ["FAIRTRIAL_TEST_MARK"])
        if len(self.rows) == 1 and not mark.exists():
            mark.touch()
            os._exit(1)
        return super().epoch()


def slot_with(learner: type[Learner], environment: dict[str, str]) -> type:
    from trainables import datasets
    from trainables.slot import Slot

    class Altered(Slot):
        def reset_config(self, new_config: dict[str, Any]) -> bool:
            os.environ.update(environment)
            self.spec = TrialSpec.from_dict(new_config["spec"])
            self.learner = learner(self.spec, datasets.load(self.spec.cell.dataset))
            return True

    return Altered


def test_one_bad_loss_does_not_end_the_study(config: MakeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    import study.run

    monkeypatch.setattr(study.run, "Slot", slot_with(FailingLearner, {}))
    monkeypatch.setattr(study.run, "RETRIES", 0)
    both = config(name="fails", **(ONE | {"losses": ["contrastive", "triplet"]}))
    done = run_study(both, view=quiet(both))
    trials = read_study(done.tracking_uri, "fails").trials
    assert set(trials.loc[trials["loss"] == "triplet", "status"]) == {"FAILED"}
    assert set(trials.loc[trials["loss"] == "contrastive", "status"]) == {"FINISHED"}
    assert done.failed == len(trials[trials["loss"] == "triplet"]) == 3
    assert [row.loss for row in done.rankings[0].rows] == ["contrastive"]


def test_a_dead_slot_comes_back_and_its_trial_goes_on(config: MakeConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import study.run

    mark = tmp_path / "died"
    monkeypatch.setattr(study.run, "Slot", slot_with(DyingLearner, {"FAIRTRIAL_TEST_MARK": str(mark)}))
    one = config(name="dies", **ONE, epochs=4, slots=1, grace=4)
    done = run_study(one, view=quiet(one))
    assert mark.exists()
    rows = read_study(done.tracking_uri, "dies")
    assert set(rows.trials["status"]) == {"FINISHED"}
    assert len(rows.trials) == done.trials == 3
    curves = rows.curves[rows.curves["metric"] == "select/recall_at_1"]
    assert curves.groupby("run_id")["epoch"].apply(sorted).map(tuple).unique().tolist() == [(1, 2, 3, 4)]
