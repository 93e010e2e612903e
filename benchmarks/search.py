"""Measure what early stopping and HyperOpt are worth, each alone and together, at equal epochs.

Four searches (random, random + ASHA, HyperOpt, HyperOpt + ASHA) spend the same number of epochs.
Training is replayed from recorded curves (benchmarks/curves.csv); the searcher and the early
stopping are those of a study, driven by study/search/simulation.py on one slot. Every trial's score
carries the noise of one replicate: a curve by which recorded trials of one setting differ from each
other over splits and initial weights (benchmarks/replicates.csv), beyond what the split does to all
settings. Regret is the noiseless score of the best recorded setting minus that of the setting with
the best noisy score so far, in points.

A budget of n trials is n times all epochs. A search with ASHA has as many trials as are expected to
take that. The ratio is strict: the epochs after which random search has, on average, the regret
with which it ends, by those after which the other search has it. Another table has the first rung
at other epochs, where the number of trials is the same.

Seeds begin at 1: with seed 0 random search would draw the recorded settings themselves.
benchmarks/record_curves.py makes both files.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from record_curves import CURVES, LOSSES, read_replicates, study

from search_spaces import Value
from study.config.budget import expected_search, grace
from study.config.plan import StudyPlan, expand
from study.search.simulation import Curves, read_curves, simulate

Regrets = NDArray[np.float64]  # (searches, epochs): of every seed and loss after every epoch
RANDOM = "random"
# Strategy, and whether trials are stopped early.
SEARCHES = {
    RANDOM: ("random", False),
    "random + ASHA": ("random", True),
    "hyperopt": ("hyperopt", False),
    "hyperopt + ASHA": ("hyperopt", True),
}
RESAMPLES = 400
ROW = "{:<17}" + "{:>9}" * 3 + "{:>16}{:>22}"
RUNG = "{:<17}" + "{:>9}" * 3
COLUMNS = ("trials", "regret", "+/-", "regret halfway", "times fewer epochs")


@dataclass(frozen=True)
class NoisyCurves(Curves):
    """Add to each setting's curve how a recorded replicate departed from the mean."""

    departures: Sequence[Sequence[float]]
    seed: int

    def at(self, setting: Mapping[str, Value]) -> list[float]:
        curve = super().at(setting)
        if not any(curve):  # it diverges
            return curve
        drawn = random.Random(f"{self.seed} {sorted(setting.items())}").choice(self.departures)
        return [score + more for score, more in zip(curve, drawn, strict=True)]


def departures(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how each trial departs from its setting's mean beyond what its replicate does to all.

    scores: (settings, replicates, epochs). The result has a curve per row, and the variance that a
    single trial has.
    """
    settings, replicates, epochs = scores.shape
    rest = scores - scores.mean(0) - scores.mean(1, keepdims=True) + scores.mean((0, 1))
    free = (settings - 1) * (replicates - 1) / (settings * replicates)
    return (rest / np.sqrt(free)).reshape(-1, epochs)


def noisy(plan: StudyPlan, seed: int, *, noise: float) -> dict[str, Curves]:
    """Return the recorded curves, with the noise of the replicate that has this seed."""
    recorded = read_replicates(plan.config.select_metric)
    return {
        loss: NoisyCurves(
            curves.space,
            curves.settings,
            curves.scores,
            (noise * departures(recorded[loss])).tolist(),
            seed,
        )
        for loss, curves in read_curves(CURVES, plan).items()
        if loss in plan.config.losses
    }


def trials_for(epochs: int, **changes: Any) -> int:
    """Return how many trials a search with early stopping has for this many expected epochs."""
    config, trials = study(**changes), 1
    while expected_search(config, trials + 1) <= epochs:
        trials += 1
    return trials


def regrets(
    loss: str, seed: int, *, budget: int, changes: Mapping[str, Any], noise: float
) -> list[float]:
    """Return the regret after each epoch of one search."""
    plan = expand(study(losses=[loss], seed=seed, reproductions=1, **changes))
    curves = noisy(plan, seed, noise=noise)
    truth = cache(lambda items: max(Curves.at(curves[loss], dict(items))))
    best = max(truth(tuple(setting.items())) for setting in curves[loss].settings)
    found, leading = list[float](), -np.inf
    steps = (step for step in simulate(plan, curves) if step.trial.phase == "search")
    for step in islice(steps, budget):
        if step.score > leading:
            leading, regret = step.score, best - truth(tuple(step.setting.items()))
        found.append(100 * regret)
    return found


def run(changes: Mapping[str, Any], budget: int, options: argparse.Namespace) -> list[list[float]]:
    """Return the regrets of a search with every seed and loss, until its trials are over."""
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    values = {"select_metric": options.metric, "reduction": options.reduction, **changes}
    return [
        regrets(loss, seed, budget=budget, changes=values, noise=options.noise)
        for seed in seeds
        for loss in LOSSES
    ]


def at_equal_epochs(name: str, trials: int, options: argparse.Namespace) -> tuple[int, Regrets]:
    """Return a search's number of trials, and its regrets after each epoch of the budget."""
    strategy, stops = SEARCHES[name]
    length = study().epochs
    budget, first_rung = trials * length, options.grace if stops else length
    stopping = {"grace": first_rung, "reduction": options.reduction}
    count = trials_for(budget, **stopping) if stops else trials
    changes = {"strategy": strategy, "grace": first_rung, "search_trials": count}
    found = run(changes, budget, options)
    return count, np.array([each + each[-1:] * (budget - len(each)) for each in found])


def epochs_to(target: float, found: Regrets) -> float:
    """Return after how many epochs the mean regret is at most `target` and stays there; infinite if
    it ends above.
    """
    (late,) = np.nonzero(found.mean(0) > target + 1e-12)
    if not len(late):
        return 1.0
    return np.inf if late[-1] == found.shape[1] - 1 else float(late[-1] + 2)


def strict_ratio(slow: Regrets, other: Regrets) -> float:
    """Return how many times fewer epochs `other` takes to the regret with which `slow` ends.

    Zero: it takes more than there are.
    """
    target = float(slow[:, -1].mean())
    return epochs_to(target, slow) / epochs_to(target, other)


def interval(slow: Regrets, other: Regrets, *, seeds: int) -> tuple[float, float]:
    """Return 95 % of the ratios with resampled seeds; a seed's losses stay together."""
    rng = np.random.default_rng(0)
    rows = np.arange(len(slow)).reshape(seeds, -1)
    drawn = (rows[rng.integers(seeds, size=seeds)].ravel() for _ in range(RESAMPLES))
    ratios = [strict_ratio(slow[some], other[some]) for some in drawn]
    low, high = np.quantile(ratios, (0.025, 0.975))
    return float(low), float(high)


def table(trials: int, options: argparse.Namespace) -> float:
    """Print the four searches of one budget, and return the last one's ratio."""
    print(f"\nbudget: {trials} trials of {study().epochs} epochs")
    print(ROW.format("search", *COLUMNS))
    slow: Regrets | None = None
    for name in SEARCHES:
        count, found = at_equal_epochs(name, trials, options)
        slow = found if slow is None else slow
        ends = found[:, -1].reshape(options.seeds, -1).mean(1)
        error = ends.std(ddof=1) / np.sqrt(len(ends))
        ratio = strict_ratio(slow, found)
        low, high = interval(slow, found, seeds=options.seeds)
        numbers = (
            f"{ends.mean():.2f}",
            f"{error:.2f}",
            f"{found[:, found.shape[1] // 2].mean():.2f}",
        )
        less = "1" if name == RANDOM else f"{ratio:.1f} [{low:.1f}, {high:.1f}]"
        print(ROW.format(name, count, *numbers, less), flush=True)
    return ratio


def first_rungs(trials: int, options: argparse.Namespace) -> None:
    """Print what the first rung costs and saves where the number of trials is the same."""
    print(f"\nhyperopt with {trials} trials, by the epoch of the first rung")
    print(RUNG.format("first rung", "epochs", "regret", "+/-"))
    length = study().epochs
    for rung in sorted({2, length // 4, length // 2, length}):
        changes = {"strategy": "hyperopt", "grace": rung, "search_trials": trials}
        found = run(changes, trials * length, options)
        ends = np.array([each[-1] for each in found]).reshape(options.seeds, -1).mean(1)
        epochs, error = np.mean([len(each) for each in found]), ends.std(ddof=1) / len(ends) ** 0.5
        name = "never" if rung == length else rung
        print(RUNG.format(name, f"{epochs:.0f}", f"{ends.mean():.2f}", f"{error:.2f}"), flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budgets", type=int, nargs="+", default=[8, 16, 32, 64], help="in trials")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument(
        "--grace", type=int, default=grace(study()), help="epochs of the first rung"
    )
    parser.add_argument("--reduction", type=int, default=study().reduction)
    parser.add_argument("--metric", default=study().select_metric, help="map_at_r or recall_at_1")
    parser.add_argument("--noise", type=float, default=1.0, help="times the recorded; 0: none")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    print(
        f"Regret in points of {options.metric} on {Path(CURVES).name} ({', '.join(LOSSES)}), "
        f"grace {options.grace}, reduction {options.reduction}, noise x {options.noise:g}, "
        f"{options.seeds} seeds"
    )
    for trials in options.budgets[:2]:
        first_rungs(trials, options)
    ratios = {trials: table(trials, options) for trials in options.budgets}
    shown = ", ".join(f"{ratio:.1f} at {trials}" for trials, ratio in ratios.items())
    print(f"\nTimes fewer epochs than random search, to the same regret, by trials: {shown}.")


if __name__ == "__main__":
    main()
