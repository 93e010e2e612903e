"""Collect what a page shows of each comparison: sentences, tables and pictures."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from analysis.figures.from_study import FigureData
from analysis.figures.style import Picture
from analysis.ranking.comparisons import Comparison, title
from analysis.ranking.summary import summarise
from analysis.report.overview import RankingPicture, picture_of
from analysis.tables.ranking import tables_of
from analysis.tables.table import Table


@dataclass(frozen=True)
class Section:
    """Hold what the page shows of one comparison; tables and pictures by name."""

    title: str
    first_loss: str
    picture: RankingPicture | None
    tables: dict[str, Table]
    sentences: list[str]
    unfinished: list[str]
    searched: bool
    pictures: dict[str, list[Picture]]
    place: str  # the title without its protocol
    protocols: list[str]  # whose learning curves are here
    default_in: str  # the section that has the default setup's curves and search, if it is another


def section_of(
    source: FigureData, comparison: Comparison, drawn: dict[str, list[Picture]]
) -> Section:
    """Return the section of one comparison. drawn: the pictures of every figure, by name."""
    trials, ranking = source.trials, source.ranking(comparison)
    first = source.first(comparison)
    trained = comparison.trained(trials)
    searched = trained[trained["phase"] == "search"]
    mine = pd.concat([trained, comparison.untrained(trials)])
    stuck = mine[mine["status"] != "FINISHED"]
    return Section(
        title=comparison.title,
        first_loss=ranking.rows[0].loss if ranking else "",
        picture=picture_of(ranking) if ranking else None,
        tables=tables_of(ranking) if ranking else {},
        sentences=summarise(ranking),
        unfinished=[
            f"{row['loss']}, {row['protocol']}, {row['trial']}: {row['status'].lower()}"
            for _, row in stuck.iterrows()
        ],
        searched=bool((~searched["peeks"]).any()),
        pictures={
            name: [picture for picture in each if picture.comparison == comparison.title]
            for name, each in drawn.items()
        },
        place=title(comparison.dataset, comparison.backbone, comparison.embedding_size),
        protocols=list(dict.fromkeys(map(str, source.shown(comparison)["protocol"]))),
        default_in=first.title if first != comparison and trained["peeks"].any() else "",
    )
