"""List the project's notebooks, and execute them: on a test's study, or in place.

`uv run python -m tests.support.notebooks` executes all of them in their own folder, on the
quickstart of the project's studies folder, and keeps the outputs.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from tests.support import ROOT
from tests.support.waiting import PATIENCE

NOTEBOOKS = sorted((ROOT / "analysis" / "notebooks").glob("*.ipynb"))


def execute(path: Path, folder: Path, **parameters: Any) -> Any:
    """Return a notebook after its execution in a folder, with parameters as papermill puts them."""
    book = nbformat.read(path, as_version=4)
    if parameters:
        (place,) = [i for i, cell in enumerate(book.cells) if is_parameters(cell)]
        source = "\n".join(f"{name} = {value!r}" for name, value in parameters.items())
        book.cells.insert(place + 1, nbformat.v4.new_code_cell(source))
    client = NotebookClient(
        book,
        timeout=None,
        startup_timeout=PATIENCE,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    )
    known = os.environ.get("PYTHONPATH", "")
    client.execute(
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), known]), "COLUMNS": "100"}
    )
    return book


def is_parameters(cell: Any) -> bool:
    """Return whether papermill replaces what this cell sets."""
    return "parameters" in cell["metadata"].get("tags", ())


def sources(book: Any) -> str:
    """Return a digest of all cells, which says of which sources the outputs are."""
    return sha256("\0".join("".join(cell["source"]) for cell in book["cells"]).encode()).hexdigest()


def keep(path: Path) -> None:
    """Execute a notebook where it is, and keep what it shows."""
    book = execute(path, path.parent)
    book.metadata["fairtrial"] = {"executed": sources(book)}
    nbformat.write(book, path)


if __name__ == "__main__":
    for notebook in NOTEBOOKS:
        print(notebook.name)
        keep(notebook)
