"""A small real MLflow store with a study of hand-made numbers."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

from analysis.tracking import Tracker

CLASSES, PER_CLASS = 6, 5
Score = Callable[[str, str, int, int, int], tuple[float, float]]  # loss, rule, seed, class, query -> recall_at_1, map_at_r


def tags(loss: str, protocol: str, rule: str, backbone: str = "tiny") -> dict[str, object]:
    cell = {"dataset": "sketches", "backbone": backbone, "embedding_size": 16, "loss": loss, "protocol": protocol}
    return {**cell, "cell": f"{backbone}/{loss}/{protocol}", "label": f"{loss}/{protocol}", "rule": rule, "peeks": rule == "best-on-test"}


def write_queries(folder: Path, loss: str, rule: str, seed: int, score: Score) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "queries.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["fold", "image", "class", "recall_at_1", "map_at_r"])
        for label in range(CLASSES):
            for query in range(PER_CLASS):
                table.writerow([0, label * PER_CLASS + query, label, *score(loss, rule, seed, label, query)])
    return folder / "queries.csv"


def write_study(folder: Path, name: str, score: Score, *, seeds: int = 3, losses: tuple[str, ...] = ("triplet", "contrastive")) -> str:
    """Two losses under both protocols and three baselines, every final trial with its queries; returns the store's uri."""
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    tracker = Tracker(uri, name, artifacts=folder / "artifacts")
    cells = [(loss, "default", "best-on-test", "tiny") for loss in losses]
    cells += [(loss, "fixed_validation", "selected-on-validation", "tiny") for loss in losses]
    cells += [("untrained", "none", "untrained", "pixels"), ("untrained", "none", "untrained", "tiny")]
    cells += [("pca", "none", "untrained", "tiny")]
    for loss, protocol, rule, backbone in cells:
        about = tags(loss, protocol, rule, backbone)
        cell = str(about["cell"])
        tracker.start_cell(cell, params={}, tags=about, files={"config.yaml": "name: x"})
        for seed in range(1 if backbone == "pixels" else seeds):
            trial = f"{cell}-{seed}"
            more = {"trial": f"final-{seed}", "phase": "final", "seed": seed}
            tracker.start_trial(trial, cell=cell, name=trial, params={"loss.margin": 0.1}, tags=about | more, files={})
            tracker.log(trial, {"select/recall_at_1": 0.5, "seconds": 1.0}, step=1)
            tracker.log(trial, {"select/recall_at_1": 0.6, "seconds": 1.0}, step=2)
            files = [write_queries(folder / "made" / trial.replace("/", "-"), loss, rule, seed, score)]
            tracker.end(trial, "FINISHED", tags={"outcome": "finished", "epochs": 2}, files=files)
        tracker.end(cell, "FINISHED")
    return uri
