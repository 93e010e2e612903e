"""Records the learning curves that benchmarks/search.py and the tests of study/simulation.py replay: benchmarks/curves.csv.

Real search trials of three losses on sketches, each with its published setting and with random draws from its search space, all of
them to the last epoch. One row per trial: its setting, and its scores on the held-out classes epoch by epoch; a row with fewer epochs
than the others is of a trial that diverged. A second call goes on where the first was ended.
"""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
from pathlib import Path
from typing import Any

from study.config import StudyConfig, make
from study.presets import quickstart
from study.strategies import STRATEGIES, Setting

CURVES = Path(__file__).parent / "curves.csv"
COLUMNS = ("loss", "number", "setting", "recall_at_1", "map_at_r")
LOSSES = ("margin", "multi_similarity", "proxy_anchor")  # their scores depend on their settings, in three and in four dimensions
Job = tuple[str, int, Setting]


def study(**changes: Any) -> StudyConfig:
    """What was recorded: short epochs, but as many as a search of this size would have."""
    values = {"losses": LOSSES, "protocols": ["fixed_validation"], "baselines": False, "epochs": 24, "steps_per_epoch": 12, "lr_step": 16}
    return make(quickstart() | values | changes)


def record(job: Job) -> list[Any]:
    from trainables.datasets.pixels import load
    from trainables.learner import Learner
    from trainables.process import settle

    settle()
    loss, number, setting = job
    config = study(losses=[loss])
    spec = config.spec(config.cells()[0], "search", config.seed, setting)
    learner = Learner(spec, load(spec.origin, spec.look.cache_size))
    while not learner.done:
        learner.epoch()
    sound = [row.select for row in learner.rows if not row.diverged]
    scores = [" ".join(f"{select[name]:.4f}" for select in sound) for name in ("recall_at_1", "map_at_r")]
    return [loss, number, json.dumps({key: float(f"{value:.6g}") for key, value in setting.items()}), *scores]


def jobs(trials: int) -> list[Job]:
    config, found = study(), []
    for loss in LOSSES:
        strategy = STRATEGIES["random"](config.space(loss), first=config.published(loss), trials=trials, seed=config.seed)
        found += [(loss, number, strategy.suggest(str(number))) for number in range(trials)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=80, help="of each loss")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    rows = list(csv.reader(CURVES.open()))[1:] if CURVES.exists() else []
    there = {(row[0], int(row[1])) for row in rows}
    left = [job for job in jobs(options.trials) if job[:2] not in there]
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for row in pool.imap_unordered(record, left):
            rows = sorted([*rows, [str(part) for part in row]], key=lambda row: (row[0], int(row[1])))
            with CURVES.open("w", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])
            print(f"{len(rows):>4} of {options.trials * len(LOSSES)}: {row[0]} {row[1]}", flush=True)


if __name__ == "__main__":
    main()
