"""Say what the finished trials show; in Python: from analysis import open_study."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analysis.opened import OpenedStudy
    from analysis.record.frames import StudyRows

__all__ = ["open_study", "read_study"]


def open_study(name: str | Path, *, uri: str | None = None) -> OpenedStudy:
    """Open a study: its answer, ranking, tables, figures and trials.

    open_study("quickstart") looks in the studies folder here or in a folder above; a path to a
    study's folder works, too. open_study("quickstart", uri=URI) reads an MLflow store.
    """
    from analysis.opened import OpenedStudy, find_folder

    if uri is not None:
        return OpenedStudy(read_study(uri, str(name)))
    folder = find_folder(name)
    return OpenedStudy(read_study(folder), folder)


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
