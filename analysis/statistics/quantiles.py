"""Find quantiles of Student's t and of the studentized range, for any degrees of freedom."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from analysis.statistics.sample import Floats

LEVEL = 0.95
NODES = (1, 1.5, 2, 3, 5, 10, 30, np.inf)  # degrees of freedom at which it is computed
# Points of the two integrals behind the studentized range: both integrands vanish at their ends.
VALUES, LOGS = np.arange(-8, 8.05, 0.1), np.arange(-16, 2.5, 0.08)


def range_quantile(groups: int, df: Floats, level: float = LEVEL) -> Floats:
    """Return the quantile of the studentized range of some means; 2 give sqrt(2) times Student's t.

    Its logarithm is interpolated between a few degrees of freedom, in 1 / df: the error is below
    0.03 %.
    """
    from scipy.stats import t

    if groups <= 2:
        return np.asarray(np.sqrt(2) * t.ppf((1 + level) / 2, df))
    inverse = 1 / np.maximum(df, NODES[0])
    return np.asarray(np.exp(_curve(groups, level)(inverse)))


@cache
def _curve(groups: int, level: float) -> Callable[[Floats], Floats]:
    from scipy.interpolate import CubicSpline

    inverse = [1 / df for df in reversed(NODES)]
    return CubicSpline(inverse, [_log_quantile(groups, df, level) for df in reversed(NODES)])


def _log_quantile(groups: int, df: float, level: float) -> float:
    """Return the logarithm of the quantile; SciPy's own takes a hundred times as long."""
    from scipy.optimize import brentq

    return float(brentq(lambda log: _below(np.exp(log), groups, df) - level, -3, 12, xtol=1e-10))


def _below(quantile: float, groups: int, df: float) -> float:
    """Return the probability of a studentized range below the quantile."""
    from scipy.special import gammaln

    if np.isinf(df):
        return float(_range_below(np.array([quantile]), groups)[0])
    # The deviation that is divided by, as its logarithm: sqrt(chi-square / df).
    spread = np.exp(LOGS)
    log_density = df * (LOGS - spread**2 / 2) + df / 2 * np.log(df / 2) - gammaln(df / 2)
    density = 2 * np.exp(log_density)
    return float(density @ _range_below(quantile * spread, groups) * (LOGS[1] - LOGS[0]))


def _range_below(width: Floats, groups: int) -> Floats:
    """Return the probability that some standard normal numbers lie within each width."""
    from scipy.special import ndtr

    density = np.exp(-(VALUES**2) / 2) / np.sqrt(2 * np.pi)
    inside = ndtr(VALUES) - ndtr(VALUES - width[:, None])  # all others, if this is the largest
    return np.asarray(groups * inside ** (groups - 1) @ density * (VALUES[1] - VALUES[0]))


def student(values: Floats, level: float = LEVEL) -> tuple[float, float] | None:
    """Return the interval of the mean of a few values by Student's t; None if there is one."""
    from scipy.stats import t

    if len(values) < 2:
        return None
    reach = t.ppf((1 + level) / 2, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean() - reach), float(values.mean() + reach)
