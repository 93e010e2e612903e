"""fairtrial report --table and fairtrial compare, as a user types them, on a real store."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import pytest
from typer.testing import CliRunner

from study.__main__ import app
from tests.support.synthetic_study import everything, share, write_study


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two folders with a study of the same name each: the second has no search."""
    folder = tmp_path_factory.mktemp("typed")
    config = CliRunner().invoke(app, ["config", "show", "quickstart", "--name", "made"]).stdout
    for name, made in (
        ("one", everything()),
        ("two", [each for each in everything() if each.role == "final"]),
    ):
        (write_study(folder / name, made) / "config.yaml").write_text(config)
    return folder


def typed(*words: str | Path) -> str:
    shown = CliRunner().invoke(app, [str(word) for word in words])
    assert shown.exit_code == 0, shown.output
    return shown.stdout


def test_a_table_is_printed_in_the_format_that_is_asked_for(studies: Path) -> None:
    words = ["report", "made", "--studies", studies / "one", "--table", "default_vs_validation"]
    rows = json.loads(typed(*words, "--json"))["rows"]
    assert rows == json.loads(typed(*words, "--format", "json"))["rows"]
    lines = list(csv.DictReader(StringIO(typed(*words, "--format", "csv"))))
    assert [float(line["default_recall_at_1"]) for line in lines] == [
        row["default_recall_at_1"]["value"] for row in rows
    ]
    assert lines[0]["default_recall_at_1_rule"] == "best-on-test"
    assert float(lines[0]["default_recall_at_1"]) == pytest.approx(share(4))
    assert r"\toprule" in typed(*words, "--format", "latex")
    assert "<table" in typed(*words, "--format", "html")
    assert not list(studies.glob("**/report.html"))


def test_beside_a_paper_every_row_is_kept(studies: Path) -> None:
    shown = typed(
        "report", "made", "--studies", studies / "one", "--table", "retrieval", "--beside", "thesis"
    )
    assert "0 of 6 rows have a counterpart in thesis" in shown


def test_two_studies_are_compared_by_their_folders(studies: Path) -> None:
    found = json.loads(
        typed("compare", studies / "one" / "made", studies / "two" / "made", "--json")
    )
    assert "search trials 2 and 0" in found["above"][0]
    gaps = [row["difference_recall_at_1"] for row in found["rows"]]
    assert len(gaps) == 6
    assert all(abs(gap["value"]) < 1e-12 for gap in gaps)
    assert all(gap["low"] <= 1e-12 and gap["high"] >= -1e-12 for gap in gaps)


def test_two_studies_are_a_page_beside_the_first_one(studies: Path) -> None:
    shown = typed("compare", studies / "one" / "made", studies / "two" / "made", "--page")
    page = Path(shown.strip())
    assert page == studies / "one" / "made-and-made.html"
    assert "made (first) and made (second) both rank triplet first." in page.read_text()
    page.unlink()


def test_a_page_of_two_studies_takes_no_format(studies: Path) -> None:
    words = ["compare", str(studies / "one" / "made"), str(studies / "two" / "made"), "--page"]
    shown = CliRunner().invoke(app, [*words, "--json"])
    assert shown.exit_code == 2
    assert "leave --format and --json out" in shown.stderr


def test_a_study_is_not_compared_with_itself(studies: Path) -> None:
    shown = CliRunner().invoke(app, ["compare", "made", "made", "--studies", str(studies / "one")])
    assert shown.exit_code == 2
    assert "name another one" in shown.stderr


def test_a_figure_is_written_as_vectors_and_pixels_and_its_files_are_named(studies: Path) -> None:
    shown = typed("report", "made", "--studies", studies / "one", "--figure", "search").split("\n")
    files = [Path(line) for line in shown if line]
    assert {path.suffix for path in files} == {".svg", ".png"}
    assert all(
        path.parent == studies / "one" / "made" / "figures" and path.stat().st_size > 1000
        for path in files
    )
    assert not (studies / "one" / "made" / "report.html").exists()
    shown = typed("report", "made", "--studies", studies / "one", "--figure", "recall_by_size")
    assert shown == "recall_by_size has nothing to draw yet.\n"


def test_a_papers_figure_is_written_below_the_folder_where_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = typed(
        "report", "--published", "reality_check", "--figure", "improvement_by_year"
    ).split()
    assert files == [
        f"figures/reality_check/improvement-over-{base}.{end}"
        for base in ("contrastive", "triplet")
        for end in ("svg", "png")
    ]
    assert all((tmp_path / name).stat().st_size > 1000 for name in files)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--published", "thesis", "--figure", "recall_by_sise"], "Did you mean 'recall_by_size'?"),
        (
            ["--published", "triplet_report", "--figure", "curves"],
            "Unknown paper with figures 'triplet_report'",
        ),
        (["--figure", "curves", "--table", "search"], "leave one out"),
        (["--table", "search", "--loss", "triplet"], "--loss is for maps of a study"),
    ],
)
def test_a_figure_that_there_is_not_is_one_sentence(words: list[str], said: str) -> None:
    shown = CliRunner().invoke(app, ["report", *words])
    assert shown.exit_code == 2
    assert said in shown.stderr


def test_figures_are_listed_with_the_papers_that_have_them() -> None:
    listed = json.loads(typed("list", "figures", "--json"))
    assert listed["recall_by_size"]["published"] == ["thesis"]
    assert listed["curves"]["published"] == []


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        (["--beside", "thesis"], "name it with --table"),
        (["--format", "latex"], "name it with --table"),
        (
            ["--published", "thesis", "--beside", "thesis", "--table", "retrieval"],
            "leave one of them out",
        ),
    ],
)
def test_an_option_that_would_be_ignored_is_refused_in_a_sentence(
    studies: Path, words: list[str], cure: str
) -> None:
    shown = CliRunner().invoke(app, ["report", "made", "--studies", str(studies / "one"), *words])
    assert shown.exit_code == 2
    assert cure in " ".join(shown.stderr.split())
    assert not list(studies.glob("**/report.html"))
