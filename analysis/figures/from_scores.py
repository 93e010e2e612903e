"""Draw the figures for which scores suffice, those of a study or those that a paper prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pandas as pd

from analysis.figures.ranks import critical_difference
from analysis.figures.recalls import AXIS_LABELS, recall_by, recall_by_loss, recall_frame
from analysis.figures.style import Drawing, Picture
from analysis.figures.years import claims_and_scores_by_year, improvement_by_year
from analysis.ranking.ranking import METRICS
from analysis.statistics import CAVEAT, blocks_of, friedman, mean_ranks, without_test
from analysis.statistics.significance import BARS
from analysis.tables.improvement import BASES, improvement
from analysis.tables.papers_versus_reality import papers_versus_reality
from analysis.tables.scores import SETUPS, own
from analysis.tables.tournament import matches

STAR_NOTE = " * chosen with test feedback."

Captioned = Iterator[tuple[Drawing | None, str]]


@dataclass(frozen=True)
class ScoreFigure:
    """Hold a figure of scores: what it is about, and the function that draws and captions it."""

    about: str
    captioned: Callable[[pd.DataFrame], Captioned]

    def draw(self, scores: pd.DataFrame) -> list[Picture]:
        """Return the pictures that these scores can fill."""
        return [Picture(drawing, text) for drawing, text in self.captioned(scores) if drawing]


def _recall_by_loss(scores: pd.DataFrame) -> Captioned:
    for _, part in recall_frame(scores).groupby(["dataset", "backbone"], sort=False):
        caption = "Recall at every k; losses in the order of their years."
        yield recall_by_loss(part), caption + STAR_NOTE * bool(part["peeks"].any())


def _recall_by(axis: str) -> Callable[[pd.DataFrame], Captioned]:
    """Return a function that draws a figure wherever the axis has several values."""

    def draw(scores: pd.DataFrame) -> Captioned:
        frame = recall_frame(scores)
        parts = (
            [frame]
            if axis == "dataset"
            else [part for _, part in frame.groupby("dataset", sort=False)]
        )
        for part in parts:
            if part[axis].nunique() > 1:
                caption = (
                    f"What the {AXIS_LABELS[axis]} changes, and whether it changes the order of "
                    f"the losses."
                )
                yield recall_by(part, axis), caption + STAR_NOTE * bool(part["peeks"].any())

    return draw


def _critical_difference(scores: pd.DataFrame) -> Captioned:
    mine = own(scores)
    for setup, part in sorted(
        mine[mine["metric"] == METRICS[0]].groupby("setup"), key=lambda pair: SETUPS[str(pair[0])]
    ):
        cells = matches(part).T
        found = friedman(blocks_of(cells))
        ranks = found.mean_ranks if found else mean_ranks(cells)
        if len(ranks) < 3:
            continue
        over = f"{found.blocks} datasets" if found else f"{len(cells[ranks.index].dropna())} cells"
        tested = f"Friedman: p = {found.p_value:.2g}. {BARS}" if found else without_test(cells)
        star = setup == "default"
        drawing = critical_difference(
            {str(loss): float(rank) for loss, rank in ranks.items()},
            found.critical_difference if found else None,
            groups=found.cliques() if found else [],
            caveat=f"{str(setup).capitalize()} setup{'*' * star}, mean ranks by Recall@1 over "
            f"{over}. {tested} {CAVEAT}{STAR_NOTE * star}",
            setup=str(setup),
        )
        yield drawing, ""


def _improvement_by_year(scores: pd.DataFrame) -> Captioned:
    table = improvement(scores)
    for base in BASES:
        caption = (
            f"Relative improvement in Recall@1 over {base}, the mean over embedding sizes; losses "
            f"in the order of their years."
        )
        yield improvement_by_year(table, base), caption + STAR_NOTE


def _papers_versus_reality(scores: pd.DataFrame) -> Captioned:
    caption = (
        "Recall@1 by the year of a loss's paper: on the left what its authors claim, as far as it "
        "can be cited here, on the right what was measured; lines are least-squares trends."
    )
    yield claims_and_scores_by_year(papers_versus_reality(scores)), caption + STAR_NOTE


OF_SCORES: dict[str, ScoreFigure] = {
    "recall_by_loss": ScoreFigure(
        "recall at every k of each loss (thesis figure 27)", _recall_by_loss
    ),
    "recall_by_size": ScoreFigure(
        "what the embedding size changes (thesis figures 28 to 30)", _recall_by("embedding_size")
    ),
    "recall_by_backbone": ScoreFigure(
        "what the backbone changes (thesis figure 31)", _recall_by("backbone")
    ),
    "recall_by_dataset": ScoreFigure("what the dataset changes", _recall_by("dataset")),
    "critical_difference": ScoreFigure(
        "mean ranks over cells; with 12 datasets or more, which differences are shown",
        _critical_difference,
    ),
    "improvement_by_year": ScoreFigure(
        "relative improvement over contrastive and triplet by year", _improvement_by_year
    ),
    "papers_versus_reality": ScoreFigure(
        "claimed and measured scores by year, with their trends (the reality check)",
        _papers_versus_reality,
    ),
}
