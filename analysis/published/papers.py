"""Make the tables of the reality check, the triplet report and the generalisation paper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from analysis.published.files import GENERALIZATION_METHODS, read_published, reality_scores
from analysis.ranking.measurement import Measurement
from analysis.tables.concatenated import concatenated
from analysis.tables.frames import groups, records
from analysis.tables.generalisation import generalisation
from analysis.tables.improvement import improvement
from analysis.tables.mean_ranks import mean_ranks
from analysis.tables.retrieval import retrieval
from analysis.tables.table import Table
from analysis.tables.tournament import tournament
from analysis.tables.triplet_report import triplet_report
from trainables.contract import LAST


def triplet_report_table() -> Table:
    """Return the triplet report's experiments, all at their last epoch."""
    lines: list[dict[str, Any]] = []
    for line in records(read_published("triplet_report")):
        about = {
            "dataset": "cub200",
            "backbone": line["backbone"],
            "loss": f"triplet_p_norm@{line['experiment']}",
            "rule": LAST,
        }
        names = ("triplet_accuracy", "precision_at_1", "precision_at_5", "precision_at_10")
        shares = {name: Measurement(line[name] / 100, rule=LAST) for name in names}
        cosines = {
            f"{ours}_cosine": Measurement(line[f"cosine_anchor_{ours}"], rule=LAST)
            for ours in ("positive", "negative")
        }
        lines.append({**about, "train_loss": float(line["loss"]), **shares, **cosines})
    return triplet_report(lines)


def generalisation_table() -> Table:
    """Return the generalisation paper's recalls by layer and part."""
    lines = read_published("generalization_recall")
    keys = ["dataset", "backbone", "embedding_size", "method"]
    rows = []
    for about, part in groups(lines, keys):
        cells = {
            f"{line['features']}_{line['split']}": Measurement(line["recall_at_1"] / 100)
            for line in records(part)
        }
        method = str(about.pop("method"))
        rows.append(
            {
                **about,
                "protocol": "default",
                "loss": GENERALIZATION_METHODS.get(method, method),
                **cells,
            }
        )
    return generalisation(rows, "The paper does not say how it chose its epochs.")


REALITY_CHECK: dict[str, Callable[[], Table]] = {
    "retrieval": lambda: retrieval(reality_scores()),
    "concatenated": lambda: concatenated(reality_scores()),
    "tournament": lambda: tournament(reality_scores(), "map_at_r"),
    "mean_ranks": lambda: mean_ranks(reality_scores(), "map_at_r"),
    "improvement": lambda: improvement(reality_scores()),
}
TRIPLET_REPORT: dict[str, Callable[[], Table]] = {"triplet_report": triplet_report_table}
GENERALIZATION: dict[str, Callable[[], Table]] = {"generalisation": generalisation_table}
