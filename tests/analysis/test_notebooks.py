"""Notebooks begin with a question and their parameters, show what they found, and run anywhere."""

from __future__ import annotations

import ast
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis import read_study
from analysis.record.kept_files import KEPT
from analysis.record.specs import OWN
from analysis.record.trial_id import TrialId
from tests.support.notebooks import NOTEBOOKS, ROOT, execute, is_parameters, sources
from tests.support.synthetic_embeddings import spec_of, write_embeddings
from tests.support.synthetic_study import HONEST, RATIO, everything, write_mlflow, write_study
from trainables.contract import EMBEDDINGS

SMALL = 1_500_000  # bytes of all notebooks together
PICTURE = 'src="data:image/png;base64,'
# How a path of some machine begins.
PATHS = re.compile(r"(?<![\w.])(/(tmp|home|root|work|Users|usr|opt|var|mnt|data)/\w|[A-Z]:\\)")
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def code_cells(book: Any) -> list[Any]:
    return [cell for cell in book["cells"] if cell["cell_type"] == "code"]


def outputs(book: Any) -> str:
    """Return all that a notebook shows, as one text."""
    parts = [output for cell in code_cells(book) for output in cell["outputs"]]
    texts = [part.get("text", "") for part in parts]
    texts += [text for part in parts for text in part.get("data", {}).values()]
    return "\n".join("".join(text) for text in texts)


def test_there_is_a_notebook_for_every_question() -> None:
    assert [path.stem for path in NOTEBOOKS] == [
        "default_vs_validation",
        "embedding_maps",
        "paper_table",
        "ranking",
        "search",
    ]


@every_notebook
def test_a_notebook_begins_with_its_question_and_its_parameters(path: Path) -> None:
    first, second, *rest = read(path)["cells"]
    text = "".join(first["source"])
    assert text.startswith("# ")
    assert len(text.split()) > 40
    assert f"analysis.scripts.{path.stem}" in text
    assert is_parameters(second)
    assert not any(map(is_parameters, rest))
    for line in ast.parse("".join(second["source"])).body:
        assert isinstance(line, ast.Assign)
        ast.literal_eval(line.value)


@every_notebook
def test_a_notebook_is_thin_and_explains_what_it_shows(path: Path) -> None:
    book = read(path)
    assert all(len(cell["source"]) <= 10 for cell in code_cells(book))
    words = [cell for cell in book["cells"] if cell["cell_type"] == "markdown"]
    assert len(words) >= 3


@every_notebook
def test_what_a_notebook_shows_is_of_an_execution_of_these_very_cells(path: Path) -> None:
    """Of all cells, in their order, without a warning: `python -m tests.support.notebooks`."""
    book = read(path)
    assert book["metadata"]["fairtrial"]["executed"] == sources(book)
    cells = code_cells(book)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    kinds = {
        (output["output_type"], output.get("name", ""))
        for cell in cells
        for output in cell["outputs"]
    }
    assert kinds <= {("execute_result", ""), ("stream", "stdout")}
    assert "multi_similarity" in outputs(book)  # a loss of the quickstart
    assert "\x1b[" not in outputs(book)
    shows = r"\begin{tabular}" if path.stem == "paper_table" else PICTURE
    assert shows in outputs(book)
    assert "Nothing to show yet" not in outputs(book)


@every_notebook
def test_a_notebook_names_no_path_of_the_machine_that_ran_it(path: Path) -> None:
    shown = re.sub(r"base64,[^\"]+", "", outputs(read(path)))
    assert not PATHS.search(shown)
    assert PATHS.search("of /home/me/studies")
    assert PATHS.search('File "/tmp/x/.venv/lib/a.py"')


def test_all_notebooks_together_are_small() -> None:
    assert sum(path.stat().st_size for path in NOTEBOOKS) < SMALL


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose study has one loss and the embeddings of a final trial."""
    from study.config.study_config import make
    from study.presets import SMOKE
    from tests.support.studies import from_scratch

    folder = tmp_path_factory.mktemp("project")
    spec = spec_of(make(from_scratch() | SMOKE | {"studies": str(folder)}))
    parts = {key: value for key, value in spec.as_dict().items() if key not in OWN}
    made = [
        replace(one, trial_yaml=parts if (one.protocol, one.number) == (RATIO, 1) else {})
        if one.role == "final"
        else one
        for each in everything()
        if each.loss == "triplet" and each.protocol in ("default", RATIO)
        for one in [replace(each, end_metrics={"test/recall_at_1": 0.4})]
    ]
    home = write_study(folder / "studies", made)
    finals = read_study(home).finals
    run = finals.loc[(finals["rule"] == HONEST) & (finals["role"] == "final"), "run_id"].iloc[0]
    embeddings = write_embeddings(folder / "left", spec, per_class=2)
    shutil.copy(embeddings, home / KEPT / TrialId.parse(run).folder / EMBEDDINGS)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(900)
@every_notebook
def test_a_notebook_runs_in_its_own_folder_with_the_name_of_another_study(
    path: Path, project: Path
) -> None:
    folder = project / "analysis" / "notebooks"
    folder.mkdir(parents=True, exist_ok=True)
    shown = outputs(execute(path, folder, name="made"))
    assert (r"\begin{tabular}" if path.stem == "paper_table" else PICTURE) in shown
    assert "triplet" in shown
    assert not list(folder.iterdir()), "it leaves nothing there"
    assert [each.name for each in (project / "studies").iterdir()] == ["made"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_notebook_runs_on_a_store_and_without_kept_embeddings_says_so(tmp_path: Path) -> None:
    made = [one for one in everything() if one.loss == "triplet" and one.protocol == RATIO]
    uri = write_mlflow(write_study(tmp_path, made))
    path = ROOT / "analysis" / "notebooks" / "embedding_maps.ipynb"
    shown = outputs(execute(path, tmp_path, name="made", store=uri))
    assert "joint_map has nothing to draw yet." in shown
    assert PICTURE not in shown
