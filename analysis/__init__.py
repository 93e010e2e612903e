"""Say what the finished trials show; in Python: from analysis import read_study."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analysis.record.frames import StudyRows

__all__ = ["read_study"]


def read_study(source: str | Path, name: str | None = None) -> StudyRows:
    """Return a study as frames, from its folder or from any MLflow store.

    read_study("studies/quickstart") reads the study's own record; read_study(URI, "quickstart")
    reads the same frames from the MLflow store at that address.
    """
    if name is None:
        from analysis.record.frames import read_record

        return read_record(Path(source))
    from analysis.tracking.read import read_mlflow

    return read_mlflow(str(source), name)
