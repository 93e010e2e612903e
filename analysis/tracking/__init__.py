"""MLflow: rows written in the background, and read back as frames."""

from analysis.tracking.earlier import Earlier, earlier_trials
from analysis.tracking.read import read_study
from analysis.tracking.rows import StudyRows
from analysis.tracking.store import TrackingError, delete_study, open_store, redact, studies
from analysis.tracking.write import Tracker, keep_files

__all__ = [
    "Earlier",
    "StudyRows",
    "Tracker",
    "TrackingError",
    "delete_study",
    "earlier_trials",
    "keep_files",
    "open_store",
    "read_study",
    "redact",
    "studies",
]
