"""The thesis's tables, made from its own numbers, with what it prints beside what they give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from analysis.published.files import read, thesis_scores
from analysis.tables.cross_validation import COLUMNS as FOLDS
from analysis.tables.cross_validation import cross_validation
from analysis.tables.effects import effects
from analysis.tables.frames import records
from analysis.tables.hyperparameters import hyperparameters
from analysis.tables.improvement import improvement
from analysis.tables.retrieval import retrieval
from analysis.tables.setups import NOTE, TITLE, columns
from analysis.tables.significance import mean_ranks
from analysis.tables.split_ratio import split_ratio
from analysis.tables.table import Cell, Column, Table, table
from analysis.tables.tournament import tournament
from search_spaces import text
from trainables.contract import PEEKING

CUB: dict[str, Any] = {"dataset": "cub200", "backbone": "bn_inception", "embedding_size": 512}  # everything of section 5
TOURNAMENT = (6, 7, 8)  # table 11 is about them
CLOSE = 0.01  # some of its numbers are rounded down


def table_11() -> Table:
    """The tournament from tables 6 to 8, and what is printed beside it."""
    made = tournament(thesis_scores(TOURNAMENT))
    printed = {line["loss"]: line for line in records(read("thesis_tournament"))}
    names = {"total": "total_ranking", "mean": "average_ranking", "deviation": "standard_deviation"}
    rows = [{**row, **_printed(row, {ours: float(printed[row["loss"]][theirs]) for ours, theirs in names.items()})} for row in made.rows]
    more = [Column(f"printed_{name}", form="number", parts=("doubt",)) for name in names]
    return replace(made, columns=(*made.columns, *more), rows=tuple(rows))


def _printed(row: Any, printed: dict[str, float]) -> dict[str, Any]:
    """A printed number that its own tables do not give is marked."""
    found: dict[str, Any] = {}
    for name, value in printed.items():
        ours = row[name].value
        wrong = abs(ours - value) > CLOSE
        why = f"{name} of {row['loss']} is printed as {value:g}, and the tables that it is made of give {ours:.2f}"
        found[f"printed_{name}"] = Cell(value, doubt=why if wrong else "")
    return found


def table_12() -> Table:
    """Cross validation: of multi_similarity from table 13, of the other two as printed."""
    lines = read("thesis_cross_validation")
    folds = lines[lines["source"] == "table 13"].rename(columns={"validation_recall_at_1": "validation", "test_recall_at_1": "test"})
    folds = folds.assign(**CUB, protocol="k_fold:10", validation=folds["validation"] / 100, test=folds["test"] / 100)
    made = cross_validation(folds[FOLDS])
    printed = {line["loss"]: _means(line) for line in records(lines[lines["source"] == "table 12"])}
    rows: list[dict[str, Any]] = [{**row, **(printed[row["loss"]] if row["fold"] == "all" else {})} for row in made.rows]
    about = {**CUB, "protocol": "k_fold:10", "fold": "all"}
    rows += [{**about, "loss": loss, **means} for loss, means in printed.items() if loss not in set(folds["loss"])]
    more = [Column("printed_test", form="percent"), Column("printed_deviation", form="percent")]
    return replace(made, columns=(*made.columns, *more), rows=tuple(rows))


def _means(line: dict[str, Any]) -> dict[str, Any]:
    return {"printed_test": line["test_recall_at_1"] / 100, "printed_deviation": line["test_std"] / 100}


def table_14() -> Table:
    lines = []
    for line in records(read("thesis_split_ratio")):
        counts = {key: line[key] for key in ("loss", "train_classes", "validation_classes")}
        scores = {"validation": line["validation_recall_at_1"] / 100, "test": Cell(line["test_recall_at_1"] / 100, peeks=True)}
        lines.append({**CUB, **counts, **scores})
    return split_ratio(lines, "The thesis chose the ratio by these test scores.")


def table_15() -> Table:
    """A value at an end of its range, or off its grid, is told."""
    defaults = read("thesis_defaults").drop_duplicates(["loss", "hyperparameter"]).set_index(["loss", "hyperparameter"])["value"]
    lines = []
    for line in records(read("thesis_search")):
        loss, name, low, high = line["loss"], line["hyperparameter"], line["low"], line["high"]
        first = defaults.get((loss, name))
        said = f"{'(' if line['low_open'] else '['}{low:g}, {high:g}], step {line['step']:g}"
        steps = (line["optimal"] - low) / line["step"]
        edge = (
            "at the edge of its range"
            if line["optimal"] in (low, high)
            else ""
            if abs(steps - round(steps)) < 1e-6
            else "not on its own grid"
        )
        thesis = None if first is None else text(float(first))
        lines.append({**CUB, "protocol": "fixed_validation", "loss": loss, "parameter": name, "thesis": thesis,
                      "found": text(float(line["optimal"])), "range": said, "edge": edge})  # fmt: skip
    return hyperparameters(lines)


def table_16() -> Table:
    """With the difference that the thesis does not print."""
    rows = []
    for line in records(read("thesis_fixed_validation")):
        default, validation = line["default_setup_recall_at_1"] / 100, line["validation_setup_recall_at_1"] / 100
        cells = {
            "default_recall_at_1": Cell(default, rule=PEEKING, peeks=True),
            "validation_recall_at_1": Cell(validation, rule="selected-on-validation"),
            "difference_recall_at_1": Cell(validation - default, rule=PEEKING, peeks=True),
        }
        rows.append({**CUB, "protocol": "fixed_validation", "loss": line["loss"], **cells})
    return table("default_vs_validation", TITLE, columns(["recall_at_1"]), rows, notes=[NOTE.format(how="as printed, no interval")])


THESIS: dict[str, Callable[[], Table]] = {
    "retrieval": lambda: retrieval(thesis_scores()),
    "tournament": table_11,
    "mean_ranks": lambda: mean_ranks(thesis_scores(TOURNAMENT)),
    "cross_validation": table_12,
    "split_ratio": table_14,
    "hyperparameters": table_15,
    "default_vs_validation": table_16,
    "effects": lambda: effects(thesis_scores()),
    "improvement": lambda: improvement(thesis_scores()),
}
