"""One style for every figure: readable in grey, on light and on dark, as vectors on a page and as SVG and PNG beside it."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from matplotlib.ticker import MaxNLocator

# Blue and vermillion of Okabe and Ito: told apart with any colour vision; dashes and hollow markers tell them apart in grey.
VALIDATION, DEFAULT = "#0072b2", "#d55e00"
INK, PAPER = "#010101", "#fefefe"
# The rest of their colours, from dark to light, each with a marker and dashes of its own.
SERIES: tuple[tuple[str, str, Any], ...] = (
    ("#0072b2", "o", "-"),
    ("#d55e00", "s", (0, (5, 2))),
    ("#009e73", "^", (0, (1, 1.5))),
    ("#cc79a7", "D", (0, (6, 2, 1, 2))),
    ("#e69f00", "v", (0, (3, 1.5))),
    ("#56b4e9", "P", (0, (8, 2))),
    ("#8a8a8a", "X", (0, (2, 2))),
)
# A figure stands inside a page, so it takes the page's colours and is right on light and on dark.
PAGE = {INK: "currentColor", PAPER: "var(--paper, #fff)", VALIDATION: "var(--validation, #0072b2)", DEFAULT: "var(--default, #d55e00)"}
FONT = "font-family: system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', Arial, sans-serif"
WIDTH = 9.2  # inches, of every figure
COLUMNS = 4  # panels side by side
DPI = 170  # of PNG files, and of clouds of points inside a vector file
STYLE: dict[str, Any] = {
    "svg.fonttype": "none",  # text stays text: it can be found, copied and read aloud
    "svg.hashsalt": "fairtrial",  # the same study gives the same file
    "figure.dpi": DPI,
    "font.family": ["DejaVu Sans"],  # measured with a wide font, so a page's own one always fits
    "font.size": 8.5,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": INK,
    "grid.alpha": 0.13,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.solid_capstyle": "round",
}


@dataclass(frozen=True, eq=False)
class Drawing:
    """A finished figure. name: of its files, and of its ids on a page; label: what it shows, for those who cannot see it."""

    name: str
    label: str
    figure: Figure

    def inline(self) -> str:
        """Ready to stand in a page: no prolog, no addresses, the page's colours, and ids that no other figure has."""
        text = self.vector[self.vector.index("<svg") :]
        text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
        viewbox = re.search(r'viewBox="[^"]*"', text)
        assert viewbox, "matplotlib writes a viewBox"
        share = self.figure.get_figwidth() / WIDTH  # a narrow figure stays narrow, and its letters as large as in the others
        head = f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" {viewbox[0]} '
        text = re.sub(
            r"<svg[^>]*>", f'{head}role="img" aria-label="{escape(self.label)}" style="{FONT}; --share: {share:.3f}">', text, count=1
        )
        text = re.sub(r'( id="|url\(#|href="#)', rf"\g<1>{escape(self.name)}-", text)
        text = text.replace("font-family: 'DejaVu Sans'; ", "")
        for colour, of_page in PAGE.items():
            text = text.replace(colour, of_page)
        return text

    def save(self, folder: Path) -> list[Path]:
        """NAME.svg and NAME.png, on white, for a paper or a talk."""
        folder.mkdir(parents=True, exist_ok=True)
        stem = re.sub(r"[^\w.+-]+", "-", self.name)
        vector, bitmap = folder / f"{stem}.svg", folder / f"{stem}.png"
        on_white = re.sub(r"(<svg[^>]*>)", r'\1<rect width="100%" height="100%" fill="white"/>', self.vector, count=1)
        vector.write_text(on_white, encoding="utf-8")
        with mpl.rc_context(STYLE):
            self.figure.savefig(bitmap, dpi=DPI, facecolor="white", metadata={"Software": None})
        return [vector, bitmap]

    @cached_property
    def vector(self) -> str:
        """As SVG, on nothing: drawn once, for the page and for its file."""
        buffer = io.StringIO()
        with mpl.rc_context(STYLE):
            self.figure.savefig(buffer, format="svg", dpi=DPI, metadata={"Date": None, "Creator": None}, transparent=True)
            self.figure.set_layout_engine(None)  # laid out once; the next file of it takes no time to
        return buffer.getvalue()

    def _repr_html_(self) -> str:
        """In a notebook."""
        return f'<div style="max-width: 60rem">{self.inline()}</div>'


@contextmanager
def sheet(height: float, width: float = WIDTH) -> Iterator[Figure]:
    """A figure of so many inches, in our style."""
    with mpl.rc_context(STYLE):
        yield Figure(figsize=(width, height), layout="constrained")


def panels(figure: FigureBase, names: Sequence[str], *, name: str, x: str, y: str, columns: int = COLUMNS, **axes: Any) -> dict[str, Axes]:
    """A panel for each name, in rows of at most `columns`; all on one scale unless told otherwise."""
    columns = min(columns, len(names))
    grid = figure.subplots(-(-len(names) // columns), columns, squeeze=False, **{"sharex": True, "sharey": True, **axes})
    for spare in grid.flat[len(names) :]:
        spare.set_visible(False)
    found: dict[str, Axes] = dict(zip(names, grid.flat, strict=False))
    for axis in grid[:, 0]:
        axis.set_ylabel(y)
    for title, panel in found.items():
        panel.set(title=title, xlabel=x)
        panel.set_gid(f"panel-{name}-{title}")
        panel.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
        panel.tick_params(labelbottom=True)
    return found
