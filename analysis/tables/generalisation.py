"""Generalisation: Recall@1 on train and on test classes, from the embedding (fc) and from the features below it (gap) (seed 004)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.places import AXES
from analysis.tables.frames import groups
from analysis.tables.scores import own
from analysis.tables.table import PLACE, Cell, Column, Entry, Table, measured, table
from analysis.tracking import StudyRows
from trainables.contract import EMBEDDINGS

KEYS = [*AXES, "protocol", "loss"]
FEATURES = {"fc": "embedding", "gap": "pooled"}
TEST = {"recall_at_1": "fc_test", "pooled_recall_at_1": "gap_test"}
COLUMNS = [
    *PLACE,
    Column("loss"),
    Column("rule"),
    *(measured(f"{name}_{part}", f"{name} ({part})") for part in ("train", "test") for name in FEATURES),
    *(Column(f"{name}_drop", f"{name} train minus test", "points", parts=("rule", "peeks")) for name in FEATURES),
]
NOTE = (
    "Train recall is that of the seeds whose embeddings were kept, in half precision, so it and what is lost have no interval;"
    " test recall is the mean of all seeds, its interval that of the ranking."
)


def generalisation(lines: list[dict[str, Any]], note: str = NOTE) -> Table:
    """lines: by place and loss the four recalls, those that there are; what is lost from train to test is added."""
    rows = [line | dict(_drops(line)) for line in lines]
    notes = [note] if any("fc_train" in line for line in lines) else []
    return table("generalisation", "Recall@1 on train and test classes, in percent", COLUMNS, rows, notes=notes)


def _drops(line: dict[str, Any]) -> Iterator[tuple[str, Entry]]:
    for name in FEATURES:
        train, test = line.get(f"{name}_train"), line.get(f"{name}_test")
        if train is not None and test is not None:
            yield f"{name}_drop", Cell(train.value - test.value, rule=test.rule, peeks=test.peeks)


def recalls_of(rows: StudyRows, found: pd.DataFrame) -> list[dict[str, Any]]:
    """Test recall of a loss's own final trials, and train recall of those that kept their embeddings; found: the study's scores."""
    mine = own(found)
    mine, lines = mine[mine["metric"].isin(list(TEST))], []
    for about, part in groups(mine, KEYS):
        trials = rows.finals[(rows.finals[KEYS] == list(about.values())).all(axis=1) & (rows.finals["role"] == "final")]
        test = {TEST[metric]: cell for metric, cell in zip(part["metric"], part["cell"], strict=True)}
        rule, peeks = part["cell"].iloc[0].rule, part["cell"].iloc[0].peeks
        train = {name: Cell(value, rule=rule, peeks=peeks) for name, value in _train(rows, trials).items()}  # at the same epoch
        lines.append({**about, "rule": rule, **test, **train})
    return lines


def _train(rows: StudyRows, trials: pd.DataFrame) -> dict[str, float]:
    """Each trial on its own train classes: with resplit every seed has others."""
    found = {}
    kept = {run: path for run in map(str, trials["run_id"]) if (path := rows.fetch(run, EMBEDDINGS))}
    train = {run: [split["train"] for split in rows.spec(run).get("splits", [])] for run in kept}
    for name, feature in FEATURES.items():
        values = [value for run, path in kept.items() for value in train_recalls(path, feature, train[run])]
        if values:
            found[f"{name}_train"] = float(np.mean(values))
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
