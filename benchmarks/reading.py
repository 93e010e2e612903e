"""Read a study back: from its record, and from an MLflow store through MLflow's public client.

    uv run python benchmarks/reading.py                 # 5,000 trials, 100 epochs, 6 metrics
    uv run python benchmarks/reading.py --trials 500 --sample 500

Both are written in a temporary folder and read in one run. The store has only a sample of the
trials, because MLflow's client asks for every curve by itself; its time is scaled up.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from analysis import read_study
from analysis.record.events import (
    VERSION,
    AnyEvent,
    EpochDone,
    StudyFinished,
    StudyStarted,
    TrialEnded,
    TrialStarted,
    encode,
)
from analysis.record.kept_files import KEPT
from analysis.record.ledger import LEDGER
from analysis.record.specs import SPECS, digest_of
from analysis.record.trial_id import TrialId
from analysis.tables.catalogue import Study, make_table
from analysis.tracking import open_store
from analysis.tracking.write import BATCH, ENDED, SPEC, STARTED
from trainables.contract import QUERIES, Cell

STUDY = "synthetic"
METRICS = (
    "select/recall_at_1",
    "select/map_at_r",
    "select/r_precision",
    "select/recall_at_2",
    "select/best",
    "seconds",
)
LOSSES = ("triplet", "contrastive", "margin", "multi_similarity", "proxy_anchor")
FINALS = 20  # of every loss, with a row per query
TABLES = ("ranking", "retrieval", "search", "compute")
GOAL = 5.0  # core-seconds for trials and curves of 5,000 trials, from the record
SHARED = '{"splits": [{"select": [3, 4], "test": [], "train": [0, 1, 2]}], "training": {}}'
START = 1_700_000_000_000


def trial_of(number: int) -> TrialId:
    loss, turn = LOSSES[number % len(LOSSES)], number // len(LOSSES)
    cell = Cell("sketches", "tiny", 64, loss, "fixed_validation")
    return TrialId(cell, "final" if turn < FINALS else "search", turn)


def value(number: int, epoch: int) -> float:
    return (epoch * 7 + number) % 1000 / 1000


def started(number: int) -> TrialStarted:
    trial = trial_of(number)
    return TrialStarted(
        at=START + number,
        trial=str(trial),
        label=trial.cell.loss,
        seed=trial.number,
        setting={"loss.margin": (number % 97) / 97},
        tuned=True,
        epochs=100,
        rule="selected-on-validation",
        spec=digest_of(SHARED),
        extended=False,
    )


def ended(number: int, epochs: int) -> TrialEnded:
    at = START + number + 60_000
    return TrialEnded(at=at, trial=str(trial_of(number)), outcome="finished", epoch=epochs)


def story(trials: int, epochs: int) -> Iterator[AnyEvent]:
    """Yield the events of a study."""
    yield StudyStarted(
        version=VERSION,
        config={"name": STUDY},
        code={},
        data={"sketches": "f"},
        splits={},
        weights={},
        total=trials,
    )
    for number in range(trials):
        yield started(number)
        for epoch in range(1, epochs + 1):
            score = value(number, epoch)
            metrics = dict.fromkeys(METRICS, score)
            yield EpochDone(trial=str(trial_of(number)), epoch=epoch, score=score, metrics=metrics)
        yield ended(number, epochs)
    yield StudyFinished()


def write_record(folder: Path, trials: int, epochs: int) -> Path:
    """Write a study's folder without waiting for the disk after each line."""
    home = folder / STUDY
    (home / SPECS).mkdir(parents=True)
    (home / SPECS / f"{digest_of(SHARED)}.json").write_text(SHARED)
    with (home / LEDGER).open("wb") as file:
        file.writelines(encode(event) + b"\n" for event in story(trials, epochs))
    for number in range(trials):
        if trial_of(number).phase == "final":
            write_queries(home / KEPT / trial_of(number).folder)
    return home


def write_store(folder: Path, trials: int, epochs: int) -> str:
    """Write the same trials into an MLflow store by its client, and return its address."""
    from mlflow.entities import Metric

    uri = f"sqlite:///{folder / 'mlflow.db'}"
    client = open_store(uri)
    experiment = client.create_experiment(STUDY, artifact_location=(folder / "artifacts").as_uri())
    for number in range(trials):
        run = client.create_run(experiment, start_time=number, tags=run_tags(number, epochs)).info
        points = [
            Metric(name, value(number, epoch), START + epoch, epoch)
            for name in METRICS
            for epoch in range(1, epochs + 1)
        ]
        for first in range(0, len(points), BATCH):
            client.log_batch(run.run_id, metrics=points[first : first + BATCH])
        client.set_terminated(run.run_id, end_time=number + 60_000)
        files = folder / "artifacts" / run.run_id / "artifacts"
        write_queries(files)
        (files / SPEC).write_text(SHARED)
    return uri


def run_tags(number: int, epochs: int) -> dict[str, str]:
    trial = trial_of(number)
    about = {"kind": "trial", "cell": str(trial.cell), "trial": trial.name}
    about |= {"dataset": trial.cell.dataset, "data": "f"}
    about |= {STARTED: encode(started(number)).decode()}
    return about | {ENDED: encode(ended(number, epochs)).decode()}


def write_queries(folder: Path) -> None:
    folder.mkdir(parents=True)
    rows = [
        f"0,selected-on-validation,{i},{i // 5},{(i * 7) % 5 < 3:d},{(i * 3) % 10 / 10}"
        for i in range(500)
    ]
    (folder / QUERIES).write_text(
        "\n".join(["fold,rule,image,class,recall_at_1,map_at_r", *rows]) + "\n"
    )


def timed(what: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return seconds, core-seconds, which hold on a busy machine too, and the result."""
    began, cores = time.perf_counter(), time.process_time()
    found = what()
    return time.perf_counter() - began, time.process_time() - cores, found


def line(what: str, seconds: float, cores: float, note: str = "") -> None:
    print(f"{what:<56}{seconds:>9.1f} s{cores:>9.1f} core-seconds  {note}", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("--trials", type=int, default=5000)
    options.add_argument("--epochs", type=int, default=100)
    options.add_argument("--sample", type=int, default=250, help="trials in the MLflow store")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = write_record(Path(folder), chosen.trials, chosen.epochs)
        uri = write_store(Path(folder), chosen.sample, chosen.epochs)
        size = (home / LEDGER).stat().st_size / 1e6
        print(f"{chosen.trials:,} trials x {chosen.epochs} epochs, a ledger of {size:.0f} MB")
        seconds, cores, rows = timed(lambda: read_study(home))
        assert len(rows.curves) == chosen.trials * chosen.epochs * len(METRICS)
        line("from the record", seconds, cores, f"(goal {GOAL:g} core-seconds for 5,000 trials)")
        their_seconds, their_cores, theirs = timed(lambda: read_study(uri, STUDY))
        assert len(theirs.curves) == chosen.sample * chosen.epochs * len(METRICS)
        times = chosen.trials / chosen.sample
        what = f"from MLflow, {chosen.sample:,} trials, scaled up"
        line(what, their_seconds * times, their_cores * times)
        ratio = their_seconds * times / seconds, their_cores * times / cores
        print(f"{'ratio, MLflow to the record':<56}{ratio[0]:>9.1f}  {ratio[1]:>9.1f}")
        tables = timed(lambda: [make_table(name, Study(rows)) for name in TABLES])
        line("four tables", *tables[:2])


if __name__ == "__main__":
    main()
