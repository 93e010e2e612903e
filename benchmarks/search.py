"""What search and early stopping save: the epochs in which HyperOpt with ASHA reaches the best score of random search without stopping.

Training is replayed from recorded curves (benchmarks/curves.csv, made by benchmarks/record_curves.py); the searcher and the early
stopping are those of a study, driven by study/simulation.py on one slot. Random search tries its settings, the published one first, all
of them to the last epoch, and its best score is the target. HyperOpt with ASHA starts anew with the same seed and ends when one of its
trials has that score; it has lost (ratio 0) if it has not when it has used as many epochs. The first ratio is to all epochs of the random
search, which cannot know that its best is behind it; the second, stricter one to those until it first had its best score.

Grace and reduction are the quickstart's unless told otherwise. Seeds begin at 1: with seed 0 the random search would draw the recorded
settings themselves. The random start of 12 (study/strategies.py) was chosen on these curves, with other seeds.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
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


def scores(epochs: int, **changes: Any) -> Iterator[float]:
    """The score after each of this many epochs of search."""
    config = study(**changes)
    steps = (step for step in simulate(config, read_curves(CURVES, config)) if step.trial.startswith("search"))
    return (step.score for step in islice(steps, epochs))


def race(loss: str, seed: int, options: argparse.Namespace) -> Race:
    common = {"losses": [loss], "seed": seed, "reproductions": 1, "select_metric": options.metric}
    length = study().epochs
    slow = list(scores(options.trials * length, **common, strategy="random", search_trials=options.trials, grace=length))
    quick = {"strategy": "hyperopt", "search_trials": 4 * options.trials, "grace": options.grace, "reduction": options.reduction}
    best, fast = max(slow), enumerate(scores(len(slow), **common, **quick), start=1)
    ours = next((number for number, score in fast if score >= best), math.inf)
    return Race(len(slow), slow.index(best) + 1, ours)


def thousand() -> str:
    """How long as many simulated search trials take, of three losses on four slots."""
    config = study(search_trials=335)
    clock, core = time.perf_counter(), time.process_time()
    steps = simulate(config, read_curves(CURVES, config), slots=4)
    trials = sum(step.ended and step.trial.startswith("search") for step in steps)
    return f"{trials:,} simulated trials: {time.perf_counter() - clock:.0f} seconds, {time.process_time() - core:.0f} of a core"


def show(name: str, races: list[Race]) -> None:
    ratios = [each.random / each.ours for each in races]
    strict = [each.random_until_best / each.ours for each in races]
    low, _, high = quantiles(ratios, n=4)
    spread = f"{median(ratios):.1f} [{low:.1f}, {high:.1f}]"
    never = f"{sum(math.isinf(each.ours) for each in races)} of {len(races)}"
    print(f"{name:<18}{races[0].random:>8}{median(each.ours for each in races):>8.0f}{spread:>18}{median(strict):>10.1f}{never:>12}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=64, help="of the random search")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--grace", type=int, default=study().grace)
    parser.add_argument("--reduction", type=int, default=study().reduction)
    parser.add_argument("--metric", default="map_at_r", help="map_at_r or recall_at_1")
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    print(thousand())
    stopping = f"grace {options.grace}, reduction {options.reduction}"
    print(f"{options.trials} random settings, {options.metric}, {stopping}, seeds {seeds[0]} to {seeds[-1]}:")
    print(
        "epochs of the random search, of ours until it is as good (median), and the ratio (median and quartiles); never: not in so many\n"
    )
    print(f"{'loss':<18}{'random':>8}{'ours':>8}{'ratio':>18}{'stricter':>10}{'never':>12}")
    everyone: list[Race] = []
    for loss in LOSSES:
        races = [race(loss, seed, options) for seed in seeds]
        show(loss, races)
        everyone += races
    show("all", everyone)


if __name__ == "__main__":
    main()
