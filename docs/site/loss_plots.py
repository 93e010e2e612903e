"""Draw what each parameter of a loss does, by evaluating the loss that studies train with.

A small batch has one similarity that varies: of an image to one of its own class (left), and to one
of another class (right). Every curve is the loss of that batch for one value of the parameter.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import torch
from torch import Tensor

from search_spaces import LOSSES, Param, Value, value_text
from trainables.losses import BUILDERS, Objective

POINTS = 33
SIZE = 8
POSITIVE, NEGATIVE = 0.5, 0.0  # the similarity that stays, where the other one varies
SIDES = {"its own class": (-0.95, 0.95), "another class": (-0.8, 0.8)}
COLOURS = ("#4c8cc4", "#d97f30", "#3fa66a", "#b45fb0")
RATE = "weights_lr"  # a learning rate changes no loss value
WIDTH, HEIGHT, LEFT, TOP, GAP = 250, 120, 48, 34, 74  # of a panel in pixels, and what is around it
UNLIKE = 8  # curves whose spans differ more are each scaled to their own

Evaluate = Callable[[float, float], float]
Setting = dict[str, Value]


def values_to_draw(param: Param) -> list[Value]:
    """Return the default with the ends of the range, and its middle where that makes two."""
    if hasattr(param.search, "options"):
        return list(param.search.options)
    low, high = param.search.ends()
    found = {float(param.paper), float(low), float(high)}
    if len(found) < 3:
        levels = param.search.levels()
        found.add(float(levels[len(levels) // 2]))
    return sorted(found)


def corner(*cosines: float) -> Tensor:
    """Return a unit vector with these cosines to the first axes."""
    vector = torch.zeros(SIZE, dtype=torch.float64)
    vector[: len(cosines)] = torch.tensor(cosines, dtype=torch.float64)
    vector[len(cosines)] = max(1 - float(vector.square().sum()), 0) ** 0.5
    return vector


def loss_of_images(objective: Objective, name: str, own: float, other: float) -> float:
    """Return the loss of an image, one of its class and two of another, with these similarities."""
    stranger = corner(other, 0.0, 0.0)  # not in the plane of the pair
    labels = [0, 0, 1] if LOSSES[name].batches == "triplets" else [0, 0, 1, 1]
    rows = [corner(1.0), corner(own), stranger, stranger][: len(labels)]
    return _value(objective, torch.stack(rows), labels)


def loss_of_proxies(objective: Objective, name: str, own: float, other: float) -> float:
    """Return the loss of one image whose similarities to two classes' weights are these."""
    proxies, row = torch.eye(SIZE, dtype=torch.float64)[:2], corner(own, other)
    if name == "thesis_loss_1":  # it pushes proxies apart, not images from proxies
        proxies, row = torch.stack([proxies[0], corner(other)]), corner(own, 0.0)
    _place(next(objective.parameters()), proxies)
    return _value(objective, row[None], [0])


def _place(weights: Tensor, proxies: Tensor) -> None:
    """Put the proxies into the loss's weights; several centres of a class lie around its proxy."""
    turned = weights.shape[0] == SIZE
    rows = weights.shape[1] if turned else weights.shape[0]
    each = rows // len(proxies)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(rows, SIZE, dtype=torch.float64, generator=generator)
    placed = proxies.repeat_interleave(each, dim=0) + (0.25 if each > 1 else 0) * noise
    with torch.no_grad():
        weights.copy_(placed.T if turned else placed)


def _value(objective: Objective, rows: Tensor, labels: list[int]) -> float:
    with torch.no_grad():
        return float(objective(rows, torch.tensor(labels)))


def evaluator(name: str, setting: Setting) -> Evaluate:
    """Return the loss as a function of the two similarities."""
    torch.manual_seed(0)
    objective = BUILDERS[name](2, SIZE, **setting).double().eval()
    proxies = LOSSES[name].kind in ("proxy", "classification")
    return partial(loss_of_proxies if proxies else loss_of_images, objective, name)


def curve(name: str, side: str, setting: Setting) -> list[tuple[float, float]]:
    """Return similarities, each with the loss there."""
    loss, (low, high) = evaluator(name, setting), SIDES[side]
    places = [low + (high - low) * i / (POINTS - 1) for i in range(POINTS)]
    own = side == "its own class"
    return [(s, loss(s, NEGATIVE) if own else loss(POSITIVE, s)) for s in places]


def drawn_params(name: str) -> list[str]:
    """Return the parameters that change the loss's value."""
    return [key for key in LOSSES[name].params if key != RATE]


@cache
def loss_plot(name: str) -> str:
    """Return the SVG of a loss: a row for each parameter, a column for each side."""
    rows = drawn_params(name) or [""]
    width = 2 * (LEFT + WIDTH) + 130
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} '
        f'{TOP + len(rows) * (HEIGHT + GAP) - 30}" role="img" font-size="11" fill="currentColor" '
        f'aria-label="The loss {name} by similarity, for values of its parameters">'
    ]
    for number, key in enumerate(rows):
        top = TOP + number * (HEIGHT + GAP)
        values = values_to_draw(LOSSES[name].params[key]) if key else [""]
        for column, side in enumerate(SIDES):
            changes = [{key: value} if key else {} for value in values]
            curves = [curve(name, side, LOSSES[name].defaults | each) for each in changes]
            left = LEFT + column * (WIDTH + LEFT + 8)
            parts.append(f'<g transform="translate({left} {top})">{_panel(curves, side)}</g>')
        legend = _legend(name, key, values) if key else ""
        parts.append(f'<g transform="translate({2 * (LEFT + WIDTH) + 20} {top})">{legend}</g>')
    return "".join(parts) + "</svg>"


def _panel(curves: list[list[tuple[float, float]]], side: str) -> str:
    """Draw the curves of one parameter and side, with their axes."""
    spans = [max(v for _, v in each) - min(v for _, v in each) for each in curves]
    varied = [span for span in spans if span > 1e-12]
    scaled = bool(varied) and max(varied) > UNLIKE * min(varied)
    if scaled:
        curves = [
            [(s, (v - min(w for _, w in each)) / span) if span > 1e-12 else (s, 0.0)
             for s, v in each]
            for each, span in zip(curves, spans, strict=True)
        ]  # fmt: skip
    every = [v for each in curves for _, v in each]
    low, high = min(0.0, *every), max(every) if max(every) > min(0.0, *every) else 1.0
    (first, last) = SIDES[side]

    def at(s: float, v: float) -> str:
        x, y = (s - first) / (last - first) * WIDTH, HEIGHT - (v - low) / (high - low) * HEIGHT
        return f"{x:.1f},{y:.1f}"

    grid = "".join(
        f'<path d="M{at(s, low)} V0" stroke="currentColor" opacity="0.15"/>'
        f'<text x="{at(s, low).split(",")[0]}" y="{HEIGHT + 14}" text-anchor="middle">{s:g}</text>'
        for s in (-0.5, 0, 0.5)
    )
    lines = "".join(
        f'<polyline points="{" ".join(at(*point) for point in each)}" fill="none" '
        f'stroke="{COLOURS[number % len(COLOURS)]}" stroke-width="1.8"/>'
        for number, each in enumerate(curves)
    )
    label = "loss, each scaled to 1" if scaled else "loss"
    return (
        f'<text x="0" y="-8" font-weight="bold">{label}</text>'
        f'<path d="M0 0 V{HEIGHT} H{WIDTH}" fill="none" stroke="currentColor"/>'
        f'<text x="-6" y="9" text-anchor="end">{high:.3g}</text>'
        f'<text x="-6" y="{HEIGHT}" text-anchor="end">{low:.3g}</text>{grid}{lines}'
        f'<text x="{WIDTH}" y="{HEIGHT + 30}" text-anchor="end">similarity to {side}</text>'
    )


def _legend(name: str, key: str, values: list[Value]) -> str:
    """Name the parameter and the value of each curve."""
    default = LOSSES[name].defaults[key]
    lines = [f'<text y="-8" font-weight="bold">{key}</text>']
    for number, value in enumerate(values):
        mark = " (default)" if value == default else ""
        y = 12 + 18 * number
        lines.append(
            f'<path d="M0 {y - 4} h16" stroke="{COLOURS[number % len(COLOURS)]}" '
            f'stroke-width="3"/><text x="22" y="{y}">{value_text(value)}{mark}</text>'
        )
    return "".join(lines)
