"""Remember how far MLflow follows a study's ledger."""

import json
from pathlib import Path
from typing import NamedTuple

from analysis.record.ledger import LEDGER
from trainables.outputs.disk import replace_text

CURSOR = "mlflow.json"  # in a study's folder


class Cursor(NamedTuple):
    """Hold the byte of the ledger up to which MLflow has everything, and the events before it."""

    byte: int = 0
    events: int = 0


def read_cursor(folder: Path) -> Cursor:
    """Return the cursor of a study.

    If it cannot be read, or is not at the end of a line, start at the beginning: MLflow gets
    nothing twice.
    """
    try:
        saved = json.loads((folder / CURSOR).read_text())
        cursor = Cursor(int(saved["byte"]), int(saved["events"]))
        with (folder / LEDGER).open("rb") as file:
            file.seek(max(0, cursor.byte - 1))
            return cursor if file.read(1) == b"\n" else Cursor()
    except (OSError, ValueError, KeyError, TypeError):
        return Cursor()


def save_cursor(folder: Path, cursor: Cursor) -> None:
    """Write the cursor of a study."""
    replace_text(folder / CURSOR, json.dumps(cursor._asdict()))
