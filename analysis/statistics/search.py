"""Measure what a search was worth: the best so far, tunability, hyperparameter importance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from warnings import catch_warnings

import numpy as np

from analysis.statistics.sample import Floats
from search_spaces import Choice, Range, Value

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

NEAR = 0.01  # one point
FEWEST_TRIALS = 4  # that give an importance
ROUNDING = 1e-12  # scores that differ by less are equal


def best_so_far(scores: Sequence[float]) -> Floats:
    """Return the best score after 1, 2, ..., n trials in the order in which they ran.

    A trial without a score counts, but changes nothing; NaN before the first score.
    """
    return np.asarray(np.fmax.accumulate(np.asarray(scores, dtype=float)))


def best_within(scores: Sequence[float], epochs: Sequence[int], budget: int) -> float:
    """Return the best score of the first trials that ran at most `budget` epochs together.

    NaN if the first trial alone ran more.
    """
    fits = int((np.cumsum(epochs) <= budget).sum())
    return float(best_so_far(scores)[fits - 1]) if fits else float("nan")


def tunability(scores: Sequence[float], near: float = NEAR) -> float:
    """Return the share of settings within a point of the best; NaN without any."""
    values = np.asarray(scores, dtype=float)
    return float((values >= values.max() - near - 1e-12).mean()) if len(values) else float("nan")


def importance(
    settings: Sequence[Mapping[str, Value]],
    scores: Sequence[float],
    space: Mapping[str, Range | Choice],
    *,
    seed: int = 0,
) -> dict[str, float]:
    """Return the share of the score's variance that each hyperparameter explains (fANOVA).

    The shares add up to 1, largest first; there are none with too few trials, with constant
    scores, or where no parameter explains any of them.
    space: what a parameter may be; one that is not there takes the range of its values.
    """
    with catch_warnings(action="ignore"):  # tqdm misses its widgets in a notebook
        import optuna

    names = [
        name
        for name in dict.fromkeys(key for setting in settings for key in setting)
        if len({s.get(name) for s in settings}) > 1
    ]
    if len(settings) < FEWEST_TRIALS or not names or np.ptp(scores) < ROUNDING:
        return {}
    distributions = {
        name: _distribution(
            space.get(name), [setting[name] for setting in settings if name in setting]
        )
        for name in names
    }
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize")
    for setting, score in zip(settings, scores, strict=True):
        if all(name in setting and _fits(distributions[name], setting[name]) for name in names):
            params = {name: setting[name] for name in names}
            study.add_trial(
                optuna.trial.create_trial(
                    params=params, distributions=distributions, value=float(score)
                )
            )
    if len(study.trials) < FEWEST_TRIALS:
        return {}
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=seed)
    try:
        found = optuna.importance.get_param_importances(study, evaluator=evaluator)
    except RuntimeError:  # no tree of fANOVA found anything to split by
        return {}
    return {name: float(share) for name, share in found.items()}


def _distribution(space: Range | Choice | None, values: Sequence[Value]) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    numbers = [
        float(value)
        for value in values
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]
    if isinstance(space, Choice) or len(numbers) < len(values):
        options = space.options if isinstance(space, Choice) else tuple(dict.fromkeys(values))
        return CategoricalDistribution(options)
    low, high = (
        (space.low, space.high) if isinstance(space, Range) else (min(numbers), max(numbers))
    )
    return FloatDistribution(
        min(low, *numbers),
        max(high, *numbers),
        log=isinstance(space, Range) and space.log and min(numbers) > 0,
    )


def _fits(distribution: BaseDistribution, value: Value) -> bool:
    return bool(distribution._contains(distribution.to_internal_repr(value)))
