"""Laws of every table: it is made of an empty, a one-row, a partly failed and a full study, in
every format, and every mark is kept.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import pytest

from analysis import tables
from analysis.ranking.measurement import Measurement
from analysis.tables.catalogue import COMPARE, TABLES, Study, make_table
from analysis.tables.table import Table, measured, table
from analysis.tables.writers import (
    FORMATS,
    as_csv,
    as_html,
    as_json,
    as_latex,
    as_markdown,
    as_text,
    lines_of,
    plain,
)
from tests.support.synthetic_study import (
    empty,
    large_study,
    one_row,
    partly_failed,
    replicated_study,
)

STUDIES = {
    "empty": empty,
    "one row": one_row,
    "partly failed": lambda: partly_failed(large_study()),
    "everything": large_study,
    "replicated": replicated_study,
    "reproduced": lambda: replicated_study(reproductions=2),
}
Make = Callable[[str, str], Table]


@pytest.fixture(scope="module")
def made() -> Make:
    """A study's table by name, each made once."""
    studies = {name: Study(make()) for name, make in STUDIES.items()}
    return cache(lambda name, study: make_table(name, studies[study]))


@pytest.mark.parametrize("study", STUDIES)
@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_made_of_every_study_in_every_format(
    name: str, study: str, made: Make
) -> None:
    table = made(name, study)
    assert table.name == name
    assert {form for form, write in FORMATS.items() if write(table).strip()} == set(FORMATS)
    assert json.loads(as_json(table))["table"] == name
    if study == "empty":
        assert not table.rows
        assert "Nothing to show yet." in as_text(table)


@pytest.mark.parametrize("study", ["partly failed", "everything"])
@pytest.mark.parametrize("name", TABLES)
def test_a_full_study_fills_every_table_and_so_does_one_that_failed_in_parts(
    name: str, study: str, made: Make
) -> None:
    assert made(name, study).rows


@pytest.mark.parametrize("name", TABLES)
def test_what_peeks_is_starred_in_every_format_for_people_and_told_to_programs(
    name: str, made: Make
) -> None:
    table = made(name, "everything")
    shown = table.for_readers()
    starred = sum("*" in line for lines in lines_of(shown) for line in lines)
    assert starred == sum(
        isinstance(entry := Table.content(row, column), Measurement) and entry.peeks
        for row in shown.rows
        for column in shown.columns
    )
    for row, written in zip(table.rows, json.loads(as_json(table))["rows"], strict=True):
        assert all(
            written[key]["peeks"]
            for key, entry in row.items()
            if isinstance(entry, Measurement) and entry.peeks and written.get(key) is not None
        )
    if starred:
        assert "chosen with test feedback" in as_text(table)


@pytest.mark.parametrize("name", sorted(COMPARE))
def test_the_fairness_check_stands_above_every_table_that_compares(name: str, made: Make) -> None:
    table = made(name, "everything")
    assert as_text(table).splitlines()[1].startswith("Fairness check: ")
    assert "Fairness check: " in as_html(table)
    assert "Fairness check: " in as_markdown(table)


def test_an_end_of_exactly_zero_is_told_to_programs() -> None:
    made = table(
        "t",
        "t",
        [measured("gap", form="points")],
        [{"gap": Measurement(0.0, 0.0, 0.2)}, {"gap": Measurement(0.0)}],
    )
    assert [row["gap"] for row in plain(made)["rows"]] == [
        {"value": 0.0, "low": 0.0, "high": 0.2},
        0.0,
    ]


class Count(HTMLParser):
    """Tags that were opened, and whether all were closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", TABLES)
def test_every_format_has_every_row_and_cell(name: str, made: Make) -> None:
    table = made(name, "everything")
    rows, columns = len(table.rows), len(table.for_readers().columns)
    found = list(csv.reader(StringIO(as_csv(table))))
    assert len(found) == rows + 1
    assert {len(line) for line in found} == {len(found[0])}
    html = Count()
    html.feed(as_html(table))
    assert html.open == []
    body = as_html(table).split("<tbody>")[1]
    assert body.count("<td") + body.count("<th") == rows * columns
    markdown = [line for line in as_markdown(table).splitlines() if line.startswith("|")]
    assert len(markdown) == (rows + 2 if rows else 0)
    assert {line.count("|") for line in markdown} <= {columns + 1}
    latex = as_latex(table).split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines()
    assert len(latex) == rows
    assert {line.count("&") - line.count(r"\&") for line in latex} <= {columns - 1}


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_a_file_of_its_name(name: str) -> None:
    assert (Path(tables.__file__).parent / f"{name}.py").exists()


def test_a_ranking_knows_nothing_of_tables_figures_and_pages() -> None:
    for path in (Path(tables.__file__).parent.parent / "ranking").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"analysis\.(tables|figures|report)", text), path


def test_an_unknown_table_is_answered_with_the_near_name() -> None:
    with pytest.raises(ValueError, match="Did you mean 'tournament'"):
        make_table("turnament", Study(empty()))
