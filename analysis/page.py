"""A study's page, written and kept in MLflow with every figure and table on it."""

from __future__ import annotations

from pathlib import Path

from analysis.report import write_report
from analysis.tables import Ranking
from analysis.tables.catalogue import Study
from analysis.tracking import StudyRows, keep_files


def write_page(rows: StudyRows, *, folder: Path, config_yaml: str, uri: str, maps: bool = True) -> tuple[Path, list[Ranking]]:
    """Write report.html and what belongs to it into the folder, and the same files into the study's own run; page and rankings.

    maps: embedding maps, too, which take a while the first time.
    """
    study = Study(rows)
    written = write_report(study, folder=folder, config_yaml=config_yaml, maps=maps)
    keep_files(uri, rows.name, written, below=folder)
    return written[0], study.rankings
