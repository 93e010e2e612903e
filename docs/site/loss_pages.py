"""Write a page for every loss: formula, sources side by side, what is searched, what it does."""

from __future__ import annotations

from formulas import FORMULAS, SYMBOLS, Formula
from latex2mathml.converter import convert
from loss_plots import drawn_params, loss_plot
from pieces import table, text

from search_spaces import LOSSES, LossSpace
from study.cli.loss_card import SOURCES

SOURCE_NOTE = (
    "*default*: the paper's value unless a note says otherwise; *code*: released code where it "
    "differs; *thesis*: its table 4; *found*: the optimum of its table 15; *reality*: the optima "
    "of the reality check on CUB / Cars / SOP."
)
KINDS = {
    "pair": "Pairs: each pair's similarity is compared with a value",
    "triplet": "Triplets: a positive is compared with negatives of the same anchor",
    "proxy": "Proxies: images are compared with learned vectors of classes",
    "classification": "Classification: images are classified, often with a margin",
}


def loss_index() -> str:
    """Return the page that lists all losses by kind."""
    parts = [
        f"# Losses\n\n{len(LOSSES)} losses, each with its formula, the values of its sources side "
        "by side, what we search, and a plot of what its parameters do. [Add your own]"
        "(../../loss.md).\n"
    ]
    for kind, title in KINDS.items():
        rows = [
            [f"[`{name}`]({name}.md)", text(card.about), text(card.cite)]
            for name, card in LOSSES.items()
            if card.kind == kind
        ]
        parts.append(f"## {title}\n\n" + table(("loss", "about", "source"), rows))
    return "\n".join(parts)


def loss_page(name: str) -> str:
    """Return the page of one loss."""
    card = LOSSES[name]
    parts = [
        f"# {name}\n\n{text(card.about)}\n\n*{text(card.cite)}*\n",
        formula_html(FORMULAS[name]),
        "## What its sources say, and what we search\n",
        sources_table(name, card) + "\n" + SOURCE_NOTE + "\n",
        "## What its parameters do\n",
        _plot(name),
        "## How it is trained\n",
        _facts(card),
        *_notes(card),
        "## Try it\n",
        f"```bash\nuv run fairtrial list losses {name}\n"
        f"uv run fairtrial run quickstart --name try-{name.replace('_', '-')} \\\n"
        f"    --set losses={','.join(dict.fromkeys([name, 'triplet', 'proxy_anchor']))}\n```\n",
    ]
    return "\n".join(parts)


def formula_html(formula: Formula) -> str:
    """Return a formula as MathML with what its symbols mean."""
    lines = "".join(f"<p>{convert(line, display='block')}</p>" for line in formula.lines)
    together = " ".join(formula.lines)
    used = [(short, about) for mark, (short, about) in SYMBOLS.items() if mark in together]
    legend = "; ".join(f"{short}: {about}" for short, about in used)
    remarks = "\n".join(f"- {remark}" for remark in (*formula.remarks, *([legend] if used else [])))
    return f'<div class="formula">{lines}</div>\n\n{remarks}\n'


def sources_table(name: str, card: LossSpace) -> str:
    """Return what each source says of each parameter, its symbol and its range."""
    shown = {
        column: say
        for column, say in SOURCES.items()
        if any(say(param) for param in card.params.values())
    }
    symbols = FORMULAS[name].symbols
    rows = []
    for key, param in card.params.items():
        symbol = convert(symbols[key]) if key in symbols else ""
        values = [text(say(param)) for say in shown.values()]
        rows.append([f"`{key}`", symbol, *values, text(param.search), text(param.unit)])
    return table(("parameter", "symbol", *shown, "searched", "unit"), rows)


def _plot(name: str) -> str:
    proxies = LOSSES[name].kind in ("proxy", "classification")
    varied = (
        "One image and two classes: its similarity to its own class's weights varies on the left, "
        "to the other's on the right."
        if proxies
        else "Two classes of a few images: the similarity of an image to one of its own class "
        "varies on the left, to one of the other on the right."
    )
    rate = (
        "" if drawn_params(name) else " Its only parameter is a learning rate, so one curve is all."
    )
    caption = (
        f"{varied} The other similarity stays: 0 to the other class, 0.5 to its own.{rate} "
        "Drawn by the loss that studies train with."
    )
    return f'<div class="loss-plot">{_one_line(loss_plot(name))}</div>\n\n{caption}\n'


def _one_line(svg: str) -> str:
    return " ".join(svg.split())


def _facts(card: LossSpace) -> str:
    per_class = f", {card.per_class} per class" if card.per_class else ""
    paper = ", ".join(filter(None, [card.network, f"{card.size} dimensions" if card.size else ""]))
    facts = {
        "kind": card.kind,
        "batches": card.batches + per_class,
        "mining": card.mining,
        "reduction": card.reduction,
        "vectors": "normalised" if card.normalize else "raw",
        "its paper": paper,
        "samples": "the loss of one depends on the others"
        if card.couples
        else "the loss of one does not depend on the others",
    }
    return table(
        ("property", "of this loss"), ([what, text(fact)] for what, fact in facts.items() if fact)
    )


def _notes(card: LossSpace) -> list[str]:
    notes = [("", card.note), *((f"`{key}`: ", param.note) for key, param in card.params.items())]
    lines = [f"- {key}{text(note)}" for key, note in notes if note]
    lines += [
        f"- Claimed Recall@1: {claim.recall_at_1:g} on {claim.dataset}, {claim.backbone}, "
        f"{claim.size} dimensions ({text(claim.source)})."
        for claim in card.claims
    ]
    return ["## Notes and claims\n", "\n".join(lines) + "\n"] if lines else []
