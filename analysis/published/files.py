"""Read the papers' numbers as frames, and as scores in the shape of a study's own."""

from __future__ import annotations

from importlib.resources import files
from io import StringIO
from typing import Any

import pandas as pd

from analysis.ranking.measurement import Measurement
from analysis.ranking.readings import HONEST
from analysis.tables.frames import records
from analysis.tables.scores import frame
from trainables.contract import CONCATENATED, PEEKING

# Names of a paper that mean another loss here, and our names for what the paper means.
REALITY_CHECK_LOSSES = {
    "contrastive": "contrastive_euclidean",
    "triplet": "triplet_euclidean",
    "proxy_nca": "proxy_nca_pml",
    "multi_similarity": "multi_similarity_no_miner",
    "multi_similarity_miner": "multi_similarity",
    "pretrained": "pretrained bn_inception",
}
GENERALIZATION_METHODS = {
    "batch_all": "batch_all_nca",
    "n_pair": "n_pair_nca",
    "semi_hard_negative": "semi_hard_negative_nca",
}
THESIS_LOSSES = {"thesis_loss": "thesis_loss_2"}


def read_published(name: str) -> pd.DataFrame:
    """Return one of the CSV files in this folder."""
    return pd.read_csv(
        StringIO(files("analysis.published").joinpath(f"{name}.csv").read_text(encoding="utf-8"))
    )


def thesis_scores(tables: tuple[int, ...] = ()) -> pd.DataFrame:
    """Return the thesis's scores, of these tables or of all; every epoch was chosen on test.

    Tables 17 to 19 repeat others; the first of equal cells counts.
    """
    lines = read_published("thesis_recall")
    if tables:
        lines = lines[lines["source"].isin([f"table {number}" for number in tables])]
    lines = lines.assign(loss=lines["loss"].replace(THESIS_LOSSES)).drop_duplicates(
        ["dataset", "backbone", "embedding_size", "loss", "metric"]
    )
    return frame(_thesis(line) for line in records(lines))


def _thesis(line: dict[str, Any]) -> dict[str, Any]:
    keys = ("dataset", "backbone", "embedding_size", "loss", "metric")
    return {key: line[key] for key in keys} | {
        "protocol": "default",
        "setup": "default",
        "what": "",
        "measurement": Measurement(line["value"] / 100, rule=PEEKING, peeks=True),
    }


def reality_scores() -> pd.DataFrame:
    """Return the reality check's scores: its P@1 is Recall@1, its networks give 128 dimensions."""
    return frame(_reality(line) for line in records(read_published("reality_check")))


def _reality(line: dict[str, Any]) -> dict[str, Any]:
    value, half = line["mean"] / 100, line["ci95"] / 100
    trained = line["loss"] != "pretrained"
    low, high = (value - half, value + half) if half == half else (None, None)
    metric = "recall_at_1" if line["metric"] == "precision_at_1" else line["metric"]
    return {
        "dataset": line["dataset"],
        "backbone": "bn_inception",
        "embedding_size": 128,
        "protocol": "k_fold:4" if trained else "none",
        "loss": REALITY_CHECK_LOSSES.get(line["loss"], line["loss"]),
        "setup": "validation" if trained else "untrained",
        "what": CONCATENATED if line["embedding"].startswith(CONCATENATED) else "",
        "metric": metric,
        "measurement": Measurement(value, low, high, rule=HONEST if trained else "untrained"),
    }
