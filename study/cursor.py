"""The cursor: the byte of a study's ledger up to which MLflow has everything."""

import json
from pathlib import Path

CURSOR = "mlflow.json"


def cursor(folder: Path) -> int:
    """One that cannot be read is at the beginning: what MLflow has already is not written twice."""
    try:
        return int(json.loads((folder / CURSOR).read_text())["byte"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def save_cursor(folder: Path, byte: int) -> None:
    draft = folder / f"{CURSOR}.new"
    draft.write_text(json.dumps({"byte": byte}))
    draft.replace(folder / CURSOR)
