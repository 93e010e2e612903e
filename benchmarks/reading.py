"""Reading a study back: trials and curves in bulk, beside mlflow.search_runs and get_metric_history on the same store.

    uv run python benchmarks/reading.py                 # 5,000 trials, 100 epochs, 6 metrics; MLflow's histories of 250 trials, scaled up
    uv run python benchmarks/reading.py --trials 500 --sample 500

The store is made by bulk SQL in a temporary folder. Both ways are timed in one run on the same store; the figure is their ratio.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from analysis.tables.catalogue import Study, make_table
from analysis.tracking import open_store, read_study

STUDY = "made"
METRICS = ("select/recall_at_1", "select/map_at_r", "select/r_precision", "select/recall_at_2", "select/best", "seconds")
LOSSES = ("triplet", "contrastive", "margin", "multi_similarity", "proxy_anchor")
FINALS = 20  # of every loss, with a row per query
TABLES = ("ranking", "retrieval", "search", "compute")
GOAL = 20.0  # seconds for trials and curves of 5,000 trials


def make_store(folder: Path, trials: int, epochs: int) -> str:
    """A study of so many trials as a recorder leaves it, without going through MLflow for every row."""
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    experiment = open_store(uri).create_experiment(STUDY, artifact_location=(folder / "artifacts").as_uri())
    with sqlite3.connect(folder / "mlflow.db") as database:
        database.executescript("PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF; PRAGMA cache_size = -400000")
        runs = [f"{i:032x}" for i in range(trials)]
        names = ("run_uuid", "name", "status", "start_time", "end_time", "artifact_uri", "experiment_id", "lifecycle_stage", "user_id")
        about = [
            (run, run, "FINISHED", i, i + 60_000, (folder / "artifacts" / run).as_uri(), experiment, "active", "made")
            for i, run in enumerate(runs)
        ]
        insert(database, "runs", names, about)
        insert(
            database,
            "tags",
            ("key", "value", "run_uuid"),
            ((key, str(value), run) for i, run in enumerate(runs) for key, value in tags(i).items()),
        )
        insert(database, "params", ("key", "value", "run_uuid"), (("loss.margin", str((i % 97) / 97), run) for i, run in enumerate(runs)))
        insert(database, "latest_metrics", POINT, (point(run, name, epochs, i) for i, run in enumerate(runs) for name in METRICS))
        insert(database, "metrics", POINT, points(runs, epochs))
    for i, run in enumerate(runs):
        if tags(i)["phase"] == "final":
            write_queries(folder / "artifacts" / run)
    return uri


POINT = ("key", "value", "timestamp", "run_uuid", "step", "is_nan")


def insert(database: sqlite3.Connection, table: str, names: tuple[str, ...], rows: Any) -> None:
    database.executemany(f"insert into {table} ({', '.join(names)}) values ({', '.join('?' * len(names))})", rows)


def points(runs: list[str], epochs: int) -> Iterator[tuple[Any, ...]]:
    for i, run in enumerate(runs):
        for name in METRICS:
            for epoch in range(1, epochs + 1):
                yield point(run, name, epoch, i)


def point(run: str, name: str, epoch: int, number: int) -> tuple[Any, ...]:
    return (name, (epoch * 7 + number) % 1000 / 1000, 1_700_000_000_000 + epoch, run, epoch, 0)


def tags(number: int) -> dict[str, Any]:
    loss, turn = LOSSES[number % len(LOSSES)], number // len(LOSSES)
    role = "final" if turn < FINALS else "search"
    cell = {"dataset": "sketches", "backbone": "tiny", "embedding_size": 64, "loss": loss, "protocol": "fixed_validation"}
    told = {
        "kind": "trial",
        "study": STUDY,
        "cell": f"sketches/tiny-64/{loss}/fixed_validation",
        "label": loss,
        "rule": "selected-on-validation",
    }
    more = {"trial": f"{role}-{turn}", "phase": role, "seed": turn, "peeks": False, "tuned": True, "split": "one", "folds": 1}
    return {**cell, **told, **more, "outcome": "finished", "epochs": 100, "git": "unknown", "versions": "unknown"}


def write_queries(folder: Path) -> None:
    folder.mkdir(parents=True)
    rows = [f"0,selected-on-validation,{i},{i // 5},{(i * 7) % 5 < 3:d},{(i * 3) % 10 / 10}" for i in range(500)]
    (folder / "queries.csv").write_text("\n".join(["fold,rule,image,class,recall_at_1,map_at_r", *rows]) + "\n")


def mlflow_frame(uri: str) -> list[str]:
    import mlflow

    mlflow.set_tracking_uri(uri)
    frame = mlflow.search_runs(experiment_names=[STUDY], filter_string="tags.kind = 'trial'", max_results=50_000)
    return [str(run) for run in frame["run_id"]]


def mlflow_histories(uri: str, runs: list[str]) -> int:
    client = open_store(uri)
    return sum(len(client.get_metric_history(run, name)) for run in runs for name in METRICS)


def timed(what: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds by the clock, and of this process's cores: a machine may have other work."""
    started, cores = time.perf_counter(), time.process_time()
    found = what()
    return time.perf_counter() - started, time.process_time() - cores, found


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("--trials", type=int, default=5000)
    options.add_argument("--epochs", type=int, default=100)
    options.add_argument("--sample", type=int, default=250, help="trials whose histories MLflow is asked for; its time is scaled up")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made, _, uri = timed(lambda: make_store(Path(folder), chosen.trials, chosen.epochs))
        size = chosen.trials * chosen.epochs * len(METRICS)
        print(f"made {chosen.trials:,} trials and {size:,} points in {made:.1f} s", flush=True)
        ours, our_cores, rows = timed(lambda: read_study(uri, STUDY))
        assert (len(rows.trials), len(rows.curves)) == (chosen.trials, size)
        line("read_study: trials, curves, queries", ours, our_cores, f"(goal {GOAL:g} s for 5,000 trials)")
        frame, frame_cores, runs = timed(lambda: mlflow_frame(uri))
        line("mlflow.search_runs", frame, frame_cores)
        sample = runs[:: max(1, len(runs) // chosen.sample)][: chosen.sample]
        part, part_cores, count = timed(lambda: mlflow_histories(uri, sample))
        assert count == len(sample) * chosen.epochs * len(METRICS)
        times = len(runs) / len(sample)
        line(f"get_metric_history of {len(sample):,} trials, scaled up", part * times, part_cores * times)
        line("ratio, MLflow's way to ours", (frame + part * times) / ours, (frame_cores + part_cores * times) / our_cores)
        line("four tables", *timed(lambda: [make_table(name, study) for study in [Study(rows)] for name in TABLES])[:2])


def line(what: str, clock: float, cores: float, more: str = "") -> None:
    print(f"{what:<52} {clock:8.1f} by the clock {cores:8.1f} of cores  {more}".rstrip(), flush=True)


if __name__ == "__main__":
    main()
