"""Draw the flowcharts of pages as SVG, because the site loads no script that would draw them."""

from __future__ import annotations

import re
from html import escape

BLOCK = re.compile(r"^```mermaid\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
NODE = re.compile(r"(\w+)(?:\[\(?(.+?)\)?\])?$")
WIDTH, LINE, PAD, GAP = 205, 15, 9, 34  # of a box in pixels, of a text line, and around them

Edge = tuple[str, str, str]  # from, to, label


def with_diagrams(markdown: str) -> str:
    """Return a page with every mermaid block as SVG."""
    return BLOCK.sub(lambda match: f'<div class="loss-plot">{diagram(match[1])}</div>', markdown)


def parse(text: str) -> tuple[dict[str, str], list[Edge]]:
    """Return the label of every node, in order of appearance, and the arrows between them."""
    labels: dict[str, str] = {}
    edges = []
    for line in text.splitlines()[1:]:
        parts = re.split(r"\s+(?:--\s+(.+?)\s+)?-->\s+", line.strip())
        names = []
        for part in parts[::2]:
            match = NODE.match(part)
            assert match, line
            labels.setdefault(match[1], match[1])
            labels[match[1]] = match[2] or labels[match[1]]
            names.append(match[1])
        edges += [
            (a, b, said or "") for a, said, b in zip(names, parts[1::2], names[1:], strict=False)
        ]
    return labels, edges


def layers(labels: dict[str, str], edges: list[Edge]) -> list[list[str]]:
    """Return the nodes by their longest way from a node without arrows to it."""
    depth = dict.fromkeys(labels, 0)
    for _ in labels:
        for a, b, _label in edges:
            depth[b] = max(depth[b], depth[a] + 1)
    return [[n for n in labels if depth[n] == level] for level in range(max(depth.values()) + 1)]


def diagram(text: str) -> str:
    """Return a flowchart as SVG, its layers from left to right or from top to bottom."""
    labels, edges = parse(text)
    lines = {name: label.split("<br>") for name, label in labels.items()}
    tall = max(len(each) for each in lines.values()) * LINE + 2 * PAD
    across = "LR" in text.splitlines()[0]
    found = layers(labels, edges)
    widest = max(map(len, found))
    place = {}
    for level, names in enumerate(found):
        for number, name in enumerate(names):
            offset = number + (widest - len(names)) / 2
            x, y = (level, offset) if across else (offset, level)
            place[name] = (x * (WIDTH + GAP) + 4, y * (tall + GAP) + 4)
    width = max(x for x, _ in place.values()) + WIDTH + 8
    height = max(y for _, y in place.values()) + tall + 8
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'role="img" aria-label="flowchart" font-size="11" fill="currentColor" '
        f'style="max-width:{width:.0f}px"><defs><marker id="tip" viewBox="0 0 8 8" refX="7" '
        'refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z"/>'
        "</marker></defs>"
        + "".join(_arrow(place[a], place[b], label, tall, across) for a, b, label in edges)
        + "".join(_box(place[name], lines[name], tall) for name in labels)
        + "</svg>"
    )


def _arrow(
    a: tuple[float, float], b: tuple[float, float], label: str, tall: int, across: bool
) -> str:
    if across:
        x1, y1, x2, y2 = a[0] + WIDTH, a[1] + tall / 2, b[0], b[1] + tall / 2
    else:
        x1, y1, x2, y2 = a[0] + WIDTH / 2, a[1] + tall, b[0] + WIDTH / 2, b[1]
    said = f'<text x="{(x1 + x2) / 2 + 5:.0f}" y="{(y1 + y2) / 2 + 4:.0f}">{escape(label)}</text>'
    return (
        f'<path d="M{x1:.0f} {y1:.0f} L{x2:.0f} {y2:.0f}" stroke="currentColor" opacity="0.6" '
        f'marker-end="url(#tip)"/>{said if label else ""}'
    )


def _box(at: tuple[float, float], lines: list[str], tall: int) -> str:
    x, y = at
    start = y + (tall - len(lines) * LINE) / 2 + 11
    weights = ["bold", *["normal"] * len(lines)]
    texts = "".join(
        f'<text x="{x + WIDTH / 2:.0f}" y="{start + i * LINE:.0f}" text-anchor="middle" '
        f'font-weight="{weights[i]}">{escape(line)}</text>'
        for i, line in enumerate(lines)
    )
    return (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{WIDTH}" height="{tall}" rx="5" '
        f'fill="var(--md-code-bg-color)" stroke="currentColor" stroke-opacity="0.4"/>{texts}'
    )
