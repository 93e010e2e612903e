"""Every command of docs/sources.md works, and every row says how it follows its source."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from analysis.figures.catalogue import FIGURES
from analysis.published import PAPERS
from analysis.tables.catalogue import TABLES
from search_spaces import LOSSES
from study import run_study
from study.__main__ import app
from study.config.sources import resolve
from study.presets import PRESETS
from trainables.metrics.retrieval import METRICS

PAGE = (Path(__file__).parent.parent / "docs" / "sources.md").read_text()
COMMANDS = list(dict.fromkeys(re.findall(r"`fairtrial ([^`]+)`", PAGE)))
RUNS = [command.split()[1] for command in COMMANDS if command.startswith("run ")]
OF_STUDIES = [
    command
    for command in COMMANDS
    if command.startswith("report ") and "--published" not in command
]
QUICK = [each for each in COMMANDS if not each.startswith("run ") and each not in OF_STUDIES]
ROWS = [
    line.strip("| ").split(" | ")
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith(("| item", "| ---"))
]


def typed(command: str) -> str:
    result = CliRunner().invoke(app, shlex.split(command))
    assert result.exit_code == 0, result.output
    return result.output


# Figures take longest to draw, and tests/analysis/figures draws each of them.
@pytest.mark.parametrize(
    "command",
    [pytest.param(each, marks=[pytest.mark.slow] * ("--figure" in each)) for each in QUICK],
)
def test_a_command_that_trains_nothing_shows_something(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # figures are written where one is
    assert typed(command)


@pytest.mark.parametrize("command", OF_STUDIES)
def test_a_table_or_figure_of_a_study_is_one_that_its_preset_and_paper_have(command: str) -> None:
    words = shlex.split(command)
    options = dict(zip(words[2::2], words[3::2], strict=True))
    config = resolve(words[1]).config
    assert words[1] in RUNS
    if "--figure" in options:
        assert FIGURES[options["--figure"]].of_losses or "--loss" not in options
        assert options.get("--loss", "all") in ("all", *config.losses)
        return
    assert options["--table"] in TABLES
    assert options["--table"] in PAPERS[options["--beside"]]
    assert options.get("--dataset", "cub200") in config.dataset


@pytest.mark.parametrize("row", ROWS, ids=[row[0][:60] for row in ROWS])
def test_a_row_says_how_it_follows_its_source_and_why_if_it_does_not(row: list[str]) -> None:
    _, _, how = row
    assert re.match(r"as printed|as in its|our choice|not followed", how)
    if "not followed" in how or how.startswith("our choice"):
        assert "because" in how or ":" in how or "in place of" in how


def test_every_preset_of_a_paper_and_every_paper_is_on_the_page() -> None:
    papers = {name for name in PRESETS if name not in ("quickstart", "photos", "vectors")}
    assert {name for name in papers if f" {name}" not in PAGE} == set()
    assert papers - {"thesis_balanced"} <= set(RUNS)
    assert all(f"--published {paper} " in PAGE for paper in PAPERS)


def test_every_name_in_backticks_is_one_that_exists() -> None:
    kinds = {"figures": FIGURES, "tables": TABLES, "metrics": METRICS, "losses": LOSSES}
    named = re.findall(r"`(\w+)` of `fairtrial list (\w+)`", PAGE)
    assert len(named) > 3
    assert [(name, kind) for name, kind in named if name not in kinds[kind]] == []


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("name", sorted({each.split()[1] for each in OF_STUDIES}))
def test_the_tables_and_figures_of_a_smoke_study_are_made(name: str, tmp_path: Path) -> None:
    run_study(resolve(name, smoke=True, sets=[f"studies={tmp_path}"]).config)
    for command in OF_STUDIES:
        words = shlex.split(command)
        if words[1] == name:
            options = " ".join(words[2:]).replace("--dataset cub200", "--dataset sketches")
            assert typed(f"report {name}-smoke --studies {tmp_path} {options}")
