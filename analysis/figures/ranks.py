"""Draw the critical-difference diagram: mean ranks, and bars over indistinguishable losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap

from matplotlib.axes import Axes

from analysis.figures.style import INK, VALIDATION_COLOUR, Drawing, styled_figure


def critical_difference(
    mean_ranks: Mapping[str, float],
    critical: float | None = None,
    *,
    groups: Sequence[Sequence[str]] | None = None,
    caveat: str = "",
    setup: str = "",
) -> Drawing | None:
    """Draw losses by mean rank, the best on the left (Demsar 2006).

    groups: losses that the test cannot distinguish; by default those with ranks within `critical`.
    caveat: text below the diagram, since cells that share a dataset are not independent.
    """
    order = sorted(mean_ranks, key=lambda loss: mean_ranks[loss])
    if not order:
        return None
    bars = maximal_groups(groups if groups is not None else within_critical(mean_ranks, critical))
    half = -(-len(order) // 2)
    caveat_lines = wrap(caveat, 135)
    with styled_figure(0.27 * (half + len(bars)) + 1.6 + 0.17 * len(caveat_lines)) as figure:
        axis = figure.subplots()
        low, high = 1, max(len(order), 2, *mean_ranks.values())
        span = high - low
        axis.set(
            xlim=(low - 0.42 * span, high + 0.42 * span),
            ylim=(-(half + 0.55 + 0.5 * len(bars)), 1.6 if critical else 1.0),
        )
        axis.axis("off")
        _line(axis, low, high, critical)
        top = -0.15 - 0.5 * len(bars)
        for i, loss in enumerate(order):
            left = i < half
            depth = top - (i if left else len(order) - 1 - i) - 0.35
            _leader(
                axis,
                mean_ranks[loss],
                loss,
                depth=depth,
                edge=low - 0.03 * span if left else high + 0.03 * span,
                left=left,
            )
        for i, group in enumerate(bars):
            ranks, over = [mean_ranks[loss] for loss in group], 0.012 * span
            ends = [min(ranks) - over, max(ranks) + over]
            axis.plot(
                ends,
                [-0.3 - 0.5 * i] * 2,
                color=VALIDATION_COLOUR,
                linewidth=4,
                solid_capstyle="butt",
            )
        for label in axis.texts:
            label.set_in_layout(False)  # the axis has room for them on both sides
        if caveat_lines:
            text = "\n".join(caveat_lines)
            figure.supxlabel(text, fontsize=8, x=0.01, ha="left", multialignment="left")
        return Drawing(
            f"critical-difference-{setup}" if setup else "critical-difference",
            f"Mean ranks of {', '.join(order)}",
            figure,
        )


def within_critical(mean_ranks: Mapping[str, float], critical: float | None) -> list[list[str]]:
    """Return, for each loss, the next ones whose mean rank is nearer than the difference."""
    order = sorted(mean_ranks, key=lambda loss: mean_ranks[loss])
    if critical is None:
        return []
    return [
        [other for other in order[i:] if mean_ranks[other] - mean_ranks[loss] < critical]
        for i, loss in enumerate(order)
    ]


def maximal_groups(groups: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the groups of two or more that no other group contains."""
    sets = list(dict.fromkeys(frozenset(group) for group in groups if len(group) > 1))
    return [sorted(group) for group in sets if not any(group < other for other in sets)]


def _line(axis: Axes, low: float, high: float, critical: float | None) -> None:
    axis.plot([low, high], [0, 0], color=INK, linewidth=1)
    for tick in range(int(low), int(high) + 1):
        axis.plot([tick, tick], [0, 0.14], color=INK, linewidth=1)
        axis.text(tick, 0.25, str(tick), ha="center", va="bottom")
    if critical:
        # A bar beyond the last rank says no more than its number.
        end = low + critical if low + critical <= high else low
        axis.plot([low, end], [1.15, 1.15], color=INK, linewidth=1.5, marker="|", markersize=7)
        axis.text(
            end + 0.02 * (high - low),
            1.15,
            f"critical difference {critical:.2f}",
            ha="left",
            va="center",
        )


def _leader(axis: Axes, rank: float, loss: str, *, depth: float, edge: float, left: bool) -> None:
    axis.plot([rank, rank, edge], [0, depth, depth], color=INK, linewidth=0.8)
    name = f"{loss}  {rank:.2f} " if left else f" {rank:.2f}  {loss}"
    axis.text(edge, depth, name, ha="right" if left else "left", va="center")
