"""What a search was worth: the expected best score by number of trials, tunability, and the importance of each hyperparameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from analysis.statistics.bootstrap import Floats
from search_spaces import Choice, Range, Value

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

NEAR = 0.01  # one point
FEWEST = 4  # trials from which an importance is told


def expected_best(scores: Sequence[float]) -> Floats:
    """Of 1, 2, ..., n trials drawn from these without replacement, the expected best: every order of the search averaged.

    Dodge et al. 2019 draw with replacement; without it the estimate is unbiased and ends at the best score (Tang et al. 2020).
    """
    falling = np.sort(np.asarray(scores, dtype=float))[::-1]
    n = len(falling)
    below = np.arange(n - 1, 0, -1)  # how many are smaller than the first, second, ...
    found = np.empty(n)
    for k in range(1, n + 1):
        # P(the largest of k is the i-th smallest) = C(i - 1, k - 1) / C(n, k), as a running product from the top.
        weights = np.cumprod(np.append(k / n, 1 - (k - 1) / below[: n - k]))
        found[k - 1] = weights @ falling[: n - k + 1]
    return found


def tunability(scores: Sequence[float], near: float = NEAR) -> float:
    """The share of settings within a point of the best; NaN without any."""
    values = np.asarray(scores, dtype=float)
    return float((values >= values.max() - near - 1e-12).mean()) if len(values) else float("nan")


def importance(
    settings: Sequence[Mapping[str, Value]], scores: Sequence[float], space: Mapping[str, Range | Choice], *, seed: int = 0
) -> dict[str, float]:
    """The share of the score's variance that each hyperparameter explains (fANOVA), largest first; they add up to 1.

    space: what a parameter may be; one that is not there takes the range of its values. Empty: too few trials, or scores that do
    not vary.
    """
    import optuna

    names = [name for name in dict.fromkeys(key for setting in settings for key in setting) if len({s.get(name) for s in settings}) > 1]
    if len(settings) < FEWEST or not names or len(set(scores)) < 2:
        return {}
    kinds = {name: _distribution(space.get(name), [setting[name] for setting in settings if name in setting]) for name in names}
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize")
    for setting, score in zip(settings, scores, strict=True):
        if all(name in setting and _fits(kinds[name], setting[name]) for name in names):
            params = {name: setting[name] for name in names}
            study.add_trial(optuna.trial.create_trial(params=params, distributions=kinds, value=float(score)))
    if len(study.trials) < FEWEST:
        return {}
    found = optuna.importance.get_param_importances(study, evaluator=optuna.importance.FanovaImportanceEvaluator(seed=seed))
    return {name: float(share) for name, share in found.items()}


def _distribution(space: Range | Choice | None, values: Sequence[Value]) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    numbers = [float(value) for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if isinstance(space, Choice) or len(numbers) < len(values):
        options = space.options if isinstance(space, Choice) else tuple(dict.fromkeys(values))
        return CategoricalDistribution(options)
    low, high = (space.low, space.high) if isinstance(space, Range) else (min(numbers), max(numbers))
    return FloatDistribution(min(low, *numbers), max(high, *numbers), log=isinstance(space, Range) and space.log and min(numbers) > 0)


def _fits(kind: BaseDistribution, value: Value) -> bool:
    return bool(kind._contains(kind.to_internal_repr(value)))
