"""Generalisation: Recall@1 on train and on test classes, from the embedding (fc) and from the features below it (gap) (seed 004)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.places import AXES
from analysis.tables.frames import groups
from analysis.tables.table import PLACE, Cell, Column, Entry, Table, table
from analysis.tracking import StudyRows
from trainables.contract import EMBEDDINGS

FEATURES = {"fc": "embedding", "gap": "pooled"}
TEST = {"fc": "test/recall_at_1", "gap": "test/pooled_recall_at_1"}
COLUMNS = [
    *PLACE,
    Column("loss"),
    *(Column(f"{name}_{part}", f"{name} ({part})", "percent", parts=("peeks",)) for part in ("train", "test") for name in FEATURES),
    *(Column(f"{name}_drop", f"{name} train minus test", "points", parts=("peeks",)) for name in FEATURES),
]
NOTE = "Train recall is that of the seeds whose embeddings were kept, in half precision; test recall is the mean of all seeds."


def generalisation(lines: list[dict[str, Any]], note: str = NOTE) -> Table:
    """lines: by place and loss the four recalls, those that there are; what is lost from train to test is added."""
    rows = [line | dict(_drops(line)) for line in lines]
    notes = [note] if any("fc_train" in line for line in lines) else []
    return table("generalisation", "Recall@1 on train and test classes, in percent", COLUMNS, rows, notes=notes)


def _drops(line: dict[str, Any]) -> Iterator[tuple[str, Entry]]:
    for name in FEATURES:
        train, test = line.get(f"{name}_train"), line.get(f"{name}_test")
        if train is not None and test is not None:
            yield f"{name}_drop", Cell(train.value - test.value, peeks=test.peeks)


def recalls_of(rows: StudyRows) -> list[dict[str, Any]]:
    """Test recall of a loss's final trials, and train recall of those that kept their embeddings."""
    if rows.finals.empty:
        return []
    mine = rows.finals[(rows.finals["role"] == "final") & (rows.finals["rule"] != "untrained")]
    keys = [*AXES, "protocol", "loss"]
    return [about | recalls for about, trials in groups(mine, keys) if (recalls := _recalls(rows, trials))]


def _recalls(rows: StudyRows, trials: pd.DataFrame) -> dict[str, Cell]:
    peeks = bool(trials["peeks"].iloc[0])
    found = {}
    for name, metric in TEST.items():
        if metric in trials and trials[metric].notna().any():
            found[f"{name}_test"] = Cell(float(trials[metric].astype(float).mean()), peeks=peeks)
    spec = rows.specs.get(str(trials["cell"].iloc[0]))
    kept = [path for run in trials["run_id"] if spec and (path := rows.fetch(str(run), EMBEDDINGS))]
    for name, feature in FEATURES.items():
        values = [value for path in kept for value in train_recalls(path, feature, [split["train"] for split in (spec or {})["splits"]])]
        if values:
            found[f"{name}_train"] = Cell(float(np.mean(values)), peeks=peeks)  # at an epoch that the test classes chose
    return found


def train_recalls(path: Path, feature: str, train: list[list[int]]) -> list[float]:
    """Of every fold's model, on the classes that it was trained on."""
    import torch

    from trainables.metrics.retrieval import retrieval

    found = []
    with np.load(path) as kept:
        for fold, classes in enumerate(train):
            labels = kept[f"{fold}/class"]
            mine = np.isin(labels, classes)
            vectors = torch.from_numpy(kept[f"{fold}/{feature}"][mine].astype(np.float32))
            found.append(retrieval(vectors, torch.from_numpy(labels[mine]), ("recall_at_1",)).means["recall_at_1"])
    return found
