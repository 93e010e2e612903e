"""Write a study's page into its folder and, if MLflow is there, into the study's own run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import yaml

from analysis.ranking.fairness import FairnessCheck, check_fairness
from analysis.ranking.ranking import Ranking
from analysis.ranking.summary import summarise
from analysis.record.commands import resuming
from analysis.record.frames import StudyRows
from analysis.record.ledger import LedgerReader
from analysis.record.state import StudyState
from analysis.report.report import Draw, draw_in_turn, write_report
from analysis.tables.catalogue import Study, rope_of
from analysis.tracking import TrackingError, has_moved, keep_files, links_of, redact


@dataclass(frozen=True)
class Page:
    """Hold what was written of a study, the page first, and what a terminal shows of it."""

    files: list[Path]
    rankings: list[Ranking]
    fairness: FairnessCheck


def write_page(
    rows: StudyRows,
    *,
    folder: Path,
    config_yaml: str,
    maps: bool = True,
    draw_all: Draw = draw_in_turn,
) -> Page:
    """Write report.html and what belongs to it into the study's folder.

    maps: also make what is computed from embeddings, which takes a while. draw_all: draws figures.
    """
    config = yaml.safe_load(config_yaml) or {}
    study = Study(rows, rope=rope_of(config))
    readings = Counter(
        line.rule for line in StudyState(LedgerReader(folder).read()).test_readings()
    )
    written = write_report(
        study,
        folder=folder,
        config_yaml=config_yaml,
        readings=readings,
        maps=maps,
        draw_all=draw_all,
        links=links_of(str(config.get("tracking_uri") or ""), rows.name),
    )
    return Page(written, study.rankings, check_fairness(rows))


def keep_page(uri: str, study: str, written: Page, folder: Path) -> str:
    """Put the page into the study's run in MLflow, or return why it does not take it."""
    try:
        if has_moved(uri, study):
            return (
                f"MLflow at {redact(uri)} does not have the page, because the studies folder has "
                f"moved; `{resuming(folder)}` writes the study there again."
            )
        answer = [summarise(ranking)[0] for ranking in written.rankings] or summarise(None)
        keep_files(uri, study, written.files, below=folder, answer=answer)
    except TrackingError as error:
        return str(error)
    return ""
