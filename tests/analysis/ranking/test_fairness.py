"""Devices that differ between losses, and settings that lack memory, are named above tables."""

from typing import Any

import pandas as pd

from analysis.ranking.fairness import (
    COMPARED,
    FairnessCheck,
    _exhausted,
    differing,
    treatments,
)
from analysis.record.frames import StudyRows


def study(*trials: dict[str, Any]) -> StudyRows:
    """Return a study of finished trials under one protocol."""
    start = {
        "protocol": "fixed_validation",
        "role": "final",
        "status": "FINISHED",
        "outcome": "finished",
        "setting": {},
        "replicate": 0,
        "seed": 0,
        "devices": "CPU",
    }
    rows = [{**start, "cell": each["loss"], **each} for each in trials]
    return StudyRows("study", pd.DataFrame(rows), pd.DataFrame(), pd.DataFrame())


def differences(rows: StudyRows) -> dict[str, dict[str, list[str]]]:
    return dict(differing(treatments(rows, rows.trials)))


def test_losses_on_other_gpus_than_others_are_named():
    rows = study(
        {"loss": "triplet", "devices": "NVIDIA A100-SXM4-80GB"},
        {"loss": "softmax", "devices": "NVIDIA A100-SXM4-80GB"},
        {"loss": "margin", "devices": "NVIDIA A100-SXM4-80GB, Tesla T4"},
    )
    assert differences(rows) == {
        "devices": {
            "NVIDIA A100-SXM4-80GB": ["triplet", "softmax"],
            "NVIDIA A100-SXM4-80GB, Tesla T4": ["margin"],
        }
    }


def test_all_trials_of_a_loss_count_and_equal_devices_are_no_difference():
    rows = study(
        {"loss": "triplet", "devices": "T4"},
        {"loss": "triplet", "devices": "A100", "seed": 0},
        {"loss": "softmax", "devices": "A100, T4"},
    )
    assert "devices" not in differences(rows)


def test_a_record_that_lacks_devices_says_nothing_of_them():
    rows = study({"loss": "triplet", "devices": None}, {"loss": "softmax", "devices": ""})
    assert "devices" not in treatments(rows, rows.trials)
    rows = study({"loss": "triplet"})
    old = StudyRows("old", rows.trials.drop(columns="devices"), rows.curves, rows.queries)
    assert "devices" not in treatments(old, old.trials)


def test_settings_that_did_not_fit_are_counted_by_loss_with_their_device():
    lost = {"loss": "fast_ap", "role": "search", "outcome": "out of memory", "devices": "T4"}
    kept = {"loss": "fast_ap", "role": "search", "devices": "A100"}
    rows = study(lost, lost, kept, {"loss": "fast_ap"}, {"loss": "triplet", "role": "search"})
    (line,) = _exhausted(rows)
    assert line.startswith(
        "Fairness check: 2 of 3 search trials of fast_ap under fixed_validation ran out of memory "
        "on T4: their settings have no score"
    )
    assert not list(_exhausted(study(kept)))


def test_the_check_in_short_names_what_differs_or_says_that_nothing_does():
    unequal = FairnessCheck(["long"], names=("batches", "epochs and parameters of searches"))
    assert unequal.in_short == (
        "Not equal between the losses: batches, epochs and parameters of searches."
    )
    equal = FairnessCheck([], f"Fairness check: equal between the losses compared: {COMPARED}.")
    assert equal.in_short == (
        "Fairness check: equal between the losses compared: training and budgets."
    )
