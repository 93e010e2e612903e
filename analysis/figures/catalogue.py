"""All figures by name, each drawn from one study, with what is said below them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pandas as pd

from analysis.figures.curves import learning_curves
from analysis.figures.ranks import critical_difference
from analysis.figures.recalls import AXES, recall_by, recall_by_loss, recall_frame
from analysis.figures.recalls import validation_against_test as transfer
from analysis.figures.search import search
from analysis.figures.settings import importance, parallel_coordinates, slices
from analysis.figures.setups import differences
from analysis.figures.style import Drawing
from analysis.figures.toys import toy_embeddings
from analysis.figures.years import improvement_by_year
from analysis.places import Place, places
from analysis.statistics import CAVEAT, friedman
from analysis.tables import METRICS, Ranking
from analysis.tables.catalogue import Study
from analysis.tables.improvement import BASES, improvement
from analysis.tables.number import metric_label
from analysis.tables.scores import SETUPS, own
from analysis.tables.searches import importances
from analysis.tables.tournament import matches
from search_spaces import pick

PLACES_WITH_MAPS = 3  # the first ones of a study: its page can be mailed
PAIRED = "Both setups are read on the same test classes, so differences are paired: their intervals are narrower than the overlap suggests."
SCALES = "A row has its own classes and its own scale, so rows cannot be compared with each other: fewer classes are easier to tell apart."
STARRED = " * chosen with test feedback."
TOYS = "Three toy embeddings. NMI, F1 and Recall@1 are near their best on all of them; R-Precision and MAP@R tell them apart."

Captioned = Iterable[tuple[Drawing | None, str]]


@dataclass(frozen=True, eq=False)
class Picture:
    """A drawing and what is said below it. place: the title of the place that it is of; empty: of the whole study."""

    drawing: Drawing
    caption: str
    place: str = ""


@dataclass(frozen=True)
class Source:
    """What figures are made of. metric: the one that chose epochs and settings; cache: a folder for places on maps, which take a while."""

    study: Study
    metric: str = METRICS[0]
    cache: Path | None = None

    @property
    def trials(self) -> pd.DataFrame:
        return self.study.rows.trials

    @cached_property
    def importances(self) -> pd.DataFrame:
        return importances(self.study.rows).frame()

    def ranking(self, place: Place) -> Ranking | None:
        mine = (place.dataset, place.backbone, place.embedding_size, place.protocol)
        return next((r for r in self.study.rankings if (r.dataset, r.backbone, r.embedding_size, r.protocol) == mine), None)

    def first(self, place: Place) -> Place:
        """The place that has the default setup's curves and search, which several are joined by."""
        axes = (place.dataset, place.backbone, place.embedding_size)
        return next(each for each in places(self.trials) if (each.dataset, each.backbone, each.embedding_size) == axes)

    def shown(self, place: Place) -> pd.DataFrame:
        """The trained trials of a place; those of the default setup only in the first of several."""
        trained = place.trained(self.trials)
        return trained if self.first(place) == place else trained[~trained["peeks"]]


@dataclass(frozen=True)
class Kind:
    about: str
    draw: Callable[[Source], list[Picture]]


def _by_place(draw: Callable[[Source, Place], Captioned], *, most: int | None = None) -> Callable[[Source], list[Picture]]:
    def all_places(source: Source) -> list[Picture]:
        found = ((place, pair) for place in places(source.trials)[:most] for pair in draw(source, place))
        return [Picture(drawing, caption, place.title) for place, (drawing, caption) in found if drawing]

    return all_places


def _of_scores(draw: Callable[[pd.DataFrame], Captioned]) -> Callable[[Source], list[Picture]]:
    return lambda source: from_scores(draw, source.study.scores)


def from_scores(draw: Callable[[pd.DataFrame], Captioned], scores: pd.DataFrame) -> list[Picture]:
    return [Picture(drawing, caption) for drawing, caption in draw(scores) if drawing]


def _differences(source: Source, place: Place) -> Captioned:
    if ranking := source.ranking(place):
        yield differences(ranking), PAIRED if any(row.difference for row in ranking.rows) else ""


def _curves(source: Source, place: Place) -> Captioned:
    caption = f"{metric_label(source.metric)} on the classes that choose the epoch. {SCALES}"
    yield learning_curves(source.shown(place), source.study.rows.curves, source.metric), caption


def _search(source: Source, place: Place) -> Captioned:
    chose, trials = metric_label(source.metric), source.shown(place)
    honest = "on the held-out train classes; trial 0 is the published setting. The dotted line is its score."
    yield search(trials), f"Best {chose} of each search trial {honest}"
    claimed = "on the test classes themselves. It shows what such tuning would have claimed and ranks nothing."
    yield search(trials, peeks=True), f"The search with test feedback: best {chose} of each search trial {claimed}"


def _importance(source: Source, place: Place) -> Captioned:
    frame = source.importances
    mine = frame[(frame[["dataset", "backbone", "embedding_size", "protocol"]] == [*_axes(place), place.protocol]).all(axis=1)]
    yield (
        importance(mine, _stem(place)),
        "Share of the variance of selection scores that a parameter explains; with few trials it is a hint.",
    )


def _transfer(source: Source, place: Place) -> Captioned:
    trained = place.trained(source.trials)
    caption = "A mark per final trial of the validation setup. The classes that choose and the test classes are others, and fewer: "
    yield transfer(trained[trained["status"] == "FINISHED"]), f"{caption}only the order can be compared."


def _recall_by_loss(scores: pd.DataFrame) -> Captioned:
    for _, part in recall_frame(scores).groupby(["dataset", "backbone"], sort=False):
        yield recall_by_loss(part), "Losses in the order of their years." + STARRED * bool(part["peeks"].any())


def _recall_by(axis: str) -> Callable[[pd.DataFrame], Captioned]:
    """Only where the axis has several values."""

    def draw(scores: pd.DataFrame) -> Captioned:
        frame = recall_frame(scores)
        parts = [frame] if axis == "dataset" else [part for _, part in frame.groupby("dataset", sort=False)]
        for part in parts:
            if part[axis].nunique() > 1:
                starred = STARRED * bool(part["peeks"].any())
                yield recall_by(part, axis), f"What the {AXES[axis]} changes, and whether it changes the order of the losses.{starred}"

    return draw


def _critical_difference(scores: pd.DataFrame) -> Captioned:
    mine = own(scores)
    for setup, part in sorted(mine[mine["metric"] == METRICS[0]].groupby("setup"), key=lambda pair: SETUPS[str(pair[0])]):
        if found := friedman(matches(part).T):
            ranks = {str(loss): float(rank) for loss, rank in found.mean_ranks.items()}
            told = f"{str(setup).capitalize()} setup{'*' * (setup == 'default')}, mean ranks by Recall@1 over {found.blocks} cells."
            caveat = f"{told} Friedman: p = {found.p_value:.2g}. {CAVEAT}{STARRED * (setup == 'default')}"
            yield critical_difference(ranks, found.critical_difference, groups=found.cliques(), caveat=caveat, setup=str(setup)), ""


def _improvement_by_year(scores: pd.DataFrame) -> Captioned:
    table = improvement(scores)
    for base in BASES:
        caption = f"Relative improvement in Recall@1 over {base}; losses in the order of their years, the mean over embedding sizes."
        yield improvement_by_year(table, base), caption + STARRED


def _map(name: str, losses: int = 1) -> Callable[[Source], list[Picture]]:
    """Of the first losses of a ranking, if a final trial of each kept its embeddings."""

    def draw(source: Source, place: Place) -> Captioned:
        from analysis.maps.pictures import MAPS, kept_of  # torch and numba: seconds

        ranking, rows = source.ranking(place), source.study.rows
        first = [row.loss for row in ranking.rows[:losses]] if ranking else []
        models = [kept for loss in first if (kept := kept_of(rows, place.trained(rows.finals), loss))]
        if len(models) == losses:
            make, caption = MAPS[name]
            if drawing := make(models, source.cache):
                yield replace(drawing, name=f"{drawing.name}-{_stem(place)}"), caption

    return _by_place(draw, most=PLACES_WITH_MAPS)


def _axes(place: Place) -> list[object]:
    return [place.dataset, place.backbone, place.embedding_size]


def _stem(place: Place) -> str:
    return "-".join(map(str, [*_axes(place), place.protocol]))


OF_SCORES: dict[str, Callable[[pd.DataFrame], Captioned]] = {  # for which a paper's numbers suffice
    "recall_by_loss": _recall_by_loss,
    "recall_by_size": _recall_by("embedding_size"),
    "recall_by_backbone": _recall_by("backbone"),
    "recall_by_dataset": _recall_by("dataset"),
    "critical_difference": _critical_difference,
    "improvement_by_year": _improvement_by_year,
}
FIGURES: dict[str, Kind] = {
    "differences": Kind("both setups with intervals and baselines, and the signed difference", _by_place(_differences)),
    "curves": Kind("learning curves of every loss and protocol, with the chosen epochs", _by_place(_curves)),
    "search": Kind("the score of every search trial, and the best so far", _by_place(_search)),
    "parallel_coordinates": Kind(
        "the settings that the search tried, stronger for better",
        _by_place(lambda source, place: [(parallel_coordinates(place.trained(source.trials)), "")]),
    ),
    "slices": Kind("the score over every parameter", _by_place(lambda source, place: [(slices(place.trained(source.trials)), "")])),
    "importance": Kind("which hyperparameters matter (fANOVA)", _by_place(_importance)),
    "validation_against_test": Kind("the score that chose the epoch against the test score", _by_place(_transfer)),
    "recall_by_loss": Kind("recall at every k of each loss (thesis figures 27 to 30)", _of_scores(OF_SCORES["recall_by_loss"])),
    "recall_by_size": Kind("what the embedding size changes", _of_scores(OF_SCORES["recall_by_size"])),
    "recall_by_backbone": Kind("what the backbone changes (thesis figure 31)", _of_scores(OF_SCORES["recall_by_backbone"])),
    "recall_by_dataset": Kind("what the dataset changes", _of_scores(OF_SCORES["recall_by_dataset"])),
    "critical_difference": Kind("mean ranks over cells, and who cannot be told apart", _of_scores(OF_SCORES["critical_difference"])),
    "improvement_by_year": Kind("relative improvement over contrastive and triplet by year", _of_scores(OF_SCORES["improvement_by_year"])),
    "same_vs_different": Kind("cosine to the nearest of an image's class and of another one", _map("same_vs_different")),
    "joint_map": Kind("train and test images in one t-SNE", _map("joint_map")),
    "yoked_map": Kind("embedding layer and features below it, yoked t-SNE", _map("yoked_map")),
    "yoked_models": Kind("the first two losses of a ranking, yoked t-SNE", _map("yoked_models", losses=2)),
    "umap": Kind("train and test images by UMAP", _map("umap")),
    "gallery": Kind("queries and their nearest images, right and wrong", _map("gallery")),
    "toy_embeddings": Kind("why MAP@R: toys on which other metrics saturate", lambda source: [Picture(toy_embeddings(), TOYS)]),
}


def draw(name: str, source: Source) -> list[Picture]:
    """One of FIGURES; a ValueError with the near name if it is none."""
    return pick(FIGURES, name, "figure").draw(source)
