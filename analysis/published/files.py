"""The papers' numbers as frames, and as scores in the shape of a study's own."""

from __future__ import annotations

from importlib.resources import files
from io import StringIO
from typing import Any

import pandas as pd

from analysis.readings import HONEST
from analysis.tables.frames import records
from analysis.tables.scores import frame
from analysis.tables.table import Cell
from trainables.contract import CONCATENATED, PEEKING

# Losses and methods that a paper calls by a name that here is another loss's.
REALITY = {
    "contrastive": "contrastive_euclidean",
    "triplet": "triplet_euclidean",
    "proxy_nca": "proxy_nca_pml",
    "multi_similarity": "multi_similarity_no_miner",
    "multi_similarity_miner": "multi_similarity",
    "pretrained": "untrained bn_inception",
}
METHODS = {"batch_all": "batch_all_nca", "n_pair": "n_pair_nca", "semi_hard_negative": "semi_hard_negative_nca"}
OWN = {"thesis_loss": "thesis_loss_2"}


def read(name: str) -> pd.DataFrame:
    return pd.read_csv(StringIO(files("analysis.published").joinpath(f"{name}.csv").read_text(encoding="utf-8")))


def thesis_scores(tables: tuple[int, ...] = ()) -> pd.DataFrame:
    """All of the default setup: the epoch was chosen on the test classes. Tables 17 to 19 repeat others; the first stands."""
    lines = read("thesis_recall")
    if tables:
        lines = lines[lines["source"].isin([f"table {number}" for number in tables])]
    lines = lines.assign(loss=lines["loss"].replace(OWN)).drop_duplicates(["dataset", "backbone", "embedding_size", "loss", "metric"])
    return frame(_thesis(line) for line in records(lines))


def _thesis(line: dict[str, Any]) -> dict[str, Any]:
    place = {key: line[key] for key in ("dataset", "backbone", "embedding_size", "loss", "metric")}
    return place | {"protocol": "default", "setup": "default", "what": "", "cell": Cell(line["value"] / 100, rule=PEEKING, peeks=True)}


def reality_scores() -> pd.DataFrame:
    """Its P@1 is Recall@1; its networks give 128 dimensions, four of which are joined."""
    return frame(_reality(line) for line in records(read("reality_check")))


def _reality(line: dict[str, Any]) -> dict[str, Any]:
    value, half = line["mean"] / 100, line["ci95"] / 100
    trained = line["loss"] != "pretrained"
    low, high = (value - half, value + half) if half == half else (None, None)
    place = {"dataset": line["dataset"], "backbone": "bn_inception", "embedding_size": 128, "protocol": "k_fold:4" if trained else "none"}
    about = {"loss": REALITY.get(line["loss"], line["loss"]), "setup": "validation" if trained else "untrained"}
    what = CONCATENATED if line["embedding"].startswith(CONCATENATED) else ""
    metric = "recall_at_1" if line["metric"] == "precision_at_1" else line["metric"]
    return place | about | {"what": what, "metric": metric, "cell": Cell(value, low, high, rule=HONEST if trained else "untrained")}
