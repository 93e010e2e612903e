"""The cursor: the byte of a study's ledger up to which MLflow has everything."""

import json
from pathlib import Path

from study.ledger import LEDGER
from trainables.disk import replace_text

CURSOR = "mlflow.json"


def cursor(folder: Path) -> int:
    """One that cannot be read, or that is not at a line's end, is at the beginning: what MLflow has already is not written twice."""
    try:
        byte = int(json.loads((folder / CURSOR).read_text())["byte"])
        with (folder / LEDGER).open("rb") as file:
            file.seek(max(0, byte - 1))
            return byte if file.read(1) == b"\n" else 0
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def save_cursor(folder: Path, byte: int) -> None:
    replace_text(folder / CURSOR, json.dumps({"byte": byte}))
