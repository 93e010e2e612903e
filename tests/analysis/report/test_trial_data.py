"""A page holds every trial, and as many curves as it can afford, the best first."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.record.frames import StudyRows
from analysis.report import trial_data as module
from analysis.report.render import render
from analysis.report.trial_data import trial_data, trials_of
from analysis.tracking import Links
from tests.support.synthetic_study import (
    RATIO,
    SyntheticTrial,
    empty,
    everything,
    final,
    partly_failed,
    rows_of,
)


def restored(data: dict[str, object]) -> list[dict[str, object]]:
    """Return the trials as the page's script reads them."""
    found = []
    for line in data["trials"]:
        trial = dict(zip(data["columns"], line, strict=True))
        trial |= {name: words[trial[name]] for name, words in data["words"].items()}
        flat = trial["setting"]
        trial["setting"] = {
            data["params"][place]: value for place, value in zip(flat[::2], flat[1::2], strict=True)
        }
        found.append(trial)
    return found


@pytest.mark.parametrize("made", [lambda: rows_of(everything()), partly_failed, empty])
def test_the_page_has_what_every_trial_is_and_json_carries_it(
    made: Callable[[], StudyRows],
) -> None:
    rows = made()
    data = trial_data(rows, "recall_at_1")
    assert restored(json.loads(json.dumps(data, allow_nan=False))) == trials_of(rows)
    assert len(data["trials"]) == len(rows.trials)


def test_a_trial_has_its_mark_its_scores_in_percent_and_its_curve() -> None:
    rows = rows_of([final("triplet", "default", "final", 1), final("triplet", RATIO, "final", 1)])
    trials = rows.trials.assign(**{"test/recall_at_1": [0.5, 0.25], "error": [None, np.nan]})
    data = trial_data(replace(rows, trials=trials), "recall_at_1")
    peeking, honest = restored(data)
    assert (peeking["mark"], peeking["test"], honest["mark"], honest["test"]) == ("*", 50, "", 25)
    assert honest["score"] == 30
    assert honest["setting"] == {"margin": 0}
    assert data["curves"][0] == [1, [1000, 2000, 3000]]
    assert data["train"][1] == [1, [1, 0.5, 0.3333]]


def test_a_value_that_json_has_no_number_for_is_missing() -> None:
    rows = rows_of([final("triplet", RATIO, "final", 1)])
    setting = [{"margin": float("nan"), "swap": True, "distance": "cosine", "training.rate": 1e-9}]
    trials = rows.trials.assign(setting=setting, **{"select/best": [float("inf")]})
    (trial,) = restored(trial_data(replace(rows, trials=trials), "recall_at_1"))
    assert trial["score"] is None
    assert trial["setting"] == {"margin": None, "swap": "True", "distance": "cosine", "rate": 1e-9}


def with_searches(trials: int, epochs: int) -> StudyRows:
    """Return one final trial and a search of so many trials, the last of which is best."""
    made = [SyntheticTrial("triplet", RATIO, "search", number) for number in range(trials)]
    rows = rows_of([*made, final("triplet", RATIO, "final", 1)])
    score = [number / trials for number in range(trials)] + [0.0]
    curves = pd.DataFrame(
        {
            "run_id": np.repeat(rows.trials["run_id"], epochs),
            "metric": "select/recall_at_1",
            "epoch": np.tile(np.arange(1, epochs + 1), trials + 1),
            "value": 0.5,
        }
    )
    return replace(rows, trials=rows.trials.assign(**{"select/best": score}), curves=curves)


def test_of_many_curves_the_page_has_final_ones_and_the_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "POINTS", 45)
    data = trial_data(with_searches(trials=9, epochs=10), "recall_at_1")
    assert sorted(data["curves"]) == [6, 7, 8, 9], "9 is the final trial, 8 the best of the search"
    assert data["left"] == 6


def test_a_long_curve_is_thinned_and_keeps_its_ends() -> None:
    (epochs, values) = trial_data(with_searches(1, epochs=1000), "recall_at_1")["curves"][0]
    assert len(epochs) == len(values) == module.POINTS_EACH
    assert (epochs[0], epochs[-1]) == (1, 1000)


def test_losses_come_in_the_order_of_the_ranking_and_baselines_offer_no_place() -> None:
    pixels = SyntheticTrial("untrained", "none", "final", 1, axes=("sketches", "pixels", 16))
    rows = rows_of([pixels, *(final(loss, RATIO, "final", 1) for loss in ("triplet", "margin"))])
    data = trial_data(rows, "recall_at_1", losses=["margin", "triplet"])
    assert data["words"]["loss"] == ["margin", "triplet", "untrained"]
    assert data["places"] == ["sketches, tiny, 16 dimensions"]


def test_runs_are_there_only_where_a_server_shows_them() -> None:
    rows = rows_of([final("triplet", RATIO, "final", seed) for seed in (1, 2)])
    assert trial_data(rows, "recall_at_1")["runs"] == []
    links = Links("http://here/#/experiments/1", {rows.trials["run_id"].iloc[1]: "abc"})
    assert trial_data(rows, "recall_at_1", links=links)["runs"] == [None, "abc"]


def test_no_text_ends_the_script_that_it_is_in() -> None:
    evil = "</script><script>alert(1)</script><!--"
    text = render(
        "compare.html.jinja", names=[evil], answer=[evil], unequal=[], pairs=[], made=[], table=""
    )
    assert evil not in text
    assert text.count("<script") == 1
