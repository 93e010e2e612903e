"""Make the table of Recall@1 on train and on test classes, from the embedding (fc) and from the
features below it (gap).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.ranking.measurement import Measurement
from analysis.record.frames import StudyRows
from analysis.tables.frames import LOSS_KEYS, groups, replicate_mean
from analysis.tables.scores import own
from analysis.tables.table import COMPARISON_COLUMNS, Column, Content, Table, measured, table
from trainables.contract import EMBEDDINGS

FEATURES = {"fc": "embedding", "gap": "pooled"}
TEST = {"recall_at_1": "fc_test", "pooled_recall_at_1": "gap_test"}
COLUMNS = [
    *COMPARISON_COLUMNS,
    Column("loss"),
    Column("rule"),
    *(
        measured(f"{name}_{part}", f"{name} ({part})")
        for part in ("train", "test")
        for name in FEATURES
    ),
    *(
        Column(f"{name}_drop", f"{name} train minus test", "points", parts=("rule", "peeks"))
        for name in FEATURES
    ),
]
NOTE = (
    "Train recall is that of the trials that kept their embeddings, each on its own train classes, "
    "so it and the loss from train to test have no interval; test recall is the mean over "
    "replicates, with the interval of the ranking."
)


def generalisation(lines: list[dict[str, Any]], note: str = NOTE) -> Table:
    """Return a row per loss, with what is lost from train to test.

    lines: by comparison and loss those of the four recalls that are known.
    """
    rows = [line | dict(_drops(line)) for line in lines]
    notes = [note] if any("fc_train" in line for line in lines) else []
    return table(
        "generalisation",
        "Recall@1 on train and test classes, in percent",
        COLUMNS,
        rows,
        notes=notes,
    )


def _drops(line: dict[str, Any]) -> Iterator[tuple[str, Content]]:
    for name in FEATURES:
        train, test = line.get(f"{name}_train"), line.get(f"{name}_test")
        if train is not None and test is not None:
            yield (
                f"{name}_drop",
                Measurement(train.value - test.value, rule=test.rule, peeks=test.peeks),
            )


def recalls_of(rows: StudyRows, found: pd.DataFrame) -> list[dict[str, Any]]:
    """Return test recall of a loss's own final trials, and train recall of those that kept their
    embeddings. found: the study's scores.
    """
    mine = own(found)
    mine, lines = mine[mine["metric"].isin(list(TEST))], []
    for about, part in groups(mine, LOSS_KEYS):
        trials = rows.finals[
            (rows.finals[LOSS_KEYS] == list(about.values())).all(axis=1)
            & (rows.finals["role"] == "final")
        ]
        test = {
            TEST[metric]: number
            for metric, number in zip(part["metric"], part["measurement"], strict=True)
        }
        rule, peeks = (getattr(part["measurement"].iloc[0], name) for name in ("rule", "peeks"))
        train = {
            name: Measurement(value, rule=rule, peeks=peeks)
            for name, value in _train(rows, trials).items()
        }  # at the same epoch
        lines.append({**about, "rule": rule, **test, **train})
    return lines


def _train(rows: StudyRows, trials: pd.DataFrame) -> dict[str, float]:
    """Score each trial on its own train classes: every replicate may have others."""
    found = {}
    kept = {
        run: path for run in map(str, trials["run_id"]) if (path := rows.fetch(run, EMBEDDINGS))
    }
    train = {run: [split["train"] for split in rows.spec(run).get("splits", [])] for run in kept}
    for name, feature in FEATURES.items():
        values = {
            run: float(np.mean(recalls))
            for run, path in kept.items()
            if (recalls := train_recalls(path, feature, train[run]))
        }
        if (mean := replicate_mean(trials, values)) is not None:
            found[f"{name}_train"] = mean
    return found


def train_recalls(path: Path, feature: str, train: list[list[int]]) -> list[float]:
    """Return the Recall@1 of every fold's model on the classes that it was trained on."""
    import torch

    from trainables.metrics.retrieval import score_retrieval

    found = []
    with np.load(path) as kept:
        for fold, classes in enumerate(train):
            labels = kept[f"{fold}/class"]
            mine = np.isin(labels, classes)
            vectors = torch.from_numpy(kept[f"{fold}/{feature}"][mine].astype(np.float32))
            found.append(
                score_retrieval(vectors, torch.from_numpy(labels[mine]), ("recall_at_1",)).means[
                    "recall_at_1"
                ]
            )
    return found
