"""What search and early stopping save: the epochs in which HyperOpt with ASHA reaches the best score of random search without stopping.

Training is replayed from recorded curves (benchmarks/curves.csv, made by benchmarks/record_curves.py); the searcher and the early
stopping are those of a study, driven by study/simulation.py on one slot. Random search tries its settings, the published one first, all
of them to the last epoch, and its best score is the target. HyperOpt with ASHA starts anew with the same seed and ends when one of its
trials has that score; it has lost (ratio 0) if it has not when it has used as many epochs. The first ratio is to all epochs of the random
search, which cannot know that its best is behind it; the second, stricter one to those until it first had its best score.
"""

from __future__ import annotations

import argparse
import math
from itertools import islice
from statistics import median, quantiles
from typing import Any, NamedTuple

from record_curves import CURVES, LOSSES, study

from study.simulation import read_curves, simulate


class Race(NamedTuple):
    """Epochs."""

    random: int
    random_until_best: int
    ours: float  # infinite: not in as many as random search had


def scores(epochs: int, **changes: Any) -> list[float]:
    """The best score so far after each of this many epochs of search."""
    config = study(**changes)
    steps = (step for step in simulate(config, read_curves(CURVES, config)) if step.trial.startswith("search"))
    found: list[float] = []
    for step in islice(steps, epochs):
        found.append(max(step.score, found[-1] if found else 0.0))
    return found


def race(loss: str, seed: int, options: argparse.Namespace) -> Race:
    common = {"losses": [loss], "seed": seed, "reproductions": 1, "select_metric": options.metric}
    length = study().epochs
    slow = scores(options.trials * length, **common, strategy="random", search_trials=options.trials, grace=length)
    quick = {"strategy": "hyperopt", "search_trials": 4 * options.trials, "grace": options.grace, "reduction": options.reduction}
    fast = scores(len(slow), **common, **quick)
    reached = [number for number, score in enumerate(fast, start=1) if score >= slow[-1]]
    return Race(len(slow), slow.index(slow[-1]) + 1, reached[0] if reached else math.inf)


def show(name: str, races: list[Race]) -> None:
    ratios = [each.random / each.ours for each in races]
    strict = [each.random_until_best / each.ours for each in races]
    low, _, high = quantiles(ratios, n=4)
    spread = f"{median(ratios):.1f} [{low:.1f}, {high:.1f}]"
    reached = f"{sum(math.isfinite(each.ours) for each in races)} of {len(races)}"
    print(f"{name:<18}{races[0].random:>8}{median(each.ours for each in races):>8.0f}{spread:>18}{median(strict):>10.1f}{reached:>12}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=64, help="of the random search")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--grace", type=int, default=3)
    parser.add_argument("--reduction", type=int, default=3)
    parser.add_argument("--metric", default="map_at_r", help="map_at_r or recall_at_1")
    options = parser.parse_args()
    print(
        f"{options.trials} random settings, {options.metric}, grace {options.grace}, reduction {options.reduction}, {options.seeds} seeds:"
    )
    print("epochs of the random search, of ours until it is as good (median), and the ratio (median and quartiles)\n")
    print(f"{'loss':<18}{'random':>8}{'ours':>8}{'ratio':>18}{'stricter':>10}{'reached':>12}")
    everyone: list[Race] = []
    for loss in LOSSES:
        races = [race(loss, seed, options) for seed in range(options.seeds)]
        show(loss, races)
        everyone += races
    show("all", everyone)


if __name__ == "__main__":
    main()
