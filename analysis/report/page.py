"""Write a study's page into its folder and, if MLflow is there, into the study's own run."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from analysis.ranking.ranking import Ranking
from analysis.record.frames import StudyRows
from analysis.record.ledger import LedgerReader
from analysis.record.state import StudyState
from analysis.report.report import rope_of, write_report
from analysis.tables.catalogue import Study
from analysis.tracking import TrackingError, has_moved, keep_files, redact

LIBRARIES = ("matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg", "scipy.stats")


def write_page(
    rows: StudyRows, *, folder: Path, config_yaml: str, uri: str, maps: bool = True
) -> tuple[Path, list[Ranking], str]:
    """Write report.html and what belongs to it, and return the page, its rankings and a sentence.

    The sentence says why MLflow did not take the files; it is empty if it did. maps: also make what
    is computed from embeddings, which takes a while.
    """
    study = Study(rows, rope=rope_of(config_yaml))
    readings = Counter(
        line.rule for line in StudyState(LedgerReader(folder).read()).test_readings()
    )
    written = write_report(
        study, folder=folder, config_yaml=config_yaml, readings=readings, maps=maps
    )
    return written[0], study.rankings, _keep(uri, rows.name, written, folder)


def load_later(seconds: float) -> None:
    """Import in a thread what a page needs and takes seconds to import, this long from now.

    So nobody waits for it at the end of a study, nor at its start.
    """
    thread = threading.Timer(seconds, lambda: [import_module(name) for name in LIBRARIES])
    thread.daemon = True
    thread.start()


def _keep(uri: str, study: str, written: Sequence[Path], folder: Path) -> str:
    """Put the files into the study's run in MLflow, or return why it does not take them."""
    try:
        if has_moved(uri, study):
            return (
                f"MLflow at {redact(uri)} does not have the page, because the studies folder has "
                f"moved; `fairtrial run {study} --resume` writes the study there again."
            )
        keep_files(uri, study, written, below=folder)
    except TrackingError as error:
        return str(error)
    return ""
