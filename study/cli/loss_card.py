"""Print one loss's card: what each source says, where they disagree, and what we search."""

from collections.abc import Callable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from search_spaces import LossSpace, Param, value_text

# The column of each source, and what it says there of a parameter.
SOURCES: dict[str, Callable[[Param], str]] = {
    "default": lambda param: value_text(param.paper),
    "code": lambda param: "" if param.code is None else value_text(param.code),
    "thesis": lambda param: "" if param.thesis is None else value_text(param.thesis),
    "found": lambda param: "" if param.found is None else value_text(param.found),
    "reality": lambda param: " / ".join(
        "none" if value is None else value_text(value) for value in param.reality
    ),
}


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
        "memory": "can see earlier batches" if card.memory else "none",
        "unlabelled": "images without a label count, too" if card.unlabelled else "not used",
        "own weights": "decayed" if card.decay else "not decayed",
        "samples": "the loss of one depends on the others"
        if card.couples
        else "the loss of one does not depend on the others",
    }
    for what, fact in facts.items():
        console.print(f"  {what:<14} {fact}", highlight=False, soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    shown = {
        column: text
        for column, text in SOURCES.items()
        if any(text(param) for param in card.params.values())
    }
    for column in ("parameter", *shown, "searched", "unit"):
        table.add_column(column)
    for key, param in card.params.items():
        texts = [text(param) for text in shown.values()]
        table.add_row(key, *texts, str(param.search), param.unit)
    console.print()
    console.print(table, highlight=False)
    for claim in card.claims:
        where = f"{claim.dataset}, {claim.backbone}, {claim.size} dimensions"
        text = f"\nclaimed Recall@1: {claim.recall_at_1:g} on {where} ({claim.source})"
        console.print(text, highlight=False, style="dim")
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
        "thesis: its table 4; found: its table 15; reality: the reality check on CUB / Cars / SOP.",
        style="dim",
    )
