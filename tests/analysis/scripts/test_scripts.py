"""Scripts print and write what the notebooks of the same names show."""

from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path

import pytest

from tests.support.notebooks import NOTEBOOKS, ROOT
from tests.support.synthetic_study import everything, write_study

SCRIPTS = sorted((ROOT / "analysis" / "scripts").glob("[!_]*.py"))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a study."""
    folder = tmp_path_factory.mktemp("project")
    write_study(folder / "studies", everything())
    return folder


def run(monkeypatch: pytest.MonkeyPatch, script: str, *words: str) -> None:
    monkeypatch.setattr(sys, "argv", [script, *words])
    runpy.run_module(f"analysis.scripts.{script}", run_name="__main__")


def views(source: str, kind: str) -> set[str]:
    """Return the names of all tables or figures that a source takes from a study."""
    return set(re.findall(rf'study\.{kind}\(\\*"(\w+)\\*"', source))


def test_every_notebook_has_its_script() -> None:
    assert [path.stem for path in SCRIPTS] == [path.stem for path in NOTEBOOKS]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_shows_what_its_notebook_does_and_has_no_logic(path: Path) -> None:
    source, book = path.read_text(), path.parents[1] / "notebooks" / f"{path.stem}.ipynb"
    cells = json.loads(book.read_text())["cells"]
    shown = "".join(line for cell in cells for line in cell["source"])
    assert views(source, "figure") == views(shown, "figure")
    assert views(source, "table") <= views(shown, "table")
    assert source.count("\n") < 20
    assert not re.search(r"\b(if (?!__name__)|for|def|class)\b", source.split('"""')[2])


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_prints_and_writes(
    path: Path,
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(project)
    run(monkeypatch, path.stem, "made", "--to", str(tmp_path / "here"))
    printed = capsys.readouterr().out
    files = re.findall(rf"^{tmp_path}/here/\S+\.(?:svg|png)$", printed, flags=re.MULTILINE)
    assert all(Path(file).stat().st_size > 1000 for file in files)
    if path.stem == "embedding_maps":  # this study kept no embeddings
        assert printed.count("has nothing to draw yet.") == 5
    elif path.stem == "paper_table":
        assert printed.startswith(r"\begin{table}")
    else:
        assert files
        assert "contrastive" in printed
    assert not (project / "figures").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["maid"], "Did you mean 'made'?"),
        (["made", "--store", "sqlite:///none.db"], "there is no such file"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    words: list[str],
    said: str,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(project)
    with pytest.raises(SystemExit) as raised:
        run(monkeypatch, "ranking", *words)
    assert raised.value.code == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.err.count("\n") == 1
    assert not printed.out
