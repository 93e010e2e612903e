"""Every format carries the same numbers, intervals, stars, letters and ranks, on random studies."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from html import unescape
from io import StringIO
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.tables.catalogue import Study, make_table
from analysis.tables.table import Column, Table
from analysis.tables.terminal import as_text
from analysis.tables.writers import as_csv, as_html, as_json, as_latex, as_markdown, lines_of
from tests.support.synthetic_study import CLASSES, HONEST, PEEKS, RATIO, SyntheticTrial, rows_of

LOSSES = ("triplet", "contrastive", "margin", "proxy_anchor")
NUMBER = r"[+-]?\d+(?:\.\d+)?"
CELL = re.compile(rf"({NUMBER})(\*?)(?: \[({NUMBER})(?:, |–)({NUMBER})\])?")


def random_study(seed: int, losses: int, replicates: int) -> Study:
    """Return both setups of a few losses with random hits, which replicates and classes share."""
    rng = np.random.default_rng(seed)
    easy = rng.integers(0, 3, (replicates, CLASSES))
    made = []
    for loss in LOSSES[:losses]:
        better = rng.integers(0, 3)
        for replicate in range(1, replicates + 1):
            for protocol, rule in (("default", PEEKS), (RATIO, HONEST)):
                hits = easy[replicate - 1] + better + rng.integers(0, 2, CLASSES)
                one = SyntheticTrial(loss, protocol, "final", 1, {("0", rule): hits.tolist()})
                made.append(replace(one, replicate=replicate, split=f"{replicate}"))
    return Study(rows_of(made))


studies = st.builds(random_study, st.integers(0, 10_000), st.integers(2, 4), st.integers(1, 4))


def cells(table: Table) -> dict[str, list[list[str]]]:
    """Return the rows of every format for people, as texts without marks of the format."""
    markdown = [line for line in as_markdown(table).splitlines() if line.startswith("|")][2:]
    latex = as_latex(table).split("\\midrule\n")[1].split("\\bottomrule")[0]
    latex = latex.replace("$^*$", "*").replace("\\_", "_").replace("--", "–").replace("\\%", "%")
    body = as_html(table).split("<tbody>")[1].split("</tbody>")[0]
    found = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in body.split("</tr>")[:-1]]
    return {
        "markdown": [
            [cell.strip().replace("\\*", "*") for cell in line.strip("|").split("|")]
            for line in markdown
        ],
        "latex": [
            [cell.strip() for cell in line.removesuffix("\\\\").split("&")]
            for line in latex.strip().splitlines()
        ],
        "html": [
            [unescape(re.sub(r"<[^>]+>", "", cell)).replace("−", "-") for cell in row]
            for row in found
        ],
    }


def written(table: Table, name: str, row: dict[str, Any]) -> tuple[Any, ...] | None:
    """Return value, ends and mark of a measurement in JSON."""
    entry = row[name]
    if entry is None:
        return None
    if not isinstance(entry, dict):
        return entry, None, None, False
    return entry["value"], entry.get("low"), entry.get("high"), bool(entry.get("peeks"))


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0.0"), (-0.0004, "0.0"), (0.0004, "0.0"), (0.0006, "+0.1"), (-0.0006, "-0.1")],
)
def test_what_rounds_to_zero_has_no_sign_for_people_and_every_digit_in_csv(
    value: float, text: str
) -> None:
    made = Table("t", "T", (Column("gap", form="points", digits=1),), ({"gap": value},))
    assert lines_of(made) == [[text]]
    assert as_csv(made) == f"gap\n{value}\n"


@pytest.mark.parametrize("name", ["ranking", "significance", "default_vs_validation", "retrieval"])
@settings(max_examples=5, deadline=None)
@given(study=studies)
def test_every_format_has_the_same_numbers_intervals_and_stars(name: str, study: Study) -> None:
    table = make_table(name, study)
    shown = table.for_readers()
    programs, shown_cells = json.loads(as_json(table))["rows"], cells(table)
    frame = pd.read_csv(StringIO(as_csv(table)))
    for i, row in enumerate(programs):
        for place, column in enumerate(shown.columns):
            if column.form == "text" or "low" not in column.parts:
                continue
            number = written(table, column.name, row)
            assert number is not None
            value, low, high, peeks = number
            assert frame[column.name][i] == value
            assert (frame[f"{column.name}_low"][i], frame[f"{column.name}_high"][i]) == (low, high)
            scale, off = (1, 0) if column.form == "count" else (100, 0.05001)
            for lines in shown_cells.values():
                text = CELL.fullmatch(lines[i][place])
                assert text, lines[i][place]
                for part, meant in zip((1, 3, 4), (value, low, high), strict=True):
                    assert float(text[part]) == pytest.approx(scale * meant, abs=off)
                assert bool(text[2]) == peeks


@settings(max_examples=10, deadline=None)
@given(study=studies)
def test_letters_ranks_and_pairs_of_a_study_are_of_one_mind_in_every_format(study: Study) -> None:
    ranking, pairs = make_table("ranking", study), make_table("significance", study)
    letters = {row["loss"]: row["groups"] for row in json.loads(as_json(ranking))["rows"]}
    frame = pd.read_csv(StringIO(as_csv(ranking)))
    assert dict(zip(frame["loss"], frame["groups"], strict=True)) == letters
    places = [column.name for column in ranking.for_readers().columns]
    for lines in cells(ranking).values():
        shown = {row[places.index("loss")]: row[places.index("groups")] for row in lines}
        assert shown == letters
    honest = pd.read_csv(StringIO(as_csv(pairs))).query("setup == 'validation'")
    apart = {frozenset((row.loss, row.other)): row for row in honest.itertuples()}
    ranks = frame.set_index("loss")
    for one, other in combinations(letters, 2):
        row = apart[frozenset((one, other))]
        inside = row.difference_low <= 0 <= row.difference_high
        assert bool(set(letters[one]) & set(letters[other])) == inside == (row.apart == "no")
        if not inside:  # rows are best first
            assert ranks["rank"][one] < ranks["rank"][other]
    assert (ranks["rank_low"] <= ranks["rank"]).all()
    assert (ranks["rank"] <= ranks["rank_high"]).all()
    for side in ("default", "validation", "difference"):
        number = frame[f"{side}_recall_at_1"]
        assert (frame[f"{side}_recall_at_1_low"] <= number).all()
        assert (number <= frame[f"{side}_recall_at_1_high"]).all()


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t"])
def test_a_text_that_a_spreadsheet_would_compute_is_only_text(start: str) -> None:
    text = f"{start}HYPERLINK(1)"
    made = Table("t", "T", (Column("loss"), Column("n", form="number")), ({"loss": text, "n": -1},))
    assert list(csv.reader(StringIO(as_csv(made))))[1] == [f"'{text}", "-1"]


@pytest.mark.parametrize("width", [40, 100])
def test_in_a_narrow_window_lines_run_on_and_nothing_is_cut_off(width: int) -> None:
    text = as_text(make_table("ranking", random_study(0, 4, 2)), width)
    assert "…" not in text
    assert all(loss in text for loss in LOSSES)
