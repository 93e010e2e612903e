"""Two studies side by side: which loss leads in each, what differs, and what is not equal."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.record.frames import StudyRows
from analysis.report.compare_page import write_compare_page
from tests.support.chromium import in_a_browser, look
from tests.support.synthetic_study import FOLDS, RATIO, empty, final, rows_of


def study(name: str, more: dict[str, int], protocol: str = RATIO) -> StudyRows:
    """Return a study of these losses, with so many more hits in each class."""
    made = [final(loss, protocol, "final", 1, more=each) for loss, each in more.items()]
    made += [final(loss, "default", "final", 1) for loss in more]
    return replace(rows_of(made), name=name)


ONE = study("one", {"triplet": 1, "contrastive": 0})
OTHER = study("other", {"triplet": 1, "contrastive": 2})


def written(one: StudyRows, other: StudyRows, folder: Path) -> str:
    return write_compare_page(one, other, folder / "page.html").read_text(encoding="utf-8")


def answer(page: str) -> list[str]:
    block = page.split('<div class="answer')[1].split("</div>")[0]
    return re.findall(r"<p>(.*?)</p>", block)


def test_the_page_says_first_who_leads_in_each_and_what_differs(tmp_path: Path) -> None:
    page = written(ONE, OTHER, tmp_path)
    leaders, differences = answer(page)
    assert leaders == "one ranks triplet first, other ranks contrastive first."
    assert re.fullmatch(
        r"other minus one, Recall@1: a difference is shown for contrastive \(\+40\.0 \[.*\]\); "
        r"none is shown for 1 other\.",
        differences,
    )
    assert page.count('<table class="picture">') == 2
    assert page.count('<table class="compare">') == 1
    ticks = [
        re.findall(r"<text[^>]*>(.*?)</text>", each) for each in page.split('class="picture"')[1:]
    ]
    assert ticks[0], "an axis"
    assert ticks[0] == ticks[1]


def test_numbers_that_peek_are_starred_here_too(tmp_path: Path) -> None:
    page = written(ONE, OTHER, tmp_path)
    numbers = re.findall(r'<span class="(peeks|honest)">(.*?)</span>', page)
    assert {kind for kind, _ in numbers} == {"peeks", "honest"}
    assert all(("*" in text) == (kind == "peeks") for kind, text in numbers)


def test_studies_that_agree_say_so(tmp_path: Path) -> None:
    page = written(ONE, replace(ONE, name="again"), tmp_path)
    assert answer(page) == [
        "one and again both rank triplet first.",
        "again minus one, Recall@1: no difference is shown for any loss.",
    ]
    assert "<li>Rows of both studies were trained alike.</li>" in page


def test_studies_of_one_name_are_told_apart(tmp_path: Path) -> None:
    assert "one (first) and one (second) both rank" in answer(written(ONE, ONE, tmp_path))[0]


def test_two_protocols_stand_side_by_side_where_each_study_has_one(tmp_path: Path) -> None:
    folds = study("folds", {"triplet": 1, "contrastive": 0}, FOLDS)
    page = written(ONE, folds, tmp_path)
    assert "one and folds both rank triplet first." in page
    assert "did not compare" not in page


@pytest.mark.parametrize("other", [empty(), study("third", {"margin": 1})], ids=["empty", "others"])
def test_studies_without_a_common_loss_have_a_page(other: StudyRows, tmp_path: Path) -> None:
    page = written(ONE, other, tmp_path)
    assert "so there is no difference to show." in answer(page)[-1]


@in_a_browser
@pytest.mark.parametrize("width", [500, 1280])
def test_in_a_browser_the_page_fits_and_its_table_sorts(tmp_path: Path, width: int) -> None:
    page = write_compare_page(ONE, OTHER, tmp_path / "page.html")
    script = """
    const [one, other] = [...document.querySelectorAll("section.study")];
    const place = (each) => each.getBoundingClientRect();
    const table = document.querySelector("table.compare");
    table.tHead.rows[table.tHead.rows.length - 1].cells[1].click();
    const sorted = table.querySelectorAll("[aria-sort]").length;
    const wide = document.documentElement.scrollWidth - innerWidth;
    return { wide, beside: place(one).top === place(other).top, sorted };"""
    found = look(page, script, f"--window-size={width},800")
    assert found == {"wide": 0, "beside": width > 1000, "sorted": 1}
