"""The ranking on a terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.decomposition import STEPS, Decomposition, decomposition
from analysis.readings import PUBLISHED, TUNED_ON_TEST
from analysis.tables import HONEST, Number, Ranking, RankingRow
from trainables.contract import LAST, PEEKING

HEADERS = ("default\nR@1", "default\nMAP@R", "valid.\nR@1", "valid.\nMAP@R", "difference\nR@1 [95 %]")
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
        scores = f"Recall@1 {_text(numbers, 'recall_at_1'):>4}   MAP@R {_text(numbers, 'map_at_r'):>4}"
        console.print(f"  {name:<18} {scores}   rule {numbers['recall_at_1'].rule}", highlight=False)
    table = _table("rank", "loss", numbers=HEADERS)
    for row in ranking.rows:
        table.add_row(*(Text(cell) for cell in _cells(row)))
    _show(console, table)
    if any(row.beside for row in ranking.rows):
        _show(console, _beside(ranking), "Beside these, never ranked:")
    if parts := decomposition(ranking):
        _show(console, _parts(parts), f"{STEPS}:")
    for note in (_setups(ranking), *ranking.notes):
        console.print(Text(note, style="dim"))


def _show(console: Console, table: Table, above: str = "") -> None:
    if above:
        console.print(Text(above, style="bold"))
    else:
        console.print()
    console.print(table)
    console.print()


def _table(*words: str, numbers: tuple[str, ...]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for word in words:
        table.add_column(word, no_wrap=word != "beside")
    for header in numbers:
        table.add_column(header, justify="right", no_wrap=True)
    return table


def _beside(ranking: Ranking) -> Table:
    table = _table("loss", "beside", "rule", numbers=("R@1", "MAP@R", "minus its own\nR@1 [95 %]"))
    for row in ranking.rows:
        for one in row.beside:
            setup = "default" if one.setup == "default" else "valid."
            gap = one.difference.get("recall_at_1")
            scores = [_text(one.numbers, metric) for metric in ("recall_at_1", "map_at_r")]
            rule = one.numbers["recall_at_1"].rule
            cells = [row.loss, f"{setup}, {one.what}", NARROW.get(rule, rule), *scores, gap.signed() if gap else "-"]
            table.add_row(*(Text(cell) for cell in cells))
    return table


def _parts(parts: Decomposition) -> Table:
    table = _table("loss", "setting", numbers=tuple(f"{classes}\n{NARROW.get(rule, rule)}" for classes, rule in parts.columns))
    for loss, setting, cells in parts.lines():
        table.add_row(loss, setting, *(Text(_text(cell, "recall_at_1", none="")) for cell in cells))
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
    rank = f"{row.rank} [{row.rank_interval[0]}-{row.rank_interval[1]}]" if row.rank_interval else "-"
    scores = [_text(side, metric) for side in (row.default, row.validation) for metric in ("recall_at_1", "map_at_r")]
    gap = row.difference.get("recall_at_1")
    return [rank, row.loss, *scores, gap.signed() if gap else "-"]


def _text(numbers: dict[str, Number], metric: str, none: str = "-") -> str:
    return numbers[metric].percent() if metric in numbers else none
