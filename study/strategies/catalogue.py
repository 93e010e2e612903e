"""List the search strategies, by the name that the key `strategy` takes."""

from study.strategies.coordinate_sweep import CoordinateSweep
from study.strategies.grid_search import GridSearch
from study.strategies.published_only import PublishedOnly
from study.strategies.random_search import RandomSearch
from study.strategies.strategy import Strategy
from study.strategies.tree_parzen_search import TreeParzenSearch

STRATEGIES: dict[str, type[Strategy]] = {
    "hyperopt": TreeParzenSearch,
    "random": RandomSearch,
    "grid": GridSearch,
    "coordinate": CoordinateSweep,
    "fixed": PublishedOnly,
}
