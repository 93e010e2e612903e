"""Every notebook runs on a synthetic study, and is stored without outputs."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

from analysis import read_study
from analysis.record.kept_files import KEPT
from analysis.record.specs import OWN
from analysis.record.trial_id import TrialId
from tests.support.notebooks import NOTEBOOKS, ROOT, run
from tests.support.synthetic_embeddings import spec_of, write_embeddings
from tests.support.synthetic_study import HONEST, RATIO, everything, write_mlflow, write_study
from trainables.contract import EMBEDDINGS


def test_there_is_a_notebook_for_every_question():
    assert [path.stem for path in NOTEBOOKS] == [
        "default_vs_validation",
        "embedding_maps",
        "ranking",
        "search",
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_thin_and_keeps_no_output(path):
    cells = json.loads(path.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert path.stat().st_size < 20_000
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code)
    assert all(len(cell["source"]) <= 10 for cell in code)


@pytest.fixture(scope="module")
def made_store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a store with one loss of the synthetic study and the embeddings of a final trial."""
    from study.config.study_config import make
    from study.presets import SMOKE
    from tests.support.studies import from_scratch

    folder = tmp_path_factory.mktemp("store")
    spec = spec_of(make(from_scratch() | SMOKE | {"studies": str(folder)}))
    parts = {key: value for key, value in spec.as_dict().items() if key not in OWN}
    made = [
        replace(one, trial_yaml=parts)
        if (one.role, one.protocol, one.number) == ("final", RATIO, 1)
        else one
        for one in everything()
        if one.loss == "triplet" and one.protocol in ("default", RATIO)
    ]
    home = write_study(folder, made)
    finals = read_study(home).finals
    run = finals.loc[(finals["rule"] == HONEST) & (finals["role"] == "final"), "run_id"].iloc[0]
    embeddings = write_embeddings(folder / "left", spec, per_class=2)
    shutil.copy(embeddings, home / KEPT / TrialId.parse(run).folder / EMBEDDINGS)
    return write_mlflow(home)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, made_store, monkeypatch):
    assert "<svg" in run(path, made_store, monkeypatch)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_without_kept_embeddings_the_notebook_of_maps_says_so(tmp_path, monkeypatch):
    made = [one for one in everything() if one.loss == "triplet" and one.protocol == RATIO]
    uri = write_mlflow(write_study(tmp_path, made))
    shown = run(ROOT / "analysis" / "notebooks" / "embedding_maps.ipynb", uri, monkeypatch)
    assert "No final trial of this study kept its embeddings" in shown
    assert "<svg" not in shown
