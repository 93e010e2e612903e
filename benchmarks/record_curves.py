"""Record learning curves of real search trials in benchmarks/curves.csv.

benchmarks/search.py and the tests of study/search/simulation.py replay them. Three losses train on
sketches, each with its published setting and with random draws from its search space, all of them
to the last epoch. A row holds a trial's setting and its scores on the held-out classes, epoch by
epoch; a trial that diverged has fewer epochs than the others. A second call resumes the first.

With --replicates R, the settings train R times, each time with another split and other initial
weights, into benchmarks/replicates.csv: they show how much the scores of one setting vary.
"""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from study.config.plan import expand
from study.config.study_config import StudyConfig, make
from study.presets import quickstart
from study.strategies.catalogue import STRATEGIES
from study.strategies.strategy import Setting

CURVES = Path(__file__).parent / "curves.csv"
REPLICATES = Path(__file__).parent / "replicates.csv"
METRICS = ("recall_at_1", "map_at_r")
COLUMNS = ("loss", "number", "replicate", "setting", *METRICS)
# Their scores depend on their settings, in three and in four dimensions.
LOSSES = ("margin", "multi_similarity", "proxy_anchor")
Job = tuple[str, int, int, Setting]  # loss, number of the setting, replicate, setting


def study(**changes: Any) -> StudyConfig:
    """Return the recorded study: short epochs, but as many as a search of this size would have."""
    values = {
        "losses": LOSSES,
        "protocols": ["fixed_validation"],
        "baselines": False,
        "searches": 1,
        "epochs": 24,
        "steps_per_epoch": 12,
        "lr_step": 16,
        "finalist_splits": 0,  # a race of finalists is no part of the search
    }
    return make(quickstart() | values | changes)


def record(job: Job) -> dict[str, Any]:
    """Train one trial to its last epoch, and return its row."""
    from trainables.distributed.process import prepare_process
    from trainables.inputs.features import load_data
    from trainables.training.learner import Learner

    prepare_process()
    loss, number, replicate, setting = job
    plan = expand(study(losses=[loss], searches=replicate))
    spec = plan.spec(plan.cells[0], "search", plan.search_seed(replicate), setting)
    learner = Learner(spec, load_data(spec))
    while not learner.done:
        learner.epoch()
    sound = [row.select for row in learner.rows if not row.diverged]
    rounded = {key: float(f"{value:.6g}") for key, value in setting.items()}
    scores = [" ".join(f"{select[name]:.4f}" for select in sound) for name in METRICS]
    return dict(zip(COLUMNS, (loss, number, replicate, json.dumps(rounded), *scores), strict=True))


def jobs(trials: int, replicates: int = 1) -> list[Job]:
    config, found = study(), list[Job]()
    plan = expand(config)
    for loss in LOSSES:
        strategy = STRATEGIES["random"](
            plan.space(loss),
            first=plan.published(loss),
            trials=trials,
            seed=config.seed,
        )
        settings = [strategy.suggest(str(number)) for number in range(trials)]
        found += [
            (loss, number, replicate, setting)
            for replicate in range(1, replicates + 1)
            for number, setting in enumerate(settings)
            if setting is not None
        ]
    return found


def read_replicates(metric: str) -> dict[str, NDArray[np.float64]]:
    """Return by loss the recorded scores of a metric: (settings, replicates, epochs).

    A setting that diverged in any replicate is left out.
    """
    length, curves = study().epochs, dict[str, dict[int, list[list[float]]]]()
    with REPLICATES.open(newline="") as file:
        for row in csv.DictReader(file):
            scores = [float(score) for score in row[metric].split()]
            curves.setdefault(row["loss"], {}).setdefault(int(row["number"]), []).append(scores)
    return {
        loss: np.array([own for own in each.values() if {len(one) for one in own} == {length}])
        for loss, each in curves.items()
    }


def _identity(row: Mapping[str, Any]) -> tuple[str, int, int]:
    return row["loss"], int(row["number"]), int(row.get("replicate", 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=80, help="settings of each loss")
    parser.add_argument("--replicates", type=int, default=1, help="of each setting")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    path = REPLICATES if options.replicates > 1 else CURVES
    columns = [name for name in COLUMNS if name != "replicate" or path == REPLICATES]
    rows: list[dict[str, Any]] = list(csv.DictReader(path.open())) if path.exists() else []
    recorded = set(map(_identity, rows))
    every = jobs(options.trials, options.replicates)
    left = [job for job in every if job[:3] not in recorded]
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for row in pool.imap_unordered(record, left):
            rows = sorted([*rows, row], key=_identity)
            with path.open("w", newline="") as file:
                table = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
                table.writeheader()
                table.writerows(rows)
            print(
                f"{len(rows):>4} of {len(every)}: {'/'.join(map(str, _identity(row)))}", flush=True
            )


if __name__ == "__main__":
    main()
