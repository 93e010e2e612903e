"""Write a study's report: one self-contained HTML page, and its figures and tables as files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import yaml

from analysis.figures.catalogue import draw
from analysis.figures.from_study import FigureData
from analysis.figures.style import Picture
from analysis.ranking.comparisons import comparisons
from analysis.ranking.fairness import check_fairness
from analysis.ranking.measurement import CLOSED_MARK
from analysis.ranking.notes import ONE_SEARCH
from analysis.ranking.ranking import METRICS, Ranking
from analysis.report.overview import how_made, splits_of
from analysis.report.render import render
from analysis.report.sections import section_of
from analysis.report.tables_shown import left_out
from analysis.report.trial_data import trial_data, trials_of
from analysis.tables.beside import beside_table
from analysis.tables.catalogue import OF_EMBEDDINGS, TABLES, Study, make_table
from analysis.tables.decomposition import decomposition_table, long_decomposition
from analysis.tables.ranking import ranking_table
from analysis.tables.table import Table
from analysis.tables.writers import as_csv, as_html, as_markdown
from analysis.tracking import Links, redact
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
# Longer tables of the tab of tables, and more notes below a table, are folded away.
ROWS_SHOWN, NOTES_SHOWN = 30, 3
STATIC_ROWS = 200  # trials in the page's table where no script runs
MAPS = ("same_vs_different", "joint_map", "yoked_map", "yoked_models", "gallery")

Draw = Callable[[Sequence[str], FigureData], dict[str, list[Picture]]]
NO_LINKS = Links()
MARKS = {PEEKING: "*", CLOSED: CLOSED_MARK}  # of a rule


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
    links: Links = NO_LINKS,
) -> list[Path]:
    """Write report.html, figures/, tables/, ranking.md and the CSV files into the folder; return
    all of them, the page first.

    readings: how often the test classes were read, by rule. maps: also make what is computed from
    embeddings, which takes a while: maps, and recall on train classes. draw_all: draws figures, in
    more than one process if there are. links: where a server shows the study and its trials.
    """
    source = figure_data(study, folder, config_yaml)
    found = study.rankings
    drawn = draw_all((*OF_A_COMPARISON, *OF_THE_STUDY, *(MAPS if maps else ())), source)
    made = {
        name: table
        for name in TABLES
        if (maps or name not in OF_EMBEDDINGS) and (table := make_table(name, study)).rows
    }
    page = render(
        "report.html.jinja",
        **_answer(source, drawn),
        **_tables(made, study, maps=maps),
        **_setup(study, config_yaml),
        maps_left=not maps and _embeddings_kept(config_yaml) and bool(found),
        across=[picture for name in OF_THE_STUDY for picture in drawn[name]],
        map_names=MAPS,
        maps_shown=any(drawn.get(name) for name in MAPS),
        data=trial_data(study.rows, source.metric, losses=_by_rank(found), links=links),
        first_trials=trials_of(study.rows)[:STATIC_ROWS],
        html_of=_writer(study),
        interval_notes=study.interval_notes,
        rows_shown=ROWS_SHOWN,
        readings=_marked(readings),
    )
    written = _write_texts(folder, page, made=made, found=found)
    pictures = [picture for each in drawn.values() for picture in each]
    return [
        *written,
        *(path for picture in pictures for path in picture.drawing.save(folder / FOLDER)),
    ]


def _answer(source: FigureData, drawn: dict[str, list[Picture]]) -> dict[str, Any]:
    """Return what a page says first, and of each comparison."""
    study = source.study
    return {
        "study": study.rows.name,
        "sections": [
            section_of(source, comparison, drawn) for comparison in comparisons(source.trials)
        ],
        "fairness": check_fairness(study.rows),
        "warnings": study.warnings,
        "one_search": ONE_SEARCH if study.rankings and ONE_SEARCH in study.interval_notes else "",
        "made": how_made(study.rows, source.metric),
    }


def _tables(made: Mapping[str, Table], study: Study, *, maps: bool) -> dict[str, Any]:
    """Return the tables that say something about the study, and the names of the others."""
    without = left_out(made, study, maps=maps)
    names = {each.name for each in without}
    return {
        "tables": {
            name: table
            for name, table in made.items()
            if name not in SHOWN_ELSEWHERE and name not in names
        },
        "left_out": [each for each in without if each.name not in SHOWN_ELSEWHERE],
        "compute": made.get("compute"),
    }


def _setup(study: Study, config_yaml: str) -> dict[str, Any]:
    trials = study.rows.trials
    return {
        "splits": splits_of(study.rows),
        "origin": {
            tag: sorted(set(trials[tag].dropna())) for tag in ("git", "versions") if tag in trials
        },
        # An address may contain a password, and people share pages.
        "config": redact(config_yaml),
    }


def _embeddings_kept(config_yaml: str) -> bool:
    return bool((yaml.safe_load(config_yaml) or {}).get("keep_embeddings") != "none")


def _by_rank(found: Sequence[Ranking]) -> list[str]:
    """Return all losses, those of the first ranking in its order."""
    return list(dict.fromkeys(row.loss for ranking in found for row in ranking.rows))


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


def _writer(study: Study) -> Callable[..., str]:
    """Return a function that writes a table for the page, without what the page says once."""
    once = {*study.warnings, ONE_SEARCH}

    def html_of(table: Table, *, without: Sequence[str] = ()) -> str:
        notes = [note for note in table.notes if note not in once and note not in without]
        return _folded(as_html(replace(table, above=(), notes=tuple(notes))))

    return html_of


def _folded(html: str) -> str:
    """Return a table's HTML with its notes folded away if there are many."""
    table, end, notes = html.partition("</table></div>\n")
    count = notes.count("<p ")
    if count <= NOTES_SHOWN:
        return html
    summary = f'<summary class="note">{count} notes on this table</summary>'
    return f"{table}{end}<details>{summary}\n{notes}</details>\n"


def _marked(counts: Counter[str]) -> list[str]:
    return [
        f"{counts[rule]:,} {rule}{MARKS.get(rule, '')}" for rule in get_args(Rule) if counts[rule]
    ]
