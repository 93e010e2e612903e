"""Print the rankings of a study on a terminal."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from analysis.ranking.fairness import COMPARED, FairnessCheck
from analysis.ranking.ranking import Ranking
from analysis.tables.ranking import compact_ranking, tables_of
from analysis.tables.terminal import print_table
from study.cli.terminal import typed

MORE = ("ranking", "beside", "decomposition", "steps")  # tables that tell the rest of a ranking


def print_rankings(
    console: Console, found: Sequence[Ranking], *, study: Path, fairness: FairnessCheck
) -> None:
    """Print every ranking in a line per loss, below the fairness check, and where the rest is.

    study: its folder.
    """
    if not found:
        console.print("No final trial has finished, so there is nothing to rank.")
    # What is equal has room for a line only; the list of it is above the whole table.
    above = tuple(line.replace(COMPARED, "training and budgets") for line in fairness.sentences)
    for ranking in found:
        console.print(f"\n{ranking.title}", style="bold underline", highlight=False, markup=False)
        there = tables_of(ranking)
        names = ", ".join(name for name in MORE if name in there)
        more = f"More: {typed(f'report {study.name} --table NAME', study.parent)} ({names})"
        print_table(console, replace(compact_ranking(ranking, more=more), above=above))
        above = ()
