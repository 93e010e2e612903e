"""Hold laws over every figure: it is drawn as vectors and pixels, and no text hides another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from analysis.figures.catalogue import FIGURES, draw
from analysis.figures.from_scores import OF_SCORES
from analysis.figures.from_study import FigureData
from analysis.figures.toys import toy_embeddings
from analysis.published.paper_figures import PAPER_FIGURES, published_figure
from analysis.record.frames import StudyRows
from analysis.report.report import MAPS, OF_A_COMPARISON, OF_THE_STUDY
from analysis.tables.catalogue import Study
from study.config.study_config import StudyConfig
from tests.support.pictures import overlaps, words
from tests.support.synthetic_embeddings import with_kept
from tests.support.synthetic_study import (
    RATIO,
    SyntheticTrial,
    empty,
    everything,
    one_row,
    partly_failed,
    replicated_study,
    rows_of,
)


def measured(rows: StudyRows) -> StudyRows:
    """Add the test metric that final trials log."""
    finished = rows.trials["status"] == "FINISHED"
    return replace(
        rows, trials=rows.trials.assign(**{"test/recall_at_1": np.where(finished, 0.4, np.nan)})
    )


STUDIES = {
    "empty": empty,
    "one row": one_row,
    "partly failed": lambda: measured(partly_failed()),
    "everything": lambda: measured(rows_of(everything())),
    "replicated": replicated_study,
}
WITH_MAPS = {*MAPS, "umap", "generalization_maps"}
# Figures that need more than the synthetic study has.
NEEDS_MORE = {
    "recall_by_size",
    "recall_by_backbone",
    "recall_by_dataset",
    "critical_difference",
    "importance",
}


@pytest.fixture(scope="module")
def studies() -> dict[str, Study]:
    return {name: Study(make()) for name, make in STUDIES.items()}


def check(name: str, data: FigureData, folder: Path) -> None:
    """Assert that each drawing has its own name, a vector file that parses, and varied pixels."""
    pictures = draw(name, data)
    assert len({picture.drawing.name for picture in pictures}) == len(pictures)
    for picture in pictures:
        vector, bitmap = picture.drawing.save(folder)
        ElementTree.parse(vector)
        with Image.open(bitmap) as image:
            assert len(image.convert("L").getcolors(256) or []) > 5
        assert overlaps(picture.drawing) == []


# Replicates take longest to draw.
@pytest.mark.parametrize(
    "study",
    [pytest.param(name, marks=[pytest.mark.slow] * (name == "replicated")) for name in STUDIES],
)
@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn_of_every_study(
    name: str, study: str, studies: dict[str, Study], tmp_path: Path
) -> None:
    check(name, FigureData(studies[study]), tmp_path)
    if study == "empty" and name != "toy_embeddings":
        assert draw(name, FigureData(studies[study])) == []


@pytest.mark.parametrize("name", sorted(FIGURES.keys() - NEEDS_MORE - WITH_MAPS))
def test_a_full_study_has_every_figure_that_its_rows_can_fill(
    name: str, studies: dict[str, Study]
) -> None:
    assert draw(name, FigureData(studies["everything"]))


@pytest.mark.parametrize(
    ("paper", "name"), [(paper, name) for paper, had in PAPER_FIGURES.items() for name in had]
)
@pytest.mark.parametrize("most", [1, pytest.param(None, marks=pytest.mark.slow)])
def test_every_figure_of_a_paper_is_drawn_of_its_numbers(
    paper: str, name: str, most: int | None, tmp_path: Path
) -> None:
    assert name in FIGURES
    pictures = published_figure(paper, name)
    assert pictures
    assert all(
        path.stat().st_size > 1000
        for picture in pictures[:most]
        for path in picture.drawing.save(tmp_path)
    )


def test_a_figure_of_scores_is_one_of_a_paper() -> None:
    assert set(OF_SCORES) <= set(PAPER_FIGURES["thesis"])


def test_the_critical_difference_of_the_thesis_is_over_twelve_cells_with_its_caveat() -> None:
    (picture,) = published_figure("thesis", "critical_difference")
    shown = " ".join(words(picture.drawing))
    assert "over 12 cells" in shown
    assert "8.58" in shown  # triplet, printed as 8.85
    assert "No rank test: 12 cells of 1 dataset are 1 independent block" in shown
    assert "critical difference" not in shown


def test_importance_is_drawn_of_the_search_that_never_peeked() -> None:
    tried = [
        SyntheticTrial("triplet", protocol, "search", number)
        for protocol in ("default", RATIO)
        for number in range(12)
    ]
    rows = rows_of([*(one for one in everything() if one.role != "search"), *tried])
    numbers = [int(trial.rpartition("-")[2]) for trial in rows.trials["trial"]]
    settings = [{"margin": number / 12, "swap": float(number % 2)} for number in numbers]
    trials = rows.trials.assign(
        setting=settings, **{"select/best": [number / 20 for number in numbers]}
    )
    (picture,) = draw("importance", FigureData(Study(replace(rows, trials=trials))))
    assert picture.drawing.name == f"importance-sketches-tiny-16-{RATIO}"
    assert overlaps(picture.drawing) == []


@pytest.fixture
def with_embeddings(tmp_path: Path, config: Callable[..., StudyConfig]) -> StudyRows:
    return with_kept(rows_of(everything()), tmp_path / "kept", config())


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(WITH_MAPS))
def test_maps_are_drawn_of_kept_embeddings(
    name: str, with_embeddings: StudyRows, tmp_path: Path
) -> None:
    data = FigureData(Study(with_embeddings), cache=tmp_path / "maps")
    check(name, data, tmp_path)
    # one per comparison; of all losses one for each layer, and one for each loss
    losses = len(set(with_embeddings.finals["loss"]))
    assert len(draw(name, data)) == (2 * (2 + losses) if name == "generalization_maps" else 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, entry in FIGURES.items() if entry.of_losses])
def test_a_map_is_drawn_of_the_losses_that_are_asked_for(
    name: str, with_embeddings: StudyRows, tmp_path: Path
) -> None:
    losses = tuple(sorted({*with_embeddings.finals["loss"]}))[:2]
    data = FigureData(Study(with_embeddings), cache=tmp_path / "maps", losses=losses)
    pictures = draw(name, data)
    each = {"yoked_models": 1, "generalization_maps": 2 + 2}.get(name, 2)
    assert len(pictures) == 2 * each
    every = draw(name, replace(data, losses=("all",)))
    assert len(every) >= len(pictures)


def test_every_figure_stands_on_the_page_or_is_drawn_when_asked_for() -> None:
    on_request = {"training_loss", "umap", "generalization_maps", "toy_embeddings"}
    assert set(FIGURES) == {*OF_A_COMPARISON, *OF_THE_STUDY, *MAPS, *on_request}
    assert overlaps(toy_embeddings()) == []


def test_an_unknown_figure_is_answered_with_the_near_name(studies: dict[str, Study]) -> None:
    with pytest.raises(ValueError, match="Did you mean 'curves'"):
        draw("curvs", FigureData(studies["empty"]))
