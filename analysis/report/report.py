"""Write a study's report: one self-contained HTML page, and its figures and tables as files."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import get_args

import jinja2
import pandas as pd
import yaml

from analysis.figures.catalogue import draw
from analysis.figures.from_study import FigureData
from analysis.figures.style import Picture
from analysis.ranking.comparisons import Comparison, comparisons
from analysis.ranking.fairness import check_fairness
from analysis.ranking.measurement import CLOSED_MARK
from analysis.ranking.notes import ONE_SEARCH
from analysis.ranking.ranking import METRICS, Ranking
from analysis.ranking.summary import summarise
from analysis.statistics import ROPE
from analysis.tables.beside import beside_table
from analysis.tables.catalogue import OF_EMBEDDINGS, TABLES, Study, make_table
from analysis.tables.decomposition import decomposition_table, long_decomposition
from analysis.tables.ranking import ranking_table, tables_of
from analysis.tables.table import Table
from analysis.tables.writers import as_csv, as_html, as_markdown
from analysis.tracking import redact
from trainables.contract import CLOSED, PEEKING, Rule

# Beside the page: every figure as SVG and PNG; the points of maps, which take a while to compute.
FOLDER, CACHE = "figures", "maps"
# Tables that the page shows elsewhere than among its tables.
SHOWN_ELSEWHERE = (
    "ranking",
    "beside",
    "decomposition",
    "steps",
    "default_vs_validation",
    "compute",
)
OWN_FILE = ("ranking", "beside", "decomposition")  # tables that have a file beside the page
# Which part of the page has which figures. The others are drawn only on request.
OF_A_COMPARISON = (
    "differences",
    "curves",
    "search",
    "parallel_coordinates",
    "slices",
    "importance",
    "validation_against_test",
)
OF_THE_STUDY = (
    "recall_by_loss",
    "recall_by_size",
    "recall_by_backbone",
    "recall_by_dataset",
    "critical_difference",
    "improvement_by_year",
    "papers_versus_reality",
)
MAPS = ("same_vs_different", "joint_map", "yoked_map", "yoked_models", "gallery")

Draw = Callable[[Sequence[str], FigureData], dict[str, list[Picture]]]
MARKS = {PEEKING: "*", CLOSED: CLOSED_MARK}  # of a rule


@dataclass(frozen=True)
class Section:
    """Hold what the page shows of one comparison; tables and pictures by name."""

    title: str
    first_loss: str
    tables: dict[str, Table]
    sentences: list[str]
    unfinished: list[str]
    searched: bool
    pictures: dict[str, list[Picture]]
    default_in: str  # the section that has the default setup's curves and search, if it is another


def draw_in_turn(names: Sequence[str], data: FigureData) -> dict[str, list[Picture]]:
    """Return the pictures of every figure by its name."""
    return {name: draw(name, data) for name in names}


def figure_data(study: Study, folder: Path, config_yaml: str) -> FigureData:
    """Return what the figures of this study's page are made of."""
    config = yaml.safe_load(config_yaml) or {}
    return FigureData(study, config.get("select_metric", METRICS[0]), cache=folder / CACHE)


def write_report(
    study: Study,
    *,
    folder: Path,
    config_yaml: str,
    readings: Counter[str],
    maps: bool = False,
    draw_all: Draw = draw_in_turn,
) -> list[Path]:
    """Write report.html, figures/, tables/, ranking.md and the CSV files into the folder; return
    all of them, the page first.

    readings: how often the test classes were read, by rule. maps: also make what is computed from
    embeddings, which takes a while: maps, and recall on train classes. draw_all: draws figures, in
    more than one process if there are.
    """
    config = yaml.safe_load(config_yaml) or {}
    source = figure_data(study, folder, config_yaml)
    trials, found = study.rows.trials, study.rankings
    drawn = draw_all((*OF_A_COMPARISON, *OF_THE_STUDY, *(MAPS if maps else ())), source)
    made = {
        name: table
        for name in TABLES
        if (maps or name not in OF_EMBEDDINGS) and (table := make_table(name, study)).rows
    }
    page = _template().render(
        study=study.rows.name,
        sections=[_section(source, comparison, drawn) for comparison in comparisons(trials)],
        across=[picture for name in OF_THE_STUDY for picture in drawn[name]],
        map_names=MAPS,
        maps_left=not maps and config.get("keep_embeddings") != "none" and bool(found),
        html_of=_html_of,
        tables={name: table for name, table in made.items() if name not in SHOWN_ELSEWHERE},
        compute=made.get("compute"),
        fairness=check_fairness(study.rows),
        warnings=study.warnings,
        one_search=ONE_SEARCH if found and ONE_SEARCH in study.interval_notes else "",
        script=_script(),
        script_hash=base64.b64encode(hashlib.sha256(_script().encode()).digest()).decode(),
        when=_when(trials),
        origin={
            tag: sorted(set(trials[tag].dropna())) for tag in ("git", "versions") if tag in trials
        },
        readings=_marked(readings),
        # An address may contain a password, and people share pages.
        config=redact(config_yaml),
    )
    written = _write_texts(folder, page, made=made, found=found)
    pictures = [picture for each in drawn.values() for picture in each]
    return [
        *written,
        *(path for picture in pictures for path in picture.drawing.save(folder / FOLDER)),
    ]


def rope_of(config_yaml: str) -> float:
    """Return the region of practical equivalence that the config asks for, as a share."""
    config = yaml.safe_load(config_yaml) or {}
    return float(config["rope"]) / 100 if "rope" in config else ROPE


def _write_texts(
    folder: Path, page: str, *, made: Mapping[str, Table], found: Sequence[Ranking]
) -> list[Path]:
    """Write the page and the tables beside it; return their files, the page first."""
    texts = {
        "report.html": page,
        "ranking.csv": as_csv(ranking_table(found)),
        "beside.csv": as_csv(beside_table(found)),
        "ranking.md": ranking_markdown(found),
    }
    texts |= {
        f"tables/{name}.csv": as_csv(table) for name, table in made.items() if name not in OWN_FILE
    }
    # No file is clearer than one with a header only.
    (folder / "decomposition.csv").unlink(missing_ok=True)
    if (parts := long_decomposition(found)).rows:
        texts["decomposition.csv"] = as_csv(parts)
    (folder / "tables").mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in texts]


def ranking_markdown(found: Sequence[Ranking]) -> str:
    """Return the tables of every ranking as Markdown."""
    if not found:
        return "No final trial has finished, so there is nothing to rank.\n"
    makers = (ranking_table, beside_table, decomposition_table)
    tables = [make([ranking]) for ranking in found for make in makers]
    return "\n".join(as_markdown(table) for table in tables if table.rows)


def _template() -> jinja2.Template:
    loader = jinja2.PackageLoader("analysis.report", "")
    pages = jinja2.Environment(
        loader=loader,
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return pages.get_template("report.html.jinja")


def _html_of(table: Table) -> str:
    """Return a table as HTML without the fairness check, which stands once at the top of a page."""
    return as_html(replace(table, above=()))


def _script() -> str:
    return files("analysis.report").joinpath("report.js").read_text(encoding="utf-8")


def _marked(counts: Counter[str]) -> list[str]:
    return [
        f"{counts[rule]:,} {rule}{MARKS.get(rule, '')}" for rule in get_args(Rule) if counts[rule]
    ]


def _section(
    source: FigureData, comparison: Comparison, drawn: dict[str, list[Picture]]
) -> Section:
    trials, ranking = source.trials, source.ranking(comparison)
    first = source.first(comparison)
    trained = comparison.trained(trials)
    searched = trained[trained["phase"] == "search"]
    mine = pd.concat([trained, comparison.untrained(trials)])
    stuck = mine[mine["status"] != "FINISHED"]
    return Section(
        title=comparison.title,
        first_loss=ranking.rows[0].loss if ranking else "",
        tables=tables_of(ranking) if ranking else {},
        sentences=summarise(ranking),
        unfinished=[
            f"{row['loss']}, {row['protocol']}, {row['trial']}: {row['status'].lower()}"
            for _, row in stuck.iterrows()
        ],
        searched=bool((~searched["peeks"]).any()),
        pictures={
            name: [picture for picture in each if picture.comparison == comparison.title]
            for name, each in drawn.items()
        },
        default_in=first.title if first != comparison and trained["peeks"].any() else "",
    )


def _time(seconds: float) -> str:
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.1f} min" if seconds >= 60 else f"{seconds:.0f} s"


def _when(trials: pd.DataFrame) -> str:
    """Say when the first trial started, and how long it took until the last one ended."""
    if trials.empty or trials["end"].isna().all():
        return ""
    start, end = float(trials["start"].min()) / 1000, float(trials["end"].max()) / 1000
    began = f"{datetime.fromtimestamp(start, UTC):%Y-%m-%d %H:%M} UTC"
    return f"{began}, {_time(end - start)} from first to last trial"
