"""The tables of the reality check, the triplet report and the generalisation paper, in the shape of a study's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from analysis.published.files import METHODS, read, reality_scores
from analysis.tables.concatenated import concatenated
from analysis.tables.frames import groups, records
from analysis.tables.generalisation import generalisation
from analysis.tables.improvement import improvement
from analysis.tables.retrieval import retrieval
from analysis.tables.significance import mean_ranks
from analysis.tables.table import Cell, Table
from analysis.tables.tournament import tournament
from analysis.tables.triplet_report import triplet_report
from trainables.contract import LAST


def triplets() -> Table:
    lines: list[dict[str, Any]] = []
    for line in records(read("triplet_report")):
        place = {"dataset": "cub200", "backbone": line["backbone"], "loss": f"triplet_p_norm@{line['experiment']}", "rule": LAST}
        names = ("triplet_accuracy", "precision_at_1", "precision_at_5", "precision_at_10")
        shares = {name: Cell(line[name] / 100, rule=LAST) for name in names}
        cosines = {f"{ours}_cosine": Cell(line[f"cosine_anchor_{ours}"], rule=LAST) for ours in ("positive", "negative")}
        lines.append({**place, "train_loss": float(line["loss"]), **shares, **cosines})
    return triplet_report(lines)


def recalls() -> Table:
    lines = read("generalization_recall")
    keys = ["dataset", "backbone", "embedding_size", "method"]
    rows = []
    for about, part in groups(lines, keys):
        cells = {f"{line['features']}_{line['split']}": Cell(line["recall_at_1"] / 100) for line in records(part)}
        method = str(about.pop("method"))
        rows.append({**about, "protocol": "default", "loss": METHODS.get(method, method), **cells})
    return generalisation(rows, "The paper does not say how it chose its epochs.")


REALITY_CHECK: dict[str, Callable[[], Table]] = {
    "retrieval": lambda: retrieval(reality_scores()),
    "concatenated": lambda: concatenated(reality_scores()),
    "tournament": lambda: tournament(reality_scores(), "map_at_r"),
    "mean_ranks": lambda: mean_ranks(reality_scores(), "map_at_r"),
    "improvement": lambda: improvement(reality_scores()),
}
TRIPLET_REPORT: dict[str, Callable[[], Table]] = {"triplet_report": triplets}
GENERALIZATION: dict[str, Callable[[], Table]] = {"generalisation": recalls}
