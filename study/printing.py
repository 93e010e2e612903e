"""The ranking on a terminal."""

from rich.console import Console
from rich.table import Table

from analysis.tables import Number, Ranking


def print_rankings(console: Console, rankings: list[Ranking]) -> None:
    if not rankings:
        console.print("No final trial has finished, so there is nothing to rank.")
    for ranking in rankings:
        _print(console, ranking)


def _print(console: Console, ranking: Ranking) -> None:
    console.print(f"\n{ranking.dataset}, {ranking.backbone}, {ranking.embedding_size} dimensions: test classes, in percent", style="bold")
    for name, numbers in ranking.baselines.items():
        console.print(f"  {name:<18} Recall@1 {_text(numbers, 'recall_at_1')}   MAP@R {_text(numbers, 'map_at_r')}", highlight=False)
    table = Table(header_style="bold", pad_edge=False)
    table.add_column("rank", justify="center")
    table.add_column("loss")
    for column in (
        "default\nRecall@1",
        "default\nMAP@R",
        "validation\nRecall@1",
        "validation\nMAP@R",
        "validation - default\nRecall@1 [95 %]",
    ):
        table.add_column(column, justify="right")
    for row in ranking.rows:
        rank = f"{row.rank} [{row.rank_interval[0]}-{row.rank_interval[1]}]" if row.rank_interval else "-"
        cells = [_text(side, metric) for side in (row.default, row.validation) for metric in ("recall_at_1", "map_at_r")]
        gap = row.difference.get("recall_at_1")
        table.add_row(rank.replace("[", r"\["), row.loss, *cells, gap.signed().replace("[", r"\[") if gap else "-")
    console.print(table)
    for note in ranking.notes:
        console.print(f"  {note}", style="dim", markup=False, highlight=False)


def _text(numbers: dict[str, Number], metric: str) -> str:
    return numbers[metric].percent() if metric in numbers else "-"
