"""MLflow: rows written in the background, and read back as frames."""

from analysis.tracking.read import read_study
from analysis.tracking.rows import StudyRows
from analysis.tracking.store import TrackingError, open_store, redact, studies
from analysis.tracking.write import Tracker

__all__ = ["StudyRows", "Tracker", "TrackingError", "open_store", "read_study", "redact", "studies"]
