"""Read a drawing: its words, and which of them overlap."""

from __future__ import annotations

from itertools import combinations
from xml.etree import ElementTree

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from analysis.figures import Drawing


def words(drawing: Drawing | None) -> list[str]:
    """Return the texts of a drawing."""
    assert drawing
    return [
        "".join(part.itertext())
        for part in ElementTree.fromstring(drawing.inline()).iter(
            "{http://www.w3.org/2000/svg}text"
        )
    ]


def overlaps(drawing: Drawing) -> list[tuple[str, str]]:
    """Return the pairs of texts that overlap."""
    canvas = FigureCanvasAgg(drawing.figure)
    canvas.draw()
    found = []
    ticks = {
        label
        for axis in _axes(drawing)
        for tick in axis.get_major_ticks()
        for label in (tick.label1, tick.label2)
    }
    # Ticks outside of an axis's range are not drawn.
    drawn = {tick.label1 for axis in _axes(drawing) for tick in axis._update_ticks()}
    texts = [text for text in drawing.figure.findobj(Text) if text not in ticks or text in drawn]
    shown = [
        text
        for text in texts
        if text.get_visible()
        and text.get_text().strip()
        and (text.axes is None or text.axes.get_visible())
    ]
    boxes = [
        (text.get_text(), text.get_window_extent(canvas.get_renderer()))
        for text in shown
        if not text.get_rotation()
    ]
    for (one, a), (other, b) in combinations(boxes, 2):
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 2 and min(a.y1, b.y1) - max(a.y0, b.y0) > 3:
            found.append((one, other))
    return found


def _axes(drawing: Drawing) -> list[Axis]:
    return [
        axis
        for axes in drawing.figure.findobj(Axes)
        if axes.get_visible() and axes.axison
        for axis in (axes.xaxis, axes.yaxis)
    ]
