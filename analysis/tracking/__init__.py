"""Export a study's record to MLflow, and read the same frames back from any store."""

from analysis.tracking.earlier import Earlier, earlier_trials
from analysis.tracking.store import TrackingError, open_store, redact
from analysis.tracking.stored_studies import (
    delete_study,
    forget_moved,
    has_moved,
    left_running,
    moved_studies,
    studies,
)
from analysis.tracking.study_page import Links, keep_files, links_of
from analysis.tracking.write import Tracker

__all__ = [
    "Earlier",
    "Links",
    "Tracker",
    "TrackingError",
    "delete_study",
    "earlier_trials",
    "forget_moved",
    "has_moved",
    "keep_files",
    "left_running",
    "links_of",
    "moved_studies",
    "open_store",
    "redact",
    "studies",
]
