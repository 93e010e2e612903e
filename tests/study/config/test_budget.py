"""How long a search is, and the laws between the keys that say so."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.console import Console

from study.config.budget import expected_epochs, rungs, search_epochs
from study.config.notices import notices
from study.config.plan import expand
from study.config.study_config import make
from study.estimate.counts import count_cells
from study.presets import SMOKE
from study.search.early_stopping import EarlyStopping
from study.view.live_view import LiveView
from tests.conftest import MakeConfig
from tests.support.studies import from_scratch

BAD: list[tuple[dict[str, Any], str]] = [
    ({"search_epochs": 9}, "search_epochs=9 must not be above epochs=8; use 8 or less."),
    ({"search_epochs": 0}, "search_epochs=0"),
    (
        {"search_epochs": 4, "grace": 5},
        "grace=5 must not be above search_epochs=4; use 4 (which stops nothing) or less.",
    ),
    (
        {"search_epochs": 3, "warm_up": 3, "grace": 2},
        "must outlast the warm-up, but search_epochs=3 and warm_up=3; use search_epochs=4",
    ),
    ({"warm_up": 2, "grace": 2}, "but grace=2 is not above warm_up=2; use grace=3 or more."),
    (
        {"search_training": ["learning_rat"]},
        "Unknown name in search_training 'learning_rat'. Did you mean 'learning_rate'?",
    ),
    ({"search_training": ["lr_step", "lr_step"]}, "Each name must appear once"),
    ({"search_training": "momentum"}, "Unknown name in search_training 'momentum'."),
    (
        {"search_training": "learning_rate", "strategy": "fixed"},
        "needs a search, but strategy=fixed has none",
    ),
    (
        {"search_training": "learning_rate", "learning_rate": 0.1},
        "learning_rate is searched in 1e-06 to 0.01, log, but would start at 0.1; set "
        "learning_rate=0.01, or leave it out",
    ),
    (
        {"search_training": "lr_step", "lr_step": None},
        "but has no value to start at; set lr_step=10, or leave it out",
    ),
]


@pytest.mark.parametrize(("changes", "sentence"), BAD, ids=[str(changes) for changes, _ in BAD])
def test_bad_input_is_one_sentence_with_law_fact_and_cure(
    changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)) as error:
        make(from_scratch() | changes)
    assert "\n" not in str(error.value)


def test_where_nothing_is_searched_grace_may_be_anything() -> None:
    low = {"warm_up": 2, "grace": 2}
    assert make(from_scratch() | low | {"strategy": "fixed"}).grace == 2
    assert make(from_scratch() | low | {"protocols": ["default"]}).grace == 2


@pytest.mark.parametrize(
    ("changes", "rungs"),
    [
        ({"epochs": 8}, [2, 4]),
        ({"epochs": 20}, [5, 10]),
        ({"epochs": 100, "search_epochs": 10}, [3, 6]),
        ({"epochs": 8, "warm_up": 3}, [4]),
        ({"epochs": 8, "where": [{"loss": "triplet", "warm_up": 4}]}, [5]),
        ({"epochs": 1}, []),
    ],
)
def test_the_first_rung_is_at_a_quarter_of_the_epochs_and_after_the_warm_up(
    changes: dict[str, Any], rungs: list[int]
) -> None:
    assert expand(make(from_scratch() | changes)).rungs == rungs


def test_a_smoke_run_of_a_longer_search_is_still_short() -> None:
    study = make(from_scratch() | {"epochs": 20, "search_epochs": 10, "warm_up": 1} | SMOKE)
    assert search_epochs(study) == study.epochs == 2


def test_search_trials_are_as_long_as_search_epochs_says_and_final_trials_are_not(
    config: MakeConfig,
) -> None:
    study = config(
        epochs=16, search_epochs=8, grace=2, reduction=2, search_trials=8, reproductions=3
    )
    cell = expand(study).cells[1]
    assert (
        expand(study).spec(cell, "search", 0, expand(study).published(cell.loss)).training.epochs
        == 8
    )
    assert (
        expand(study).spec(cell, "final", 1, expand(study).published(cell.loss)).training.epochs
        == 16
    )
    assert rungs(study) == [2, 4]
    assert expected_epochs(study) == 2 + 2 / 2 + 4 / 4
    assert {asha._max_t for asha in EarlyStopping(expand(study)).ashas.values()} == {8}
    plan = {cell.label: cell for cell in count_cells(expand(study))}["triplet/fixed_validation"]
    assert plan.epochs == (8 + 7 * 4 + 3 * 16, 8 * 8 + 3 * 16)
    view = LiveView(expand(study), Console(file=io.StringIO()))
    assert view.left == 4 * (8 + 7 * 4 + 3 * 16) + 4 * 3 * 16


@pytest.mark.parametrize(
    ("strategy", "trials"),
    [("hyperopt", 8), ("random", 8), ("grid", 11 * 50 * 50 * 11), ("coordinate", 122)],
)
def test_a_plan_counts_the_trials_of_every_strategy(
    config: MakeConfig, strategy: str, trials: int
) -> None:
    about = {"strategy": strategy, "search_trials": 8, "finalist_splits": 0}
    study = config(losses=["multi_similarity"], **about)
    searched, default = expand(study).cells[1], expand(study).cells[0]
    assert expand(study).trials(searched) == (trials, study.reproductions)
    assert expand(study).trials(default) == (0, study.reproductions)
    assert [plan.search_trials for plan in count_cells(expand(study))] == [0, trials]
    noticed = [
        notice for notice in notices(expand(study)) if "whatever search_trials says" in notice
    ]
    notice = (
        f"multi_similarity/fixed_validation: {strategy} tries {trials:,} settings, whatever "
        f"search_trials says."
    )
    assert noticed == ([] if trials == 8 else [notice])
