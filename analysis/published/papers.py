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
from analysis.tables.papers_versus_reality import papers_versus_reality
from analysis.tables.retrieval import retrieval
from analysis.tables.table import Table, as_reality_prints
from analysis.tables.tournament import tournament
from analysis.tables.triplet_report import triplet_report
from trainables.contract import CLOSED

# Precisions at 1, 5 and 10 are multiples of 1/243, 1/1,215 and 1/2,430.
TRIPLET_QUERIES = 243
TRIPLET_NOTES = (
    "Closed set: the report does not say so, but each printed accuracy is a multiple of 1/5,794, "
    "the number of test images of CUB's closed-set lists.",
    f"Its precisions fit {TRIPLET_QUERIES} queries: a Precision@1 of 33.7 % then has a standard "
    f"error of {100 * (0.337 * 0.663 / TRIPLET_QUERIES) ** 0.5:.1f} points, so most of its "
    "experiments cannot be told apart by it.",
    "The report measures its loss on test images, and its discussion calls it a training loss.",
)


def triplet_report_table() -> Table:
    """Return the triplet report's experiments, all at their last epoch."""
    lines: list[dict[str, Any]] = []
    for line in records(read_published("triplet_report")):
        about = {
            "dataset": "cub200",
            "backbone": line["backbone"],
            "loss": f"triplet_p_norm@{line['experiment']}",
            "rule": CLOSED,
        }
        names = ("triplet_accuracy", "precision_at_1", "precision_at_5", "precision_at_10")
        shares = {name: Measurement(line[name] / 100, rule=CLOSED) for name in names}
        cosines = {
            f"{ours}_cosine": Measurement(line[f"cosine_anchor_{ours}"], rule=CLOSED)
            for ours in ("positive", "negative")
        }
        loss = {"loss_value": Measurement(float(line["loss"]), rule=CLOSED)}
        lines.append({**about, **loss, **shares, **cosines})
    return triplet_report(lines, *TRIPLET_NOTES)


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
    "retrieval": lambda: as_reality_prints(retrieval(reality_scores())),
    "concatenated": lambda: concatenated(reality_scores()),
    "tournament": lambda: tournament(reality_scores(), "map_at_r"),
    "mean_ranks": lambda: mean_ranks(reality_scores(), "map_at_r"),
    "improvement": lambda: improvement(reality_scores()),
    "papers_versus_reality": lambda: papers_versus_reality(reality_scores()),
}
TRIPLET_REPORT: dict[str, Callable[[], Table]] = {"triplet_report": triplet_report_table}
GENERALIZATION: dict[str, Callable[[], Table]] = {"generalisation": generalisation_table}
