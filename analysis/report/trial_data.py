"""Collect what the interactive parts of a page show of each trial: setting, scores, curve."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.ranking.comparisons import title
from analysis.ranking.measurement import CLOSED_MARK, metric_label
from analysis.record.frames import StudyRows
from analysis.tables.compute import ended
from analysis.tables.frames import curves_by_run, records
from analysis.tracking import Links
from search_spaces import value_text
from search_spaces.training import TRAINED
from trainables.contract import CLOSED, UNTRAINED

# Points of all curves on a page, and of one of them: 5,000 trials must not make it heavy.
POINTS, POINTS_EACH = 80_000, 200
TEST = "test/recall_at_1"
COLUMNS = (
    *("name", "place", "protocol", "loss", "role", "number", "replicate", "mark", "score"),
    *("test", "epochs", "chosen", "seconds", "outcome", "error", "setting"),
)
BASELINE = "baseline"
WORDS = ("place", "protocol", "loss", "role", "outcome")  # written once, each trial has a number


def trials_of(rows: StudyRows) -> list[dict[str, Any]]:
    """Return every trial by the names of COLUMNS."""
    return [_trial(each) for each in records(rows.trials)]


def trial_data(
    rows: StudyRows, metric: str, *, losses: Sequence[str] = (), links: Links | None = None
) -> dict[str, Any]:
    """Return all trials, and as many curves as a page should hold, as plain lists.

    metric: the one that chose epochs and settings. losses: the best first. links: to the study and
    its trials on an MLflow server.
    """
    trials = trials_of(rows)
    words = {name: list(dict.fromkeys(trial[name] for trial in trials)) for name in WORDS}
    words["loss"].sort(key=lambda loss: losses.index(loss) if loss in losses else len(losses))
    trained = {trial["place"] for trial in trials if trial["role"] != BASELINE}
    params = list(dict.fromkeys(name for trial in trials for name in trial["setting"]))
    curves = curves_by_run(rows.curves, f"select/{metric}")
    losses_by_epoch = curves_by_run(rows.curves, "train/loss")
    kept = _affordable(rows.trials, curves)
    return {
        "metric": metric_label(metric),
        "columns": COLUMNS,
        "words": words,
        "places": [place for place in words["place"] if place in trained],
        "params": params,
        "trials": [_line(trial, words, params) for trial in trials],
        "curves": {number: _points(curves[run], 10_000) for number, run in kept},
        "train": {
            number: _points(losses_by_epoch[run])
            for number, run in enumerate(rows.trials.get("run_id", ()))
            if run in losses_by_epoch
        },
        "left": len(curves) - len(kept),
        "mlflow": links.study if links else "",
        "runs": [links.runs.get(run) for run in rows.trials["run_id"]]
        if links and links.runs
        else [],
    }


def _trial(each: Mapping[str, Any]) -> dict[str, Any]:
    """Return one trial by the names of COLUMNS; scores in percent."""
    setting = each.get("setting") or {}
    began, over = _number(each.get("start")), _number(each.get("end"))
    return {
        "name": each["trial"],
        "place": title(each["dataset"], each["backbone"], int(each["embedding_size"])),
        "protocol": each["protocol"],
        "loss": each["loss"],
        "role": BASELINE if each["rule"] == UNTRAINED else each["role"].replace("_", " "),
        "number": int(each["number"]),
        "replicate": int(each["replicate"]),
        "mark": "*" if each["peeks"] else CLOSED_MARK if each["rule"] == CLOSED else "",
        "score": _percent(each.get("select/best")),
        "test": _percent(each.get(TEST)),
        "epochs": _number(each.get("epochs")),
        "chosen": _number(each.get("chosen_epoch")),
        "seconds": None if began is None or over is None else round((over - began) / 1000, 1),
        "outcome": ended(dict(each)),
        "error": each.get("error") if isinstance(each.get("error"), str) else None,
        "setting": {name.removeprefix(TRAINED): _short(value) for name, value in setting.items()},
    }


def _line(trial: Mapping[str, Any], words: Mapping[str, list[str]], params: list[str]) -> list[Any]:
    """Return a trial in the order of COLUMNS; its setting as places in `params`, each with its
    value.
    """
    found = [
        words[name].index(trial[name]) if name in words else trial[name] for name in COLUMNS[:-1]
    ]
    setting = trial["setting"].items()
    return [*found, [part for name, value in setting for part in (params.index(name), value)]]


def _number(value: Any) -> float | None:
    """Return a number, whole ones without a fraction; None for what is missing."""
    if not isinstance(value, (int, float, np.number)) or not math.isfinite(value):
        return None
    return int(value) if value == int(value) else float(value)


def _percent(value: Any) -> float | None:
    number = _number(value)
    return None if number is None else round(100 * number, 2)


def _short(value: Any) -> Any:
    """Return a value of a setting; numbers in six digits."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        return value_text(value)
    return _number(float(f"{value:.6g}"))


def _affordable(
    trials: pd.DataFrame, curves: Mapping[str, pd.Series[float]]
) -> list[tuple[int, str]]:
    """Return place and name of the trials whose curves are on the page: all final trials, then
    the best of every search, until the page has its points.
    """
    if trials.empty:
        return []
    score = trials.get("select/best", pd.Series(np.nan, index=trials.index)).astype(float)
    searching = trials["role"] == "search"
    place = score.groupby([trials["cell"], trials["replicate"]]).rank(ascending=False)
    place = place.fillna(len(trials)).where(searching, 0)
    runs = list(trials["run_id"])
    kept, points = [], 0
    for number in np.argsort(place.to_numpy(), kind="stable"):
        run = str(runs[number])
        if run not in curves:
            continue
        points += min(len(curves[run]), POINTS_EACH)
        if points > POINTS and place.iloc[number]:
            break
        kept.append((int(number), run))
    return sorted(kept)


def _points(curve: pd.Series[float], scale: int = 0) -> list[Any]:
    """Return a curve's first epoch and its values, or all epochs if some are left out.

    scale: write values as whole multiples of 1/scale; 0: with four digits.
    """
    if len(curve) > POINTS_EACH:
        curve = curve.iloc[np.unique(np.linspace(0, len(curve) - 1, POINTS_EACH).astype(int))]
    epochs = [int(epoch) for epoch in curve.index]
    values = [
        None
        if not math.isfinite(value)
        else round(scale * value)
        if scale
        else float(f"{value:.4g}")
        for value in curve
    ]
    dense = len(epochs) == epochs[-1] - epochs[0] + 1
    return [epochs[0] if dense else epochs, values]
