"""Give every figure one style: readable in grey, on light and on dark, as vectors and as pixels."""

from __future__ import annotations

import base64
import io
import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from matplotlib.ticker import MaxNLocator
from PIL import Image

# Blue and vermillion of Okabe and Ito differ with any colour vision; dashes and hollow markers make
# them differ in grey.
VALIDATION_COLOUR, DEFAULT_COLOUR = "#0072b2", "#d55e00"  # of the two setups
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
# On a page a figure takes the page's colours, so that it is readable on light and on dark.
PAGE_COLOURS = {
    INK: "currentColor",
    PAPER: "var(--paper, #fff)",
    VALIDATION_COLOUR: "var(--validation, #0072b2)",
    DEFAULT_COLOUR: "var(--default, #d55e00)",
}
HEAVY = 400_000  # characters of a vector: thousands of marks
FONT = "font-family: system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', Arial, sans-serif"
WIDTH = 9.2  # inches, of every figure
PANELS_PER_ROW = 4
DPI = 170  # of PNG files, and of clouds of points inside a vector file
NOTEBOOK_DPI = 96  # so that a notebook with results stays small
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
    """Hold a finished figure.

    name: of its files and of its ids on a page. label: what it shows, for screen readers. A drawing
    that comes from another process has no figure any more, only what was rendered of it.
    """

    name: str
    label: str
    figure: Figure | None

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs of it."""
        return {"name": self.name, "label": self.label, "figure": None, **self.render()}

    def render(self) -> dict[str, Any]:
        """Return all that is rendered of the figure, once."""
        return {"vector": self.vector, "bitmap": self.bitmap, "width": self.width}

    def inline(self) -> str:
        """Return SVG for a page: no prolog, the page's colours, ids that no other figure has."""
        text = self.vector[self.vector.index("<svg") :]
        text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
        viewbox = re.search(r'viewBox="[^"]*"', text)
        assert viewbox, "matplotlib writes a viewBox"
        # A narrow figure stays narrow, with letters as large as in the others.
        share = self.width / WIDTH
        head = (
            '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
            f'{viewbox[0]} role="img" aria-label="{escape(self.label)}" '
            f'style="{FONT}; --share: {share:.3f}">'
        )
        text = re.sub(r"<svg[^>]*>", head, text, count=1)
        text = re.sub(r'( id="|url\(#|href="#)', rf"\g<1>{escape(self.name)}-", text)
        text = text.replace("font-family: 'DejaVu Sans'; ", "")
        for colour, of_page in PAGE_COLOURS.items():
            text = text.replace(colour, of_page)
        return text

    def on_paper(self) -> str:
        """Return what inline() does, or pixels on white where that is too heavy for a page."""
        text = self.inline()
        if len(text) <= HEAVY:
            return text
        share = self.width / WIDTH
        data = base64.b64encode(self.bitmap).decode()
        return (
            f'<img alt="{escape(self.label)}" style="--share: {share:.3f}" '
            f'src="data:image/png;base64,{data}">'
        )

    def save(self, folder: Path) -> list[Path]:
        """Write NAME.svg and NAME.png on white, for a paper or a talk; return their paths."""
        folder.mkdir(parents=True, exist_ok=True)
        stem = re.sub(r"[^\w.+-]+", "-", self.name)
        vector, bitmap = folder / f"{stem}.svg", folder / f"{stem}.png"
        on_white = re.sub(
            r"(<svg[^>]*>)",
            r'\1<rect width="100%" height="100%" fill="white"/>',
            self.vector,
            count=1,
        )
        vector.write_text(on_white, encoding="utf-8")
        bitmap.write_bytes(self.bitmap)
        return [vector, bitmap]

    @cached_property
    def width(self) -> float:
        """Return the width in inches."""
        assert self.figure
        return self.figure.get_figwidth()

    @cached_property
    def bitmap(self) -> bytes:
        """Return the figure as PNG on white, laid out as the vector is."""
        return self.pixels(DPI)

    def pixels(self, dpi: int) -> bytes:
        """Return a PNG with this many dots per inch."""
        assert self.vector  # first: it lays the figure out
        assert self.figure
        buffer = io.BytesIO()
        with mpl.rc_context(STYLE):
            self.figure.savefig(
                buffer, format="png", dpi=dpi, facecolor="white", metadata={"Software": None}
            )
        return buffer.getvalue()

    @cached_property
    def vector(self) -> str:
        """Return the figure as SVG without background, rendered once for the page and its file."""
        assert self.figure
        buffer = io.StringIO()
        with mpl.rc_context(STYLE):
            self.figure.savefig(
                buffer,
                format="svg",
                dpi=DPI,
                metadata={"Date": None, "Creator": None},
                transparent=True,
            )
            self.figure.set_layout_engine(None)  # it is laid out now; the next file reuses that
        return _with_plain_ids(buffer.getvalue())

    def _repr_html_(self) -> str:
        return f'<div style="max-width: 60rem">{self.inline()}</div>'


def with_palette(png: bytes) -> bytes:
    """Return a PNG with 256 colours, a third of the size."""
    with Image.open(io.BytesIO(png)) as image:
        small = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    small.save(buffer := io.BytesIO(), format="png", optimize=True)
    return buffer.getvalue()


def _with_plain_ids(svg: str) -> str:
    """Return the SVG with its clip paths numbered, so that the same study gives the same file.

    Matplotlib names a clip path by a hash of its corners, and the layout engine places them a
    little differently each time, by far less than is printed.
    """
    found = dict.fromkeys(re.findall(r'<clipPath id="(\w+)"', svg))
    names = {name: f"clip{number}" for number, name in enumerate(found)}
    return re.sub(r"\bp[0-9a-f]{10}\b", lambda match: names.get(match[0], match[0]), svg)


@dataclass(frozen=True, eq=False)
class Picture:
    """Hold a drawing with its caption.

    comparison: the title of the comparison that it shows; empty if it shows the whole study.
    """

    drawing: Drawing
    caption: str
    comparison: str = ""

    def _repr_html_(self) -> str:
        """Return it for a notebook, as pixels: one that somebody else ran shows no vectors."""
        data = b64encode(with_palette(self.drawing.pixels(NOTEBOOK_DPI))).decode()
        return (
            f'<figure style="margin: 0"><img src="data:image/png;base64,{data}" '
            f'alt="{escape(self.drawing.label)}" width="{self.drawing.width * 96:.0f}">'
            f"<figcaption>{escape(self.caption)}</figcaption></figure>"
        )

    def marked(self, note: str) -> Picture:
        """Return the picture with a note below its caption, and its mark on the drawing itself."""
        mark = note.partition(":")[0]
        assert self.drawing.figure, "only a figure that is not yet rendered can be marked"
        self.drawing.figure.text(
            0.998, 0.998, mark, ha="right", va="top", fontsize="small", color=INK
        )
        return replace(self, caption=f"{self.caption} {note}".strip())


@contextmanager
def styled_figure(height: float, width: float = WIDTH) -> Iterator[Figure]:
    """Yield a figure of this size in inches, in our style."""
    with mpl.rc_context(STYLE):
        yield Figure(figsize=(width, height), layout="constrained")


def panels(
    figure: FigureBase,
    names: Sequence[str],
    *,
    name: str,
    x: str,
    y: str,
    columns: int = PANELS_PER_ROW,
    **axes: Any,
) -> dict[str, Axes]:
    """Return a panel for each name, in rows of at most `columns`; by default on one scale."""
    columns = min(columns, len(names))
    grid = figure.subplots(
        -(-len(names) // columns),
        columns,
        squeeze=False,
        **{"sharex": True, "sharey": True, **axes},
    )
    for spare in grid.flat[len(names) :]:
        spare.set_visible(False)
    by_name: dict[str, Axes] = dict(zip(names, grid.flat, strict=False))
    for axis in grid[:, 0]:
        axis.set_ylabel(y)
    for title, panel in by_name.items():
        panel.set(title=title, xlabel=x)
        panel.set_gid(f"panel-{name}-{title}")
        panel.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
        panel.tick_params(labelbottom=True)
    return by_name
