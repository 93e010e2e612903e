"""Figures parse, show every loss, and never mix numbers that peek with those that do not."""

from itertools import product
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest

from analysis.figures import Drawing, learning_curves, search_progress, setup_differences
from analysis.figures.curves import _chosen
from analysis.ranking.measurement import Measurement, metric_label
from analysis.ranking.ranking import Ranking, RankingRow

LOSSES = ("contrastive", "triplet", "proxy_anchor")
RULES = {"default": "best-on-test", "fixed_validation": "selected-on-validation"}


def trial(loss: str, protocol: str, name: str, **changes: Any) -> dict[str, Any]:
    return {
        "run_id": f"{loss}-{protocol}-{name}",
        "dataset": "sketches",
        "backbone": "tiny",
        "embedding_size": 16,
        "loss": loss,
        "protocol": protocol,
        "rule": RULES[protocol],
        "peeks": protocol == "default",
        "phase": "search" if name.startswith("search") else "final",
        "role": name.partition("-")[0],
        "folds": 1,
        "trial": name,
        "number": int(name.rpartition("-")[2]),
        "outcome": "finished",
        "select/best": 0.4,
        "chosen_epoch": 2.0,
        **changes,
    }


def study(losses: tuple[str, ...] = LOSSES) -> pd.DataFrame:
    finals = [
        trial(loss, protocol, f"final-{seed}")
        for loss, protocol, seed in product(losses, RULES, (0, 1))
    ]
    return pd.DataFrame(
        finals
        + [trial(loss, "fixed_validation", f"search-{i}") for loss in losses for i in range(3)]
    )


def curves_of(trials: pd.DataFrame) -> pd.DataFrame:
    rows = [
        (run, "select/recall_at_1", epoch, 0.1 * epoch)
        for run, epoch in product(trials["run_id"], (1, 2, 3))
    ]
    return pd.DataFrame(rows, columns=["run_id", "metric", "epoch", "value"])


def ranking(*, default: bool = True, validation: bool = True) -> Ranking:
    def side(there: bool, rule: str) -> dict[str, Measurement]:
        return {
            name: Measurement(0.25, 0.2, 0.3, rule, replicates=2)
            for name in ("recall_at_1", "map_at_r")
            if there
        }

    rows = [
        RankingRow(
            loss,
            side(default, "best-on-test"),
            side(validation, "x"),
            side(default and validation, "best-on-test"),
        )
        for loss in LOSSES
    ]
    return Ranking("sketches", "tiny", 16, rows, {"raw pixels": side(True, "untrained")})


def inline(drawing: Drawing | None) -> str:
    assert drawing
    return drawing.inline()


def panels(drawing: Drawing | None) -> list[str]:
    assert drawing
    return [
        found
        for part in ElementTree.fromstring(drawing.inline()).iter()
        if "panel-" in (found := part.get("id", ""))
    ]


def text(drawing: Drawing | None) -> str:
    assert drawing
    return " ".join(
        "".join(part.itertext())
        for part in ElementTree.fromstring(drawing.inline()).iter(
            "{http://www.w3.org/2000/svg}text"
        )
    )


def test_learning_curves_have_one_panel_per_loss_and_protocol():
    trials = study()
    found = panels(learning_curves(trials, curves_of(trials), "recall_at_1"))
    assert len(found) == len(set(found)) == len(LOSSES) * len(RULES)


def test_only_a_losss_own_trials_are_in_its_curve():
    trials = study()
    alone = inline(learning_curves(trials, curves_of(trials), "recall_at_1"))
    beside = pd.DataFrame(
        [
            trial(loss, "fixed_validation", name)
            for loss in LOSSES
            for name in ("published-0", "refit-0")
        ]
    )
    high = curves_of(beside).assign(value=0.9)
    more = pd.concat([trials, beside])
    assert (
        inline(learning_curves(more, pd.concat([curves_of(trials), high]), "recall_at_1")) == alone
    )


@pytest.mark.parametrize(("chosen", "marked"), [(1.0, 1), (1.4, 1), (1.75, 2), (2.5, 2), (3.0, 3)])
def test_an_epoch_that_is_a_mean_over_folds_is_marked_at_the_nearest(chosen, marked):
    final = pd.DataFrame(
        {
            "run_id": ["a"] * 3 + ["b"] * 3,
            "epoch": [1, 2, 3] * 2,
            "chosen_epoch": [chosen] * 3 + [3.0] * 3,
        }
    )
    assert _chosen(final)["epoch"].tolist() == [marked, 3]


def test_a_trial_without_a_chosen_epoch_has_no_mark():
    assert _chosen(
        pd.DataFrame({"run_id": ["a"], "epoch": [1], "chosen_epoch": [float("nan")]})
    ).empty


def test_curves_over_folds_say_that_they_are_means():
    trials = study()
    assert "folds" not in text(learning_curves(trials, curves_of(trials), "recall_at_1"))
    folded = trials.assign(
        folds=[1 if peeks else 4 for peeks in trials["peeks"]], chosen_epoch=1.75
    )
    assert "held-out train classes, mean of 4 folds;" in text(
        learning_curves(folded, curves_of(folded), "recall_at_1")
    )


def test_a_search_with_test_feedback_is_never_drawn_among_the_others():
    trials = study()
    honest = inline(search_progress(trials))
    assert search_progress(trials, peeks=True) is None
    peeking = pd.DataFrame([trial("triplet", "default", f"search-{i}") for i in range(2)])
    both = pd.concat([trials, peeking], ignore_index=True)
    assert inline(search_progress(both)) == honest
    assert "test score*, %" in text(search_progress(both, peeks=True))
    assert len(panels(search_progress(both, peeks=True))) == 1


def test_the_search_has_one_panel_per_loss():
    assert len(panels(search_progress(study()))) == len(LOSSES)


def test_more_losses_than_columns_still_have_a_panel_each():
    assert len(panels(search_progress(study(tuple(f"loss_{i}" for i in range(6)))))) == 6


def test_the_curves_say_that_the_default_setup_peeks():
    trials = study()
    assert "default setup*: peeks at test classes" in text(
        learning_curves(trials, curves_of(trials), "recall_at_1")
    )
    honest = trials[~trials["peeks"]]
    assert "peeks" not in text(learning_curves(honest, curves_of(honest), "recall_at_1"))


@pytest.mark.parametrize("sides", [{}, {"default": False}, {"validation": False}])
def test_differences_name_every_loss_and_the_baselines(sides):
    shown = text(setup_differences(ranking(**sides)))
    assert all(loss in shown for loss in LOSSES)
    assert "raw pixels (25.0)" in shown
    assert ("minus default*" in shown) == (not sides)
    assert "rule untrained" in shown
    assert ("rule best-on-test" in shown) == sides.get("default", True)
    assert ("rule selected-on-validation" in shown) == sides.get("validation", True)


def test_trials_without_scores_are_drawn_too():
    trials = study()
    trials.loc[trials["trial"] == "search-1", ["select/best", "outcome"]] = [float("nan"), "failed"]
    assert "no score" in text(search_progress(trials))
    nothing = trials.assign(**{"select/best": float("nan")})
    assert len(panels(search_progress(nothing))) == len(LOSSES)
    assert len(panels(search_progress(trials.drop(columns=["select/best", "outcome"])))) == len(
        LOSSES
    )


def test_without_trials_there_is_no_figure():
    nothing = pd.DataFrame()
    assert learning_curves(nothing, curves_of(study()), "recall_at_1") is None
    assert search_progress(nothing) is None
    finals = study().query("phase == 'final'")
    assert search_progress(finals) is None
    assert learning_curves(finals, curves_of(finals), "map_at_r") is None


def test_a_figure_takes_the_colours_of_its_page_and_is_the_same_each_time():
    svg = inline(search_progress(study()))
    assert "currentColor" in svg
    assert "#010101" not in svg
    assert svg == inline(search_progress(study()))


def test_metrics_have_the_names_that_people_print():
    assert [metric_label(name) for name in ("recall_at_1", "map_at_r", "r_precision")] == [
        "Recall@1",
        "MAP@R",
        "R-precision",
    ]
