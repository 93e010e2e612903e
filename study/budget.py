"""How long a search is: the epochs and rungs of a search trial, and the laws between the keys that say so."""

from itertools import pairwise

from search_spaces import pick, text
from search_spaces.training import TRAINING
from study.keys import Keys
from study.protocols import find_protocol
from trainables.contract import PUBLISHED


def search_epochs(keys: Keys) -> int:
    """Of a search trial that is not stopped."""
    return keys.search_epochs or keys.epochs


def rungs(keys: Keys) -> list[int]:
    """Epochs at which early stopping may end a search trial."""
    count = 0
    while keys.grace * keys.reduction**count < search_epochs(keys):
        count += 1
    return [keys.grace * keys.reduction**i for i in range(count)]


def expected_epochs(keys: Keys, trial: str = "") -> float:
    """Of one search trial, if at every rung one in `reduction` goes on; the published setting is never stopped."""
    if trial == PUBLISHED:
        return search_epochs(keys)
    stops = [*rungs(keys), search_epochs(keys)]
    return stops[0] + sum((b - a) / float(keys.reduction ** (i + 1)) for i, (a, b) in enumerate(pairwise(stops)))


def expected_search(keys: Keys, trials: int) -> float:
    """Epochs of the whole search of a cell."""
    return expected_epochs(keys, PUBLISHED) + (trials - 1) * expected_epochs(keys) if trials else 0


def check_search(keys: Keys) -> None:
    """A ValueError says law, fact and cure."""
    _check_training(keys)
    if keys.search_epochs and keys.search_epochs > keys.epochs:
        raise ValueError(f"search_epochs={keys.search_epochs} must not be above epochs={keys.epochs}; use {keys.epochs} or less.")
    if keys.strategy == "fixed" or not (keys.peek_search or any(find_protocol(name).searches for name in keys.protocols)):
        return
    if search_epochs(keys) <= keys.warm_up:
        raise ValueError(
            f"A search trial must outlast the warm-up, but search_epochs={keys.search_epochs} and warm_up={keys.warm_up}; "
            f"use search_epochs={keys.warm_up + 1} or more."
        )
    if keys.grace <= keys.warm_up:
        raise ValueError(
            f"Early stopping must not judge a trial before its backbone has learned, but grace={keys.grace} is not above "
            f"warm_up={keys.warm_up}; use grace={keys.warm_up + 1} or more."
        )
    if keys.search_epochs and keys.grace > keys.search_epochs:
        raise ValueError(
            f"grace={keys.grace} must not be above search_epochs={keys.search_epochs}; "
            f"use {keys.search_epochs}, with which nothing is stopped, or less."
        )


def _check_training(keys: Keys) -> None:
    for name in keys.search_training:
        domain, start = pick(TRAINING, name, "name in search_training").search, getattr(keys, name)
        if keys.strategy == "fixed":
            raise ValueError(f"search_training={name} needs a search, but strategy=fixed has none; choose another, or leave it out.")
        if start not in domain:
            begins = "has no value to start at" if start is None else f"would start at {text(start)}"
            near = TRAINING[name].paper if start is None else domain.nearest(start)
            raise ValueError(f"{name} is searched in {domain}, but {begins}; set {name}={text(near)}, or leave it out of search_training.")
