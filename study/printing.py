"""The ranking on a terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.decomposition import STEPS, Decomposition, decomposition
from analysis.readings import PUBLISHED, TUNED_ON_TEST
from analysis.tables import HONEST, Number, Ranking, RankingRow
from trainables.contract import LAST, PEEKING

SHOWN = ("recall_at_1", "map_at_r")  # one below the other in every cell, each with its interval, so that eighty columns do
BOTH = "\nR@1 [95 %]\nMAP@R [95 %]"
ROOMY = 90  # columns of a terminal; in a narrower one cells stand closer
# A rule's name in a column of its own numbers' width.
NARROW = {PEEKING: "best-on-\ntest", HONEST: "selected-on-\nvalidation", LAST: "last-\nepoch"}


def print_rankings(console: Console, rankings: list[Ranking]) -> None:
    if not rankings:
        console.print("No final trial has finished, so there is nothing to rank.")
    for ranking in rankings:
        _print(console, ranking)


def _print(console: Console, ranking: Ranking) -> None:
    console.print(f"\n{ranking.title}: scores on the test classes, in percent", style="bold", highlight=False)
    for name, numbers in ranking.baselines.items():
        scores = "   ".join(f"{label} {_interval(numbers, metric):<17}" for label, metric in (("Recall@1", SHOWN[0]), ("MAP@R", SHOWN[1])))
        console.print(f"  {name:<18} {scores}   rule {numbers['recall_at_1'].rule}", highlight=False)
    table = _table(console, "rank\ngroups", "loss", numbers=tuple(f"{side}{BOTH}" for side in ("default", "valid.", "difference")))
    for row in ranking.rows:
        table.add_row(*(Text(cell) for cell in _cells(row)))
    _show(console, table)
    if any(row.beside for row in ranking.rows):
        _show(console, _beside(console, ranking), "Beside these, never ranked:")
    if parts := decomposition(ranking):
        _show(console, _parts(console, parts), f"{STEPS}:")
    for note in (_setups(ranking), *ranking.notes):
        console.print(Text(note, style="dim"))


def _show(console: Console, table: Table, above: str = "") -> None:
    if above:
        console.print(Text(above, style="bold"))
    else:
        console.print()
    console.print(table)
    console.print()


def _table(console: Console, *words: str, numbers: tuple[str, ...]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2 if console.width >= ROOMY else 1, 0, 0))
    for word in words:
        table.add_column(word, no_wrap=word != "beside")
    for header in numbers:
        table.add_column(header, justify="right", no_wrap=True)
    return table


def _beside(console: Console, ranking: Ranking) -> Table:
    table = _table(console, "loss", "beside", "rule", numbers=(f"its score{BOTH}", f"minus its own{BOTH}"))
    for row in ranking.rows:
        for one in row.beside:
            setup = "default" if one.setup == "default" else "valid."
            rule = one.numbers["recall_at_1"].rule
            cells = [row.loss, f"{setup}, {one.what}", NARROW.get(rule, rule), _both(one.numbers), _both(one.difference, signed=True)]
            table.add_row(*(Text(cell) for cell in cells))
    return table


def _parts(console: Console, parts: Decomposition) -> Table:
    table = _table(console, "loss", "setting", numbers=tuple(f"{classes}\n{NARROW.get(rule, rule)}" for classes, rule in parts.columns))
    for loss, setting, cells in parts.lines():
        table.add_row(loss, setting, *(Text(cell["recall_at_1"].percent() if cell else "") for cell in cells))
    return table


def _setups(ranking: Ranking) -> str:
    """What the columns are, with their rules."""
    default = {side["recall_at_1"].setting for row in ranking.rows if (side := row.default)}
    validation = {side["recall_at_1"].setting for row in ranking.rows if (side := row.validation)}
    peeked = "setting and epoch" if TUNED_ON_TEST in default else "published setting, epoch"
    chosen = "published setting, epoch" if validation == {PUBLISHED} else "setting and epoch"
    return (
        f"default, rule {PEEKING}: {peeked} chosen on the test classes. valid., rule {HONEST}: {chosen} chosen on held-out train classes"
        f"{f' ({ranking.protocol})' if ranking.protocol else ''}. difference: valid. minus default."
    )


def _cells(row: RankingRow) -> list[str]:
    rank = f"{row.rank} [{row.rank_interval[0]}-{row.rank_interval[1]}]\n{row.groups}" if row.rank_interval else "-"
    return [rank, row.loss, _both(row.default), _both(row.validation), _both(row.difference, signed=True)]


def _both(numbers: dict[str, Number], *, signed: bool = False) -> str:
    """A line per metric; one dash if there is none."""
    return "\n".join(_interval(numbers, metric, signed=signed) for metric in SHOWN if metric in numbers) or "-"


def _interval(numbers: dict[str, Number], metric: str, *, signed: bool = False) -> str:
    return numbers[metric].signed() if signed else numbers[metric].percent_interval()
