"""A study on recorded curves drives the real searcher and the real early stopping, without training
and without a cluster.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from search_spaces import Choice, Param, Range
from study.config.plan import expand
from study.config.split_files import digest
from study.config.study_config import StudyConfig, make
from study.search import simulation
from study.search.cell_search import TrialAssignment
from study.search.searcher import StudySearcher
from study.search.simulation import Curves, SimulatedEpoch, read_curves, simulate
from tests.support import ROOT
from tests.support.studies import from_scratch
from trainables.contract import Cell

RECORDED = ROOT / "benchmarks" / "curves.csv"
LOSSES = ["margin", "multi_similarity", "proxy_anchor"]
SPACE = {
    "loss.scale": Param(paper=1, search=Range(1, 100, log=True), domain=Range(1, 100)),
    "loss.mining": Param(
        paper="none", search=Choice(("none", "hard")), domain=Choice(("none", "hard"))
    ),
}


def study(**changes: Any) -> StudyConfig:
    axes = {"losses": LOSSES, "protocols": ["fixed_validation"]}
    budget = {"epochs": 24, "grace": 2, "searches": 1, "reproductions": 2}
    return make(from_scratch() | axes | budget | changes)


def play(config: StudyConfig, *, slots: int = 1) -> list[SimulatedEpoch]:
    plan = expand(config)
    return list(simulate(plan, read_curves(RECORDED, plan), slots=slots))


def ended(steps: list[SimulatedEpoch], *, phase: str = "search") -> list[SimulatedEpoch]:
    return [step for step in steps if step.ended and step.trial.phase == phase]


def of_cell(steps: list[SimulatedEpoch], cell: Cell) -> list[SimulatedEpoch]:
    return [step for step in steps if step.trial.cell == cell]


@pytest.fixture(scope="module")
def thousand() -> list[SimulatedEpoch]:
    """1,005 search trials, 18 finalists and 12 others on four slots."""
    return play(study(search_trials=335, strategy="hyperopt"), slots=4)


@pytest.mark.slow
def test_a_thousand_trials_are_each_cells_own(thousand: list[SimulatedEpoch]) -> None:
    cells = [Cell("sketches", "tiny", 64, loss, "fixed_validation") for loss in LOSSES]
    searched = [step for step in ended(thousand) if step.trial.role == "search"]
    assert Counter(step.trial.cell for step in searched) == dict.fromkeys(cells, 335)
    for cell in cells:
        names = [step.trial.name for step in of_cell(searched, cell)]
        assert sorted(names) == sorted(f"search-{i}" for i in range(335))


def test_the_published_setting_is_first_and_is_never_stopped(
    thousand: list[SimulatedEpoch],
) -> None:
    config = study()
    plan = expand(config)
    for cell in plan.cells:
        mine = of_cell(thousand, cell)
        first = mine[0].trial
        assert first.name == "search-0"
        assert mine[0].setting == plan.published(cell.loss)
        assert [step.epoch for step in mine if step.trial == first] == list(range(1, 25))


def test_hopeless_trials_are_stopped_and_final_trials_are_not(
    thousand: list[SimulatedEpoch],
) -> None:
    epochs = Counter(step.epoch for step in ended(thousand))
    assert set(epochs) == {*expand(study()).rungs, 24}
    assert sum(epoch * count for epoch, count in epochs.items()) < 1005 * 24 / 2
    finals = ended(thousand, phase="final")
    assert {step.epoch for step in finals if "untrained" not in str(step.trial.cell)} == {24}


def test_the_final_trials_have_the_best_setting_of_the_search(
    thousand: list[SimulatedEpoch],
) -> None:
    for cell in expand(study()).cells:
        mine = of_cell(thousand, cell)
        best = max(ended(mine), key=lambda step: step.score)
        assert [step.setting for step in ended(mine, phase="final")] == [best.setting] * 2


@pytest.mark.parametrize("strategy", ["hyperopt", "random", "coordinate"])
def test_the_same_seed_on_one_slot_gives_the_same_settings_in_the_same_order(strategy: str) -> None:
    config = study(strategy=strategy, search_trials=20, losses=["margin", "proxy_anchor"])
    one, two = play(config), play(config)
    assert one == two
    assert len(ended(one)) > 20
    other = play(
        study(strategy=strategy, search_trials=20, losses=["margin", "proxy_anchor"], seed=1)
    )
    settings = [[step.setting for step in ended(steps)] for steps in (one, other)]
    assert (settings[0] == settings[1]) is (strategy == "coordinate")


@pytest.mark.parametrize("slots", [1, 3])
def test_a_sweep_that_waits_at_every_parameter_is_run_to_its_end(slots: int) -> None:
    config = study(strategy="coordinate", losses=["margin", "multi_similarity"], baselines=False)
    plan = expand(config)
    steps = play(config, slots=slots)
    counts = Counter(step.trial.cell for step in ended(steps) if step.trial.role == "search")
    assert counts == {cell: plan.search_trials(cell) for cell in plan.cells}
    assert counts[Cell("sketches", "tiny", 64, "multi_similarity", "fixed_validation")] == 122


@pytest.mark.parametrize("slots", [1, 2, 5, 9])
@pytest.mark.parametrize("strategy", ["hyperopt", "coordinate"])
def test_a_slot_stays_empty_only_while_no_cell_has_anything_to_start(
    monkeypatch: pytest.MonkeyPatch, strategy: str, slots: int
) -> None:
    """A sweep waits for its running trials, a final trial for its cell's search, a refit for its
    final trial; nothing else waits.
    """
    waits = []

    class Watched(StudySearcher):
        def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
            suggested = super().suggest(trial_id)
            if suggested is None:
                waits.append(trial_id)
                assert self.running, "what it waits for runs"
                assert not self.baselines
                for cell in self.cells.values():
                    assert not cell.refits
                    assert not cell.to_race()
                    assert not cell.to_finish or cell.to_search or cell.searching or cell.racing
                    assert not cell.to_search or (
                        cell.searching and cell.strategy.suggest("asked") is None
                    )
            return suggested

    monkeypatch.setattr(simulation, "StudySearcher", Watched)
    losses = ["margin", "proxy_anchor"]
    config = study(
        strategy=strategy,
        losses=losses,
        search_trials=6,
        search_epochs=4,
        epochs=6,
        refit=True,
        published_too=True,
    )
    plan = expand(config)
    steps = play(config, slots=slots)
    planned = sum(sum(plan.trials(cell)) for cell in plan.cells) + len(plan.baseline_cells())
    assert sum(step.ended for step in steps) == planned
    assert waits or slots < 9  # with so many slots some must wait


@pytest.mark.parametrize("protocols", [["fixed_validation", "default"], ["k_fold:4"]])
def test_every_replicate_has_its_own_split_search_and_seeds_and_all_losses_share_them(
    protocols: list[str],
) -> None:
    config = study(
        searches=3,
        reproductions=2,
        protocols=protocols,
        losses=["margin", "contrastive"],
        search_trials=3,
        epochs=6,
        search_epochs=4,
        baselines=False,
    )
    plan = expand(config)
    assigned: list[TrialAssignment] = []
    searcher = StudySearcher(plan)
    searcher.serve(assigned=assigned.append)
    while isinstance(found := searcher.suggest("one"), dict):
        searcher.on_trial_complete("one", {"score": 0.5, "done": True})
    assert found == StudySearcher.FINISHED
    honest = [each for each in assigned if not each.spec.peeks]
    splits = {(each.trial.replicate, digest(each.spec.splits)) for each in honest}
    assert len(splits) == len({split for _, split in splits}) == 3
    for replicate in plan.replicates:
        mine = [each for each in honest if each.trial.replicate == replicate]
        searched = {each.spec.seed for each in mine if each.trial.phase == "search"}
        finals = {
            loss: [
                each.spec.seed
                for each in mine
                if each.trial.phase == "final" and each.spec.cell.loss == loss
            ]
            for loss in config.losses
        }
        assert searched == {plan.search_seed(replicate)}
        assert [*finals.values()] == [list(plan.final_seeds(replicate))] * 2
    second = [each.spec.setting for each in honest if each.trial.name == "search-1-replicate2"]
    first = [each.spec.setting for each in honest if each.trial.name == "search-1"]
    assert first != second, "each replicate's searcher has its own seed"


def test_without_stopping_every_epoch_is_run() -> None:
    steps = play(study(grace=24, search_trials=10, baselines=False))
    assert len(steps) == 3 * (10 + 2) * 24


def test_search_trials_may_be_shorter_than_the_recorded_ones() -> None:
    steps = play(study(search_epochs=6, search_trials=10, baselines=False), slots=2)
    assert max(step.epoch for step in ended(steps)) == 6
    assert {step.epoch for step in ended(steps, phase="final")} == {24}


def best_of_each(config: StudyConfig) -> Iterator[tuple[bool, float]]:
    """Yield for every cell whether its best setting was stopped early, and the score that early
    stopping lost.
    """
    plan = expand(config)
    curves, steps = read_curves(RECORDED, plan), ended(play(config))
    for cell in plan.cells:
        mine = of_cell(steps, cell)
        tried = [(max(curves[cell.loss].at(step.setting)), step) for step in mine]
        score, best = max(tried, key=lambda each: each[0])
        yield best.epoch < config.epochs, score - max(step.score for _, step in tried)


@pytest.mark.slow
def test_the_best_setting_is_seldom_stopped_and_then_another_is_nearly_as_good() -> None:
    """Three quarters of all trials are stopped. With a grace of 1 the best one would be among them
    in two cells of five.
    """
    found = [
        each
        for seed in range(1, 11)
        for each in best_of_each(study(seed=seed, search_trials=20, baselines=False))
    ]
    stopped, lost = zip(*found, strict=True)
    assert fmean(stopped) <= 0.25
    assert fmean(lost) <= 0.004


def test_a_recorded_setting_has_its_recorded_curve() -> None:
    config = study()
    for curves in read_curves(RECORDED, expand(config)).values():
        for setting, scores in zip(curves.settings, curves.scores, strict=True):
            assert curves.at(setting) == scores


def test_between_recorded_settings_the_nearest_count_by_inverse_squared_distance() -> None:
    settings = [{"loss.scale": scale, "loss.mining": "none"} for scale in (1.0, 10.0, 100.0)] + [
        {"loss.scale": 1.0, "loss.mining": "hard"}
    ]
    curves = Curves(
        SPACE,
        [*settings, {"loss.scale": 100.0, "loss.mining": "hard"}],
        [[1.0], [2.0], [3.0], [4.0], [99.0]],
    )
    # From scale 10**0.5: a quarter of the range to 1 and to 10, three quarters to 100, and 1 more
    # across to the other choice.
    weights = [16, 16, 16 / 9, 1 / (1 / 16 + 1)]
    expected = sum(
        weight * score for weight, score in zip(weights, (1, 2, 3, 4), strict=True)
    ) / sum(weights)
    assert curves.at({"loss.scale": 10**0.5, "loss.mining": "none"}) == [pytest.approx(expected)]


def test_a_trial_that_diverged_has_the_worst_score_throughout(tmp_path: Path) -> None:
    file = tmp_path / "curves.csv"
    rows = [
        'margin,0,"{""loss.margin"": 0.2}",0.1 0.2 0.3,0.1 0.2 0.3',
        'margin,1,"{""loss.margin"": 0.9}",0.1,0.1',
    ]
    file.write_text("\n".join(["loss,number,setting,recall_at_1,map_at_r", *rows, ""]))
    assert read_curves(file, expand(study()))["margin"].scores == [[0.1, 0.2, 0.3], [0.0, 0.0, 0.0]]


def test_a_simulation_needs_no_torch() -> None:
    code = (
        "import sys; from tests.study.search.test_simulation import play, study; "
        "print(len(play(study(search_trials=4, losses=['margin'])))); print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    steps, torch = done.stdout.split()
    # The published setting, three others up to the first rung, two final trials.
    assert int(steps) >= 24 + 3 * 2 + 2 * 24
    assert torch == "False"
