"""Print the rankings of a study on a terminal: the answer, a line per loss, a few notes."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from analysis.ranking.fairness import FairnessCheck
from analysis.ranking.ranking import Ranking
from analysis.ranking.summary import summarise
from analysis.tables.ranking import compact_ranking
from analysis.tables.terminal import print_table
from study.cli.terminal import typed

ANSWER = 2  # sentences of the summary; the page has all of them


def print_rankings(
    console: Console, found: Sequence[Ranking], *, study: Path, fairness: FairnessCheck
) -> None:
    """Print every ranking: its answer, a line per loss, and where the rest is.

    study: its folder.
    """
    if not found:
        console.print("No final trial has finished, so there is nothing to rank.")
    for ranking in found:
        console.print(f"\n{ranking.title}", style="bold underline", highlight=False, markup=False)
        for sentence in summarise(ranking)[:ANSWER]:
            console.print(Text(sentence))
        print_table(console, compact_ranking(ranking))
    if found:
        console.print(Text(fairness.in_short, style="dim"))
        rest = typed(f"report {study.name} --table ranking", study.parent)
        console.print(f"\nNumbers  {rest}", soft_wrap=True, highlight=False, markup=False)
