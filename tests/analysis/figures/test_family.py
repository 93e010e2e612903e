"""Every figure works on any study, and shows the numbers that it gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from analysis import figures, read_study
from analysis.figures import Drawing
from analysis.figures.gallery import GalleryImage, GalleryRow
from analysis.figures.ranks import maximal_groups, within_critical
from analysis.figures.settings import Scale
from analysis.figures.toys import toy_scores, toys
from analysis.maps.nearest import Nearest
from analysis.ranking.measurement import Measurement
from analysis.ranking.ranking import rankings
from analysis.record.frames import StudyRows
from analysis.tables.improvement import improvement
from analysis.tables.scores import frame as scores_frame
from analysis.tables.scores import scores
from tests.support.pictures import overlaps, words
from tests.support.synthetic_study import (
    FOLDS,
    RATIO,
    SyntheticTrial,
    everything,
    rows_of,
    share,
    write_study,
)

# Thesis table 11, as totals over its 12 settings.
TOTALS = {
    "proxy_anchor": 12, "soft_triple": 38, "multi_similarity": 51, "contrastive": 52,
    "lifted_structure": 54, "margin": 70, "arcface": 79, "proxy_nca": 81, "triplet": 103,
    "n_pair": 120,
}  # fmt: skip
MEAN_RANKS = {loss: total / 12 for loss, total in TOTALS.items()}
NONE = np.zeros(0, dtype=np.float32)
OF_A_STUDY: dict[str, Callable[[StudyRows], Drawing | None]] = {
    "curves": lambda rows: figures.learning_curves(rows.trials, rows.curves, "recall_at_1"),
    "search": lambda rows: figures.search_progress(rows.trials),
    "parallel_coordinates": lambda rows: figures.parallel_coordinates(rows.trials),
    "slices": lambda rows: figures.slices(rows.trials),
    "recall_by_loss": lambda rows: figures.recall_by_loss(figures.recall_frame(scores(rows))),
    "recall_by_size": lambda rows: figures.recall_by(
        figures.recall_frame(scores(rows)), "embedding_size"
    ),
    "recall_by_backbone": lambda rows: figures.recall_by(
        figures.recall_frame(scores(rows)), "backbone"
    ),
    "validation_against_test": lambda rows: figures.validation_against_test(rows.finals),
    "differences": lambda rows: next(
        (figures.setup_differences(one) for one in rankings(rows)), None
    ),
}


def a_nearest(count: int) -> Nearest:
    rng = np.random.default_rng(count)
    return Nearest(rng.random(count).astype(np.float32), rng.random(count).astype(np.float32))


def a_map(count: int) -> Drawing | None:
    rng = np.random.default_rng(0)
    parts = np.array(["train", "test"])[np.arange(count) % 2]
    return figures.joint_map(
        rng.normal(size=(count, 2)), np.arange(count) % 9, parts, name="triplet, default"
    )


def a_yoked(count: int) -> Drawing | None:
    planes = [np.random.default_rng(i).normal(size=(count, 2)) for i in (0, 1)]
    return figures.yoked_map(
        planes, ["fc", "gap"], np.arange(count) % 9, boxes=[(-1, 1, -1, 1)] * 2 if count else ()
    )


def a_gallery(count: int) -> Drawing | None:
    tile = np.full((28, 28, 1), 99, dtype=np.uint8)
    row = GalleryRow(
        GalleryImage(tile, "a_class_with_a_long_name"),
        tuple(GalleryImage(tile, "dog", right=i % 2 == 0) for i in range(6)),
    )
    return figures.gallery([row] * count, name="triplet, default")


def an_importance(count: int) -> Drawing | None:
    return figures.importance_bars(
        pd.DataFrame(
            {
                "loss": "triplet",
                "parameter": [f"name_of_{i}" for i in range(2 * count)],
                "importance": 0.5,
            }
        )
    )


def test_a_loss_with_one_parameter_has_no_bars():
    rows = [("margin", "beta", 0.7), ("margin", "alpha", 0.3), ("triplet", "margin", 1.0)]
    frame = pd.DataFrame(rows, columns=["loss", "parameter", "importance"])
    drawing = figures.importance_bars(frame)
    assert drawing
    assert drawing.label == "Importance of the parameters of margin"
    assert figures.importance_bars(frame[frame["loss"] == "triplet"]) is None


def of_losses(values: dict[str, float], **about: str) -> list[dict[str, object]]:
    """Return the scores of one comparison; none of them peeks."""
    comparison = {
        "dataset": "cub200",
        "backbone": "bn_inception",
        "embedding_size": 128,
        "protocol": "k_fold:4",
        "setup": "validation",
        "what": "",
    }
    return [
        {
            **comparison,
            **about,
            "loss": loss,
            "metric": "recall_at_1",
            "measurement": Measurement(value / 100),
        }
        for loss, value in values.items()
    ]


def by_year(count: int) -> Drawing | None:
    names = ["contrastive", *(name for name in TOTALS if name != "contrastive")]
    return figures.improvement_by_year(
        improvement(scores_frame(of_losses(dict.fromkeys(names[:count], 50.0))))
    )


OF_PLAIN_DATA: dict[str, Callable[[int], Drawing | None]] = {
    "critical_difference": lambda n: figures.critical_difference(
        dict(list(MEAN_RANKS.items())[:n]), 3.91, caveat="One dataset."
    ),
    "importance": an_importance,
    "improvement_by_year": by_year,
    "joint_map": a_map,
    "yoked_map": a_yoked,
    "same_vs_different": lambda n: figures.same_vs_different(
        {("fc", "train"): a_nearest(n), ("fc", "test"): a_nearest(n)}, name="x"
    ),
    "gallery": a_gallery,
}


def full() -> StudyRows:
    rows = rows_of(everything())
    numbers = {"test/recall_at_1": 0.4, "test/recall_at_2": 0.5, "test/map_at_r": 0.2}
    return replace(rows, trials=rows.trials.assign(**numbers))


def failed() -> StudyRows:
    """Return a study of which every second trial failed before it had a score or a setting."""
    rows = full()
    lost = rows.trials.index % 2 == 1
    trials = rows.trials.copy()
    trials.loc[
        lost,
        ["select/best", "chosen_epoch", "test/recall_at_1", "test/recall_at_2", "test/map_at_r"],
    ] = np.nan
    trials.loc[lost, ["status", "outcome"]] = ["FAILED", "failed"]
    trials["setting"] = [
        {} if gone else setting for gone, setting in zip(lost, trials["setting"], strict=True)
    ]
    runs = set(trials.loc[lost, "run_id"])
    return StudyRows(
        "failed",
        trials,
        rows.curves[~rows.curves["run_id"].isin(runs)],
        rows.queries[~rows.queries["run_id"].isin(runs)],
    )


def one_row(role: str) -> StudyRows:
    rows = full()
    trials = rows.trials[(rows.trials["role"] == role) & ~rows.trials["peeks"]].head(1)
    return StudyRows(
        "one",
        trials,
        rows.curves[rows.curves["run_id"].isin(trials["run_id"])],
        rows.queries[rows.queries["run_id"].isin(trials["run_id"])],
    )


@pytest.mark.parametrize("name", sorted(OF_A_STUDY))
def test_a_figure_of_a_study_works_on_an_empty_a_one_row_and_a_partly_failed_one(name):
    draw = OF_A_STUDY[name]
    nothing = StudyRows(
        "empty",
        pd.DataFrame(),
        pd.DataFrame(),
        pd.DataFrame(columns=["run_id", "fold", "rule", "class"]),
    )
    assert draw(nothing) is None
    drawn = [draw(one_row("search")), draw(one_row("final")), draw(failed()), draw(full())]
    assert any(drawn[:2])
    assert all(drawn[2:])
    for drawing in filter(None, drawn):
        assert words(drawing)


@pytest.mark.parametrize("name", sorted(OF_A_STUDY))
def test_no_text_of_a_figure_of_a_study_lies_on_another(name):
    drawing = OF_A_STUDY[name](full())
    assert drawing
    assert overlaps(drawing) == []


@pytest.mark.parametrize("name", sorted(OF_PLAIN_DATA))
def test_a_figure_of_plain_data_works_on_none_one_and_many(name):
    draw = OF_PLAIN_DATA[name]
    assert draw(0) is None
    for count in (1, 10):
        drawing = draw(count)
        assert drawing
        assert words(drawing)
        assert overlaps(drawing) == []


def test_a_figure_is_kept_as_vectors_and_as_pixels_on_white(tmp_path):
    drawing = OF_A_STUDY["search"](full())
    assert drawing
    vector, bitmap = drawing.save(tmp_path)
    ElementTree.parse(vector)
    with Image.open(bitmap) as image:
        assert image.convert("RGB").getpixel((2, 2)) == (255, 255, 255)
        assert image.width == pytest.approx(drawing.figure.get_figwidth() * 170, abs=2)
    assert "currentColor" not in vector.read_text()


def test_the_first_colours_differ_in_grey():
    from matplotlib.colors import to_rgb

    from analysis.figures.style import DEFAULT_COLOUR, VALIDATION_COLOUR

    one, other = (
        float(np.dot(to_rgb(colour), (0.299, 0.587, 0.114)))
        for colour in (VALIDATION_COLOUR, DEFAULT_COLOUR)
    )
    assert abs(one - other) > 0.05


def test_recalls_stand_in_the_order_of_years_with_their_numbers():
    values = {"proxy_anchor": 66.72, "contrastive": 62.58, "triplet": 60.50}
    frame = figures.recall_frame(scores_frame(of_losses(values)))
    shown = words(figures.recall_by_loss(frame))
    assert [word for word in shown if word in values] == ["contrastive", "triplet", "proxy_anchor"]
    assert {"62.6", "60.5", "66.7"} <= set(shown)
    assert figures.recall_by_loss(frame.assign(metric="map_at_r")) is None
    with pytest.raises(ValueError, match="one of dataset, backbone, embedding_size"):
        figures.recall_by(frame, "loss")


def test_recalls_of_a_study_are_each_protocols_own_and_never_peek():
    frame = figures.recall_frame(scores(full())).set_index(["protocol", "loss", "metric"])["value"]
    assert frame[RATIO, "triplet", "recall_at_1"] == pytest.approx(100 * share(2))
    assert frame[FOLDS, "triplet", "recall_at_1"] == pytest.approx(100 * share(1, 2))
    assert "default" not in frame.index.get_level_values("protocol")
    shown = words(figures.recall_by_loss(figures.recall_frame(scores(full()))))
    assert {f"sketches, tiny, 16 dimensions, {protocol}" for protocol in (RATIO, FOLDS)} <= set(
        shown
    )


def test_recalls_of_a_study_that_only_peeked_are_starred():
    rows = rows_of([one for one in everything() if one.protocol == "default"])
    frame = figures.recall_frame(scores(rows))
    assert frame["peeks"].all()
    assert "test*, %" in words(figures.recall_by_loss(frame))
    assert "test Recall@1*, %" in words(figures.recall_by(frame, "backbone"))


def test_a_baseline_is_no_loss(tmp_path):
    hits = {("0", "untrained"): [1] * 6}
    baselines = [SyntheticTrial(name, "none", "final", 1, hits) for name in ("pca", "untrained")]
    rows = read_study(write_study(tmp_path, [*everything(), *baselines]))
    assert {"pca", "untrained"} <= set(rows.finals["loss"])
    assert set(figures.recall_frame(scores(rows))["loss"]) == {"triplet", "contrastive"}


def test_the_critical_difference_of_the_thesis_does_not_tell_the_first_five_apart():
    first = {"proxy_anchor", "soft_triple", "multi_similarity", "contrastive", "lifted_structure"}
    groups = [set(group) for group in maximal_groups(within_critical(MEAN_RANKS, 3.91))]
    assert first in groups
    assert not [group for group in groups if {"proxy_anchor", "margin"} <= group]
    shown = " ".join(words(figures.critical_difference(MEAN_RANKS, 3.91)))
    assert "triplet" in shown
    assert "8.58" in shown  # printed as 8.85
    assert "critical difference 3.91" in shown


def test_improvement_is_drawn_relative_to_the_same_comparison_and_starred_where_it_peeked():
    lines = of_losses({"contrastive": 59.73, "triplet": 55.76})
    peeked = of_losses(
        {"contrastive": 62.58, "triplet": 60.50},
        dataset="cars196",
        protocol="default",
        setup="default",
    )
    lines += [{**line, "measurement": replace(line["measurement"], peeks=True)} for line in peeked]
    drawing = figures.improvement_by_year(improvement(scores_frame(lines)))
    assert drawing
    (axis,) = drawing.figure.axes
    drawn = {str(line.get_label()): list(line.get_ydata()) for line in axis.get_lines()[1:]}
    assert drawn["cub200, k_fold:4"] == pytest.approx([0, -6.65], abs=0.01)
    assert drawn["cars196, default*"] == pytest.approx([0, -3.32], abs=0.01)
    assert {"contrastive", "2006"} <= set(" ".join(words(drawing)).split())


def test_on_the_toys_only_map_at_r_and_r_precision_tell_the_embeddings_apart():
    scores = [toy_scores(*toy) for toy in toys()]
    for name in ("nmi", "f1", "recall_at_1"):
        assert all(score[name] > 0.95 for score in scores)
    # Musgrave et al. have 71.4, 77.9 and 99.8 for theirs.
    assert [100 * score["map_at_r"] for score in scores] == pytest.approx(
        [76.7, 79.0, 99.8], abs=1.0
    )
    assert scores[0]["map_at_r"] < scores[1]["map_at_r"] - 0.02 < scores[2]["map_at_r"] - 0.2
    assert overlaps(figures.toy_embeddings()) == []


def test_a_parameter_lies_where_its_range_puts_it():
    log = Scale.of("proxy_anchor", "alpha", [1.0, 10.0, 100.0])
    assert [log.position(value) for value in (1.0, 10.0, 100.0)] == pytest.approx([0, 0.5, 1])
    assert Scale.of("unknown", "x", [2.0, 4.0]).position(3.0) == pytest.approx(0.5)
    assert Scale.of("unknown", "kind", ["b", "a", "b"]).position("b") == 1
    assert Scale.of("unknown", "x", [2.0]).position(2.0) == 0.5


def test_the_share_of_right_images_is_printed():
    found = Nearest(
        np.array([0.9, 0.2, 0.8, 0.7], dtype=np.float32),
        np.array([0.1, 0.5, 0.3, 0.6], dtype=np.float32),
    )
    shown = " ".join(
        words(
            figures.same_vs_different(
                {("fc", "test"): found, ("gap", "test"): Nearest(NONE, NONE)}, name="x"
            )
        )
    )
    assert "fc, test: 75.0 % right" in shown
    assert "3 of 4" in shown
    assert "gap" not in shown
