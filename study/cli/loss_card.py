"""Print one loss's card: what each source says, where they disagree, and what we search."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from search_spaces import LossSpace, value_text

SOURCES = ("paper", "code", "thesis", "found", "reality")


def print_card(console: Console, name: str, card: LossSpace) -> None:
    """Print all that a card holds."""
    console.print(Text.assemble((name, "bold"), f"  {card.cite}\n{card.about}\n"))
    facts = {
        "kind": card.kind,
        "compares with": ", ".join(card.similarities) or "(not in the thesis's table 1)",
        "its paper": ", ".join(
            filter(None, [card.network, f"{card.size} dimensions" if card.size else ""])
        )
        or "(not in the thesis's table 2)",
        "batches": card.batches + (f", {card.per_class} per class" if card.per_class else ""),
        "mining": card.mining,
        "reduction": card.reduction,
        "embeddings": "normalised" if card.normalize else "raw",
        "own weights": "decayed" if card.decay else "not decayed",
        "samples": "the loss of one depends on the others"
        if card.couples
        else "the loss of one does not depend on the others",
    }
    for what, fact in facts.items():
        console.print(f"  {what:<14} {fact}", highlight=False, soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    shown = [
        source
        for source in SOURCES
        if any(getattr(param, source) is not None for param in card.params.values())
    ]
    for column in (
        "parameter",
        *("default" if source == "paper" else source for source in shown),
        "searched",
        "unit",
    ):
        table.add_column(column)
    for key, param in card.params.items():
        cited = dict(param.cited())
        table.add_row(
            key,
            *(value_text(cited[source]) if source in cited else "" for source in shown),
            str(param.search),
            param.unit,
        )
    console.print()
    console.print(table, highlight=False)
    notes = [("", card.note), *((key, param.note) for key, param in card.params.items())]
    for key, note in notes:
        if note:
            console.print(f"\n{key + ': ' if key else ''}{note}", highlight=False, style="dim")
    console.print(
        "\ndefault: the paper's value unless a note says otherwise; code: released code where it "
        "differs;",
        style="dim",
    )
    console.print(
        "thesis: its table 4; found: its table 15; reality: the reality check on CUB.", style="dim"
    )
