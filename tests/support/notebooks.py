"""List the project's notebooks, and run one from its first cell to its last."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.waiting import PATIENCE

NOTEBOOKS = sorted((ROOT / "analysis" / "notebooks").glob("*.ipynb"))


def run(path: Path, store: str, monkeypatch: pytest.MonkeyPatch, study: str = "made") -> str:
    """Run a notebook on a study of this store, and return all outputs as one text."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    monkeypatch.setenv("FAIRTRIAL_STORE", store)
    monkeypatch.setenv("FAIRTRIAL_STUDY", study)
    monkeypatch.setenv("FAIRTRIAL_POINTS", "120")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    book = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(
        book, timeout=None, startup_timeout=PATIENCE, kernel_name="python3"
    ).execute()
    assert len(json.dumps(book)) < 3_000_000
    return str([cell.outputs for cell in book.cells if cell.cell_type == "code"])
