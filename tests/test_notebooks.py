"""Every notebook runs on a made study from its first cell to its last, and is kept without outputs."""

from __future__ import annotations

import json

import pytest

from analysis.tracking import open_store, read_study
from tests.support.made import HONEST, RATIO, everything, store
from tests.support.made_maps import spec_of, write_kept
from tests.support.notebooks import NOTEBOOKS, ROOT, run


def test_there_is_a_notebook_for_every_question():
    assert [path.stem for path in NOTEBOOKS] == ["default_vs_validation", "embedding_maps", "ranking", "search"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_thin_and_keeps_no_output(path):
    cells = json.loads(path.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert path.stat().st_size < 20_000
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code)
    assert all(len(cell["source"]) <= 10 for cell in code)


@pytest.fixture(scope="module")
def made_store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The made study, one loss of it, with the embeddings of a final trial."""
    from study.config import make
    from study.presets import SMOKE, quickstart

    folder = tmp_path_factory.mktemp("store")
    uri = store(folder, [one for one in everything() if one.loss == "triplet" and one.protocol in ("default", RATIO)])
    finals = read_study(uri, "made").finals
    run = finals.loc[(finals["rule"] == HONEST) & (finals["role"] == "final"), "run_id"].iloc[0]
    spec = spec_of(make(quickstart() | SMOKE | {"studies": str(folder)}))
    for file in write_kept(folder / "kept", spec, per_class=2):
        open_store(uri).log_artifact(run, str(file))
    return uri


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, made_store, monkeypatch):
    assert "<svg" in run(path, made_store, monkeypatch)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_without_kept_embeddings_the_notebook_of_maps_says_so(tmp_path, monkeypatch):
    uri = store(tmp_path, [one for one in everything() if one.loss == "triplet" and one.protocol == RATIO])
    shown = run(ROOT / "analysis" / "notebooks" / "embedding_maps.ipynb", uri, monkeypatch)
    assert "No final trial of this study kept its embeddings" in shown
    assert "<svg" not in shown
