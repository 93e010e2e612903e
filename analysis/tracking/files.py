"""Files that a trial left in the store, brought here when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from analysis.tracking.store import TrackingError, open_store, redact


def fetch(uri: str, run_id: str, names: Sequence[str], folder: Path) -> dict[str, Path]:
    """Name -> path of those that the trial has; the others are not in it. A TrackingError says why the store cannot be read."""
    try:
        client = open_store(uri)
        there = {file.path for file in client.list_artifacts(run_id)}
        folder.mkdir(parents=True, exist_ok=True)
        return {name: Path(client.download_artifacts(run_id, name, str(folder))) for name in names if name in there}
    except Exception as error:
        raise TrackingError(f"MLflow at {redact(uri)} cannot be read: {' '.join(redact(str(error)).split())}") from error
