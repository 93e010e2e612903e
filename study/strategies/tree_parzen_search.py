"""Propose settings by HyperOpt's tree of Parzen estimators, through Ray Tune."""

from typing import Any

from search_spaces import Choice, Range
from study.strategies.strategy import Setting, Space

# Random settings before the estimates lead, at most; 6 and 20 were slower in benchmarks/search.py.
RANDOM_START = 12


class TreeParzenSearch:
    """Propose settings near those that scored well, after a random start sized to the budget."""

    about = (
        "tree of Parzen estimators: the published setting, a random start, then near what was good"
    )

    def __init__(self, space: Space, *, first: Setting, trials: int, seed: int) -> None:
        from ray.tune.search.hyperopt import HyperOptSearch

        self.space = space
        domain = {key: _tune_domain(param.search) for key, param in space.items()}
        self.search = HyperOptSearch(
            HyperOptSearch.convert_search_space(domain),
            metric="score",
            mode="max",
            points_to_evaluate=[first],
            # HyperOpt's own start of 20 would make a search of 8 purely random.
            n_initial_points=min(RANDOM_START, max(2, trials // 3)),
            random_state_seed=seed,
        )

    @staticmethod
    def trials(space: Space, *, first: Setting, budget: int) -> int:
        return budget

    def suggest(self, trial_id: str) -> Setting:
        setting = self.search.suggest(trial_id)
        assert setting is not None
        found: Setting = {}
        for key, value in setting.items():
            domain = self.space[key].search
            found[key] = value if isinstance(domain, Choice) else domain.nearest(value)
        return found

    def complete(self, trial_id: str, score: float | None) -> None:
        result = None if score is None else {"score": score}
        self.search.on_trial_complete(trial_id, result, error=score is None)


def _tune_domain(domain: Range | Choice) -> Any:
    """Return the same domain in Tune's words; suggest() rounds whole numbers."""
    from ray import tune

    if isinstance(domain, Choice):
        return tune.choice(list(domain.options))
    if domain.log:
        return tune.loguniform(domain.low, domain.high)
    half = 0.499 if domain.integer else 0.0  # so that the ends are as likely as the rest
    return tune.uniform(domain.low - half, domain.high + half)
