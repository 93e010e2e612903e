"""Make the thesis's tables from its own numbers, with what it prints beside the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from analysis.published.files import read_published, thesis_scores
from analysis.ranking.measurement import Measurement
from analysis.tables.cross_validation import COLUMNS as FOLDS
from analysis.tables.cross_validation import cross_validation
from analysis.tables.default_vs_validation import NOTE, TITLE, columns
from analysis.tables.effects import effects
from analysis.tables.frames import records
from analysis.tables.hyperparameters import hyperparameters
from analysis.tables.improvement import improvement
from analysis.tables.mean_ranks import mean_ranks
from analysis.tables.papers_versus_reality import papers_versus_reality
from analysis.tables.retrieval import retrieval
from analysis.tables.split_ratio import split_ratio
from analysis.tables.table import Column, Table, table
from analysis.tables.tournament import tournament
from search_spaces import value_text
from trainables.contract import PEEKING

# What all tables of section 5 share.
SECTION_5: dict[str, Any] = {
    "dataset": "cub200",
    "backbone": "bn_inception",
    "embedding_size": 512,
}
TOURNAMENT_TABLES = (6, 7, 8)  # table 11 ranks their cells
CLOSE = 0.01  # tolerance: the thesis rounds some of its numbers down


def table_11() -> Table:
    """Return the tournament of tables 6 to 8, beside what table 11 prints."""
    made = tournament(thesis_scores(TOURNAMENT_TABLES))
    printed = {line["loss"]: line for line in records(read_published("thesis_tournament"))}
    names = {"total": "total_ranking", "mean": "average_ranking", "deviation": "standard_deviation"}
    rows = [
        {
            **row,
            **_printed(
                row, {ours: float(printed[row["loss"]][theirs]) for ours, theirs in names.items()}
            ),
        }
        for row in made.rows
    ]
    more = [Column(f"printed_{name}", form="number", parts=("doubt",)) for name in names]
    return replace(made, columns=(*made.columns, *more), rows=tuple(rows))


def _printed(row: Any, printed: dict[str, float]) -> dict[str, Any]:
    """Return the printed numbers; one that its own tables contradict carries a doubt."""
    cells: dict[str, Any] = {}
    for name, value in printed.items():
        ours = row[name].value
        wrong = abs(ours - value) > CLOSE
        doubt = (
            f"{name} of {row['loss']} is printed as {value:g}, and the tables that it is made of "
            f"give {ours:.2f}"
        )
        cells[f"printed_{name}"] = Measurement(value, doubt=doubt if wrong else "")
    return cells


def table_12() -> Table:
    """Return cross validation: multi_similarity from table 13, the other two as printed."""
    lines = read_published("thesis_cross_validation")
    folds = lines[lines["source"] == "table 13"].rename(
        columns={"validation_recall_at_1": "validation", "test_recall_at_1": "test"}
    )
    folds = folds.assign(
        **SECTION_5,
        protocol="k_fold:10",
        validation=folds["validation"] / 100,
        test=folds["test"] / 100,
    )
    made = cross_validation(folds[FOLDS])
    printed = {line["loss"]: _means(line) for line in records(lines[lines["source"] == "table 12"])}
    rows: list[dict[str, Any]] = [
        {**row, **(printed[row["loss"]] if row["fold"] == "all" else {})} for row in made.rows
    ]
    about = {**SECTION_5, "protocol": "k_fold:10", "fold": "all"}
    rows += [
        {**about, "loss": loss, **means}
        for loss, means in printed.items()
        if loss not in set(folds["loss"])
    ]
    more = [Column("printed_test", form="percent"), Column("printed_deviation", form="percent")]
    return replace(made, columns=(*made.columns, *more), rows=tuple(rows))


def _means(line: dict[str, Any]) -> dict[str, Any]:
    return {
        "printed_test": line["test_recall_at_1"] / 100,
        "printed_deviation": line["test_std"] / 100,
    }


def table_14() -> Table:
    """Return the scores by split ratio; the thesis chose its ratio by these test scores."""
    lines = []
    for line in records(read_published("thesis_split_ratio")):
        counts = {key: line[key] for key in ("loss", "train_classes", "validation_classes")}
        scores = {
            "validation": line["validation_recall_at_1"] / 100,
            "test": Measurement(line["test_recall_at_1"] / 100, peeks=True),
        }
        lines.append({**SECTION_5, **counts, **scores})
    return split_ratio(lines, "The thesis chose the ratio by these test scores.")


def table_15() -> Table:
    """Return what the search found; a value at the end of its range or off its grid is marked."""
    defaults = (
        read_published("thesis_defaults")
        .drop_duplicates(["loss", "hyperparameter"])
        .set_index(["loss", "hyperparameter"])["value"]
    )
    lines = []
    for line in records(read_published("thesis_search")):
        loss, name, low, high = line["loss"], line["hyperparameter"], line["low"], line["high"]
        first = defaults.get((loss, name))
        bounds = f"{'(' if line['low_open'] else '['}{low:g}, {high:g}], step {line['step']:g}"
        steps = (line["optimal"] - low) / line["step"]
        edge = (
            "at the edge of its range"
            if line["optimal"] in (low, high)
            else ""
            if abs(steps - round(steps)) < 1e-6
            else "not on its own grid"
        )
        thesis = None if first is None else value_text(float(first))
        about = {**SECTION_5, "protocol": "fixed_validation", "loss": loss, "parameter": name}
        found = value_text(float(line["optimal"]))
        lines.append({**about, "thesis": thesis, "found": found, "range": bounds, "edge": edge})
    return hyperparameters(lines)


def table_16() -> Table:
    """Return both setups with the difference that the thesis does not print."""
    rows = []
    for line in records(read_published("thesis_fixed_validation")):
        default, validation = (
            line["default_setup_recall_at_1"] / 100,
            line["validation_setup_recall_at_1"] / 100,
        )
        cells = {
            "default_recall_at_1": Measurement(default, rule=PEEKING, peeks=True),
            "validation_recall_at_1": Measurement(validation, rule="selected-on-validation"),
            "difference_recall_at_1": Measurement(validation - default, rule=PEEKING, peeks=True),
        }
        rows.append({**SECTION_5, "protocol": "fixed_validation", "loss": line["loss"], **cells})
    return table(
        "default_vs_validation",
        TITLE,
        columns(["recall_at_1"]),
        rows,
        notes=[NOTE.format(how="as printed, no interval")],
    )


THESIS: dict[str, Callable[[], Table]] = {
    "retrieval": lambda: retrieval(thesis_scores()),
    "tournament": table_11,
    "mean_ranks": lambda: mean_ranks(thesis_scores(TOURNAMENT_TABLES)),
    "cross_validation": table_12,
    "split_ratio": table_14,
    "hyperparameters": table_15,
    "default_vs_validation": table_16,
    "effects": lambda: effects(thesis_scores()),
    "improvement": lambda: improvement(thesis_scores()),
    "papers_versus_reality": lambda: papers_versus_reality(thesis_scores()),
}
