"""Open a study in Python: its answer, ranking, tables, figures and trials, for a notebook or a
prompt.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

import pandas as pd

from analysis.ranking.fairness import check_fairness
from analysis.ranking.notes import listed
from analysis.ranking.ranking import METRICS
from analysis.ranking.summary import summarise
from analysis.record.frames import StudyRows, of_dataset
from analysis.record.ledger import LEDGER, has_begun
from analysis.tables.catalogue import Study, make_table, rope_of
from analysis.tables.ranking import compact_rankings
from analysis.tables.table import Table
from analysis.tables.terminal import as_text
from analysis.tables.writers import FORMATS, SUFFIXES, as_html
from search_spaces import near_name, pick

if TYPE_CHECKING:
    from analysis.figures.style import Picture

STUDIES = "studies"  # the folder of studies, here or in a folder above
STYLE = """<style>
.fairtrial p { max-width: 52rem; margin: .3rem 0; }
.fairtrial .above, .fairtrial .note, .fairtrial caption { opacity: .75; font-size: .9em; }
.fairtrial caption, .fairtrial .text { text-align: left !important; }
</style>"""


@dataclass(frozen=True, repr=False)
class Answer:
    """Hold the sentences that sum a study up."""

    sentences: tuple[str, ...]

    def __repr__(self) -> str:
        lines = (fill(each, _columns(), break_on_hyphens=False) for each in self.sentences)
        return "\n".join(lines)

    def html(self) -> str:
        """Return a paragraph for each sentence."""
        return "".join(f"<p>{escape(sentence)}</p>\n" for sentence in self.sentences)

    def _repr_html_(self) -> str:
        return _shown(self.html())


@dataclass(frozen=True, repr=False)
class TableView:
    """Hold a table: text at a prompt, HTML in a notebook, a frame or a file on request."""

    table: Table

    def frame(self) -> pd.DataFrame:
        """Return the numbers in full; shares run from 0 to 1."""
        return self.table.frame()

    def only(self, *columns: str) -> TableView:
        """Return the table with these columns, behind those that say where losses are compared."""
        known = {column.name: column for column in self.table.columns}
        places = [name for name, column in known.items() if column.in_title]
        chosen = (pick(known, name, "column") for name in dict.fromkeys([*places, *columns]))
        return TableView(replace(self.table, columns=tuple(chosen)))

    def text(self, form: str) -> str:
        """Return the table as text, csv, markdown, latex, html or json."""
        return pick(FORMATS, form, "format")(self.table)

    def save(self, path: str | Path) -> Path:
        """Write the table in the format that the suffix names, such as .tex; return the path."""
        text = self.text(pick(SUFFIXES, Path(path).suffix, "suffix"))
        Path(path).write_text(text, encoding="utf-8")
        return Path(path)

    def __repr__(self) -> str:
        return as_text(self.table, _columns()).rstrip()

    def _repr_html_(self) -> str:
        return _shown(as_html(self.table))


@dataclass(frozen=True, repr=False)
class FigureView:
    """Hold a figure's pictures: captions at a prompt, pictures in a notebook, files on request."""

    name: str
    pictures: tuple[Picture, ...]

    def save(self, folder: str | Path = "figures") -> list[Path]:
        """Write every picture as SVG and PNG; return the paths."""
        return [path for each in self.pictures for path in each.drawing.save(Path(folder))]

    def __repr__(self) -> str:
        if not self.pictures:
            return f"{self.name} has nothing to draw yet."
        lines = [f"{each.drawing.name}: {each.caption}".strip(": ") for each in self.pictures]
        return "\n".join([*lines, f".save(FOLDER) writes {self.name} as SVG and PNG."])

    def _repr_html_(self) -> str:
        shown = "\n".join(each._repr_html_() for each in self.pictures)
        return _shown(shown or f"<p>{escape(repr(self))}</p>")


@dataclass(frozen=True, repr=False)
class OpenedStudy:
    """Hold a study that was read; it shows itself as its answer and ranking.

    folder: where it was read, or None for a store; layouts of maps, which take a while to compute,
    stay there.
    """

    rows: StudyRows
    folder: Path | None = None

    @property
    def trials(self) -> pd.DataFrame:
        """Return one row per trial: what it was, its setting, how it ended, its last metrics."""
        return self.rows.trials

    @cached_property
    def study(self) -> Study:
        """Return what tables and figures are made of."""
        return Study(self.rows, rope=rope_of(self.rows.config))

    def answer(self) -> Answer:
        """Return which loss has the highest score, and how sure that is."""
        found = self.study.rankings
        sentences = [
            f"{ranking.title}: {sentence}" if len(found) > 1 else sentence
            for ranking in found
            for sentence in summarise(ranking)
        ]
        return Answer(tuple(sentences or summarise(None)))

    def ranking(self) -> TableView:
        """Return a line per loss; table("ranking") has every column and note."""
        made = compact_rankings(self.study.rankings)
        above = check_fairness(self.rows).in_short if made.rows else ""
        return TableView(replace(made, above=(above,) if above else ()))

    def table(self, name: str) -> TableView:
        """Return one of the tables that `fairtrial list tables` names."""
        return TableView(make_table(name, self.study))

    def figure(self, name: str, *, losses: Sequence[str] = ()) -> FigureView:
        """Return one of the figures that `fairtrial list figures` names.

        losses: of which to draw maps, or ["all"]; without any, of the first of each ranking.
        """
        from analysis.figures.catalogue import FIGURES, draw  # matplotlib, which no table needs
        from analysis.figures.from_study import ALL_LOSSES, FigureData
        from analysis.report.report import CACHE

        entry = pick(FIGURES, name, "figure")
        if losses and not entry.of_losses:
            able = ", ".join(each for each, known in FIGURES.items() if known.of_losses)
            raise ValueError(
                f"Only maps are drawn of single losses, but {name} shows all; choose one of {able}."
            )
        known = self.trials["loss"].unique() if len(self.trials) else ()
        for loss in losses:
            pick(dict.fromkeys([*known, ALL_LOSSES]), loss, "loss of this study")
        metric, cache = self.rows.config.get("select_metric", METRICS[0]), None
        if self.folder and os.access(self.folder, os.W_OK):  # not another user's
            cache = self.folder / CACHE
        data = FigureData(self.study, metric, cache=cache, losses=tuple(losses))
        return FigureView(name, tuple(draw(name, data)))

    def only(self, dataset: str) -> OpenedStudy:
        """Return the study's cells of one dataset."""
        return replace(self, rows=of_dataset(self.rows, dataset))

    def __repr__(self) -> str:
        return f"{self.rows.name}\n\n{self.answer()}\n\n{self.ranking()}"

    def _repr_html_(self) -> str:
        title = f"<h3>{escape(self.rows.name)}</h3>\n"
        return _shown(title + self.answer().html() + as_html(self.ranking().table))


def _columns() -> int:
    """Return how wide the terminal is; without one, wide enough for a ranking."""
    return shutil.get_terminal_size((120, 24)).columns


def _shown(html: str) -> str:
    return f'{STYLE}\n<div class="fairtrial">\n{html}</div>\n'


def find_folder(name: str | Path) -> Path:
    """Return a study's folder by its name or its path.

    A name is looked for in the studies folder here and then in those of the folders above, so that
    a notebook finds it from where it is. Raise ValueError if there is none.
    """
    around = [Path.cwd(), *Path.cwd().parents]
    for base in around:
        for folder in (base / STUDIES / name, base / name):
            if has_begun(folder):
                return folder
    known = {
        ledger.parent.name: base / STUDIES
        for base in around
        for ledger in (base / STUDIES).glob(f"[!.]*/{LEDGER}")
        if has_begun(ledger.parent)
    }
    if not known:
        raise ValueError(
            f"There is no study '{name}': neither {around[0]} nor a folder above it has a "
            f"{STUDIES} folder with one; `fairtrial run quickstart` makes one."
        )
    raise ValueError(
        f"There is no study '{name}' in {listed(list(dict.fromkeys(map(str, known.values()))))}."
        f"{near_name(known, Path(name).name)} Known: {', '.join(sorted(known))}."
    )
