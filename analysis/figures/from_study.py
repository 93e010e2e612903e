"""Draw the figures that need the trials of a study: one for each of its comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from analysis.figures.curves import learning_curves, training_losses
from analysis.figures.recalls import validation_against_test
from analysis.figures.search import search_progress
from analysis.figures.settings import importance_bars, parallel_coordinates, slices
from analysis.figures.setups import setup_differences
from analysis.figures.style import Drawing, Picture
from analysis.ranking.comparisons import COMPARISON_KEYS, Comparison, comparisons
from analysis.ranking.measurement import metric_label
from analysis.ranking.ranking import METRICS, Ranking
from analysis.tables.catalogue import Study

if TYPE_CHECKING:
    from analysis.maps.embeddings import TrialEmbeddings

COMPARISONS_WITH_MAPS = 3  # the first ones of a study, so that its page stays small enough to mail

ALL_LOSSES = "all"  # in place of the losses to draw maps of

Captioned = Iterable[tuple[Drawing | None, str]]


@dataclass(frozen=True)
class FigureData:
    """Hold what figures are made of.

    metric: the one that chose epochs and settings. cache: a folder for layouts of embedding maps,
    which take a while to compute.
    """

    study: Study
    metric: str = METRICS[0]
    cache: Path | None = None
    losses: tuple[str, ...] = ()  # to draw maps of; empty: the first ones of each ranking

    @property
    def trials(self) -> pd.DataFrame:
        return self.study.rows.trials

    @cached_property
    def importances(self) -> pd.DataFrame:
        return self.study.importance.frame()

    def ranking(self, comparison: Comparison) -> Ranking | None:
        """Return this comparison's ranking, if the study has one."""
        mine = (*_axes(comparison), comparison.protocol)
        return next(
            (
                r
                for r in self.study.rankings
                if (r.dataset, r.backbone, r.embedding_size, r.protocol) == mine
            ),
            None,
        )

    def first(self, comparison: Comparison) -> Comparison:
        """Return the first comparison with these axes: it shows the default setup for all."""
        return next(each for each in comparisons(self.trials) if _axes(each) == _axes(comparison))

    def shown(self, comparison: Comparison) -> pd.DataFrame:
        """Return the trained trials; those of the default setup only in the first comparison."""
        trained = comparison.trained(self.trials)
        return trained if self.first(comparison) == comparison else trained[~trained["peeks"]]


Draw = Callable[[FigureData], list[Picture]]


def by_comparison(
    captioned: Callable[[FigureData, Comparison], Captioned], *, most: int | None = None
) -> Draw:
    """Return a function that draws a figure for each of a study's first `most` comparisons."""

    def draw(data: FigureData) -> list[Picture]:
        return [
            Picture(drawing, caption, comparison.title)
            for comparison in comparisons(data.trials)[:most]
            for drawing, caption in captioned(data, comparison)
            if drawing
        ]

    return draw


def captioned_differences(data: FigureData, comparison: Comparison) -> Captioned:
    """Yield both setups with intervals, and their difference."""
    if ranking := data.ranking(comparison):
        caption = (
            "Intervals of the difference are narrower than the overlap of the setups suggests: "
            "both setups are scored on the same test classes, so differences are paired."
        )
        paired = any(row.difference for row in ranking.rows)
        yield setup_differences(ranking), caption if paired else ""


def captioned_curves(data: FigureData, comparison: Comparison) -> Captioned:
    """Yield the learning curves."""
    caption = (
        f"{metric_label(data.metric)} on the classes that choose the epoch. Rows cannot be "
        f"compared with each other: each has its own classes and its own scale, and fewer classes "
        f"are easier to tell apart."
    )
    yield learning_curves(data.shown(comparison), data.study.rows.curves, data.metric), caption


def captioned_losses(data: FigureData, comparison: Comparison) -> Captioned:
    """Yield the training loss of every final trial."""
    caption = (
        "Mean loss of an epoch's batches, a line per final trial, dashed under the default setup. "
        "Losses cannot be compared with each other: each has its own scale."
    )
    yield training_losses(data.shown(comparison), data.study.rows.curves), caption


def captioned_search(data: FigureData, comparison: Comparison) -> Captioned:
    """Yield the search, and apart from it the search with test feedback."""
    metric, trials = metric_label(data.metric), data.shown(comparison)
    yield (
        search_progress(trials),
        f"Best {metric} of each search trial on the held-out train classes. Trial 1 is the "
        f"published setting. {_searches(trials)}",
    )
    yield (
        search_progress(trials, peeks=True),
        f"The search with test feedback: best {metric} of each search trial on the test classes "
        f"themselves. It shows what such tuning would have claimed and ranks nothing.",
    )


def captioned_parallel_coordinates(data: FigureData, comparison: Comparison) -> Captioned:
    """Yield the settings as lines over one axis per parameter; the figure has its own legend."""
    yield parallel_coordinates(comparison.trained(data.trials)), ""


def captioned_slices(data: FigureData, comparison: Comparison) -> Captioned:
    """Yield the scores over each parameter; the figure has its own legend."""
    yield slices(comparison.trained(data.trials)), ""


def captioned_importance(data: FigureData, comparison: Comparison) -> Captioned:
    """Yield the importance of every parameter."""
    frame = data.importances
    mine = (frame[[*COMPARISON_KEYS, "protocol"]] == [*_axes(comparison), comparison.protocol]).all(
        axis=1
    )
    yield (
        importance_bars(frame[mine], _stem(comparison)),
        "Share of the variance of selection scores that each parameter explains; with few trials "
        "it is a hint.",
    )


def captioned_transfer(data: FigureData, comparison: Comparison) -> Captioned:
    """Yield selection scores against test scores."""
    trained = comparison.trained(data.trials)
    yield (
        validation_against_test(trained[trained["status"] == "FINISHED"]),
        "Selection score against test score, a mark per final trial of the validation setup. Only "
        "the order can be compared: the classes that choose are others than the test classes, and "
        "fewer.",
    )


def draw_map(name: str, *, losses: int = 1) -> Draw:
    """Return a function that maps the first losses of a ranking, or those that were asked for.

    losses: how many go into one figure, if all of them kept embeddings.
    """

    def captioned(data: FigureData, comparison: Comparison) -> Captioned:
        from analysis.figures.map_pictures import MAPS  # torch, numba: seconds

        models = _models(data, comparison, most=losses)
        together = [models] if losses > 1 else [[model] for model in models]
        make, caption = MAPS[name]
        for group in together:
            if len(group) >= losses and (drawing := make(group, data.cache)):
                yield _named(drawing, comparison), caption

    return _draw_maps(captioned)


def draw_methods() -> Draw:
    """Return a function that maps all losses of a ranking, or those asked for, in one yoked map."""

    def captioned(data: FigureData, comparison: Comparison) -> Captioned:
        from analysis.figures.method_maps import CAPTION, method_maps  # torch, numba: seconds

        if models := _models(data, comparison):
            for drawing in method_maps(models, cache=data.cache):
                yield _named(drawing, comparison), CAPTION

    return _draw_maps(captioned)


def _draw_maps(captioned: Callable[[FigureData, Comparison], Captioned]) -> Draw:
    """Return a function that maps the first comparisons; all of them for losses asked for."""
    few, every = by_comparison(captioned, most=COMPARISONS_WITH_MAPS), by_comparison(captioned)
    return lambda data: every(data) if data.losses else few(data)


def _models(
    data: FigureData, comparison: Comparison, *, most: int | None = None
) -> list[TrialEmbeddings]:
    """Return what the losses asked for keep; without any, the first `most` of the ranking."""
    from analysis.figures.map_pictures import first_embeddings

    ranking, rows = data.ranking(comparison), data.study.rows
    finals = comparison.trained(rows.finals)
    ranked = [row.loss for row in ranking.rows] if ranking else []
    asked = ranked if ALL_LOSSES in data.losses else [x for x in data.losses if x in ranked]
    kept = (first_embeddings(rows, finals, loss) for loss in (asked or ranked[:most]))
    return [embeddings for embeddings in kept if embeddings]


def _named(drawing: Drawing, comparison: Comparison) -> Drawing:
    return replace(drawing, name=f"{drawing.name}-{_stem(comparison)}")


def _searches(trials: pd.DataFrame) -> str:
    searches = trials["replicate"].nunique()
    if searches == 1:
        return "The dotted line is its score."
    return (
        f"Each of {searches} replicates has its own search, with its own line and marks; scores of "
        "different replicates are from different splits."
    )


def _axes(comparison: Comparison) -> tuple[str, str, int]:
    return comparison.dataset, comparison.backbone, comparison.embedding_size


def _stem(comparison: Comparison) -> str:
    return "-".join(map(str, [*_axes(comparison), comparison.protocol]))
