"""A study's page with everything on it: the report, every table that has rows, and the fairness check; kept in MLflow, too."""

from __future__ import annotations

from pathlib import Path

from analysis.report import write_report
from analysis.tables import Ranking
from analysis.tables.catalogue import TABLES, Study, make_table
from analysis.tables.writers import as_html
from analysis.tracking import StudyRows, keep_files

SHOWN = ("ranking", "beside", "decomposition", "default_vs_validation")  # the page has its own place for these
KEPT = ("report.html", "*.csv", "*.md", "figures/*.svg")


def write_page(rows: StudyRows, *, folder: Path, config_yaml: str, uri: str, maps: bool = True) -> tuple[Path, list[Ranking]]:
    """Write report.html and what belongs to it into the folder, and the same files into the study's own run; page and rankings.

    maps: embedding maps, too, which take a while the first time.
    """
    study = Study(rows)
    made = {name: make_table(name, study) for name in TABLES if name not in SHOWN}
    tables = [(name.replace("_", " "), as_html(table)) for name, table in made.items() if table.rows]
    found = study.rankings
    page = write_report(
        rows, found, folder=folder, config_yaml=config_yaml, tables=tables, fairness=study.fairness, uri=uri if maps else None
    )
    keep_files(uri, rows.name, [path for pattern in KEPT for path in sorted(folder.glob(pattern))], below=folder)
    return page, found
