"""Print the rankings of a study on a terminal."""

from collections.abc import Sequence

from rich.console import Console

from analysis.ranking.ranking import Ranking
from analysis.tables.ranking import tables_of
from analysis.tables.terminal import print_table

SHOWN = ("baselines", "ranking", "beside", "decomposition")


def print_rankings(console: Console, found: Sequence[Ranking]) -> None:
    """Print the tables of every ranking."""
    if not found:
        console.print("No final trial has finished, so there is nothing to rank.")
    for ranking in found:
        console.print(f"\n{ranking.title}", style="bold underline", highlight=False, markup=False)
        tables = tables_of(ranking)
        for name in SHOWN:
            if name in tables:
                console.print()
                print_table(console, tables[name])
