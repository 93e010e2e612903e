"""The ranking on a terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.tables import Number, Ranking, RankingRow

HEADERS = ("default\nR@1", "default\nMAP@R", "valid.\nR@1", "valid.\nMAP@R", "difference\nR@1 [95 %]")
SETUPS = (
    "default: published setting, epoch chosen on the test classes. valid.: setting and epoch chosen on held-out train classes. "
    "difference: valid. minus default."
)


def print_rankings(console: Console, rankings: list[Ranking]) -> None:
    if not rankings:
        console.print("No final trial has finished, so there is nothing to rank.")
    for ranking in rankings:
        _print(console, ranking)


def _print(console: Console, ranking: Ranking) -> None:
    console.print(
        f"\n{ranking.dataset}, {ranking.backbone}, {ranking.embedding_size} dimensions: scores on the test classes, in percent",
        style="bold",
        highlight=False,
    )
    for name, numbers in ranking.baselines.items():
        console.print(f"  {name:<18} Recall@1 {_text(numbers, 'recall_at_1'):>4}   MAP@R {_text(numbers, 'map_at_r'):>4}", highlight=False)
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("rank", no_wrap=True)
    table.add_column("loss", no_wrap=True)
    for header in HEADERS:
        table.add_column(header, justify="right", no_wrap=True)
    for row in ranking.rows:
        table.add_row(*(Text(cell) for cell in _cells(row)))
    console.print()
    console.print(table)
    console.print()
    console.print(Text(SETUPS, style="dim"))
    for note in ranking.notes:
        console.print(Text(note, style="dim"))


def _cells(row: RankingRow) -> list[str]:
    rank = f"{row.rank} [{row.rank_interval[0]}-{row.rank_interval[1]}]" if row.rank_interval else "-"
    scores = [_text(side, metric) for side in (row.default, row.validation) for metric in ("recall_at_1", "map_at_r")]
    gap = row.difference.get("recall_at_1")
    return [rank, row.loss, *scores, gap.signed() if gap else "-"]


def _text(numbers: dict[str, Number], metric: str) -> str:
    return numbers[metric].percent() if metric in numbers else "-"
