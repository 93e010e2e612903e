"""Compute the epochs and rungs of a search trial, and check the keys that set them."""

from itertools import pairwise
from math import ceil

from search_spaces import pick, value_text
from search_spaces.training import TRAINING
from study.config.keys.keys import Keys
from study.config.protocols import FixedValidation, find_protocol

FEWEST_TO_RACE = 16  # search trials; with fewer, further splits cost more than they tell


def search_epochs(keys: Keys) -> int:
    """Return the epochs of a search trial that is not stopped."""
    return keys.search_epochs or keys.epochs


def grace(keys: Keys) -> int:
    """Return the epochs before early stopping may end a search trial: by default a quarter of its
    epochs, and at least one after the longest warm-up of any cell.
    """
    warm_up = max(keys.warm_up, *(entry.get("warm_up", 0) for entry in keys.where), 0)
    return keys.grace or max(ceil(search_epochs(keys) / 4), warm_up + 1)


def rungs(keys: Keys) -> list[int]:
    """Return the epochs at which early stopping may end a search trial."""
    first, count = grace(keys), 0
    while first * keys.reduction**count < search_epochs(keys):
        count += 1
    return [first * keys.reduction**i for i in range(count)]


def finalists(keys: Keys, protocol: str, trials: int) -> int:
    """Return how many settings of a search with this many trials are tried again.

    None where there is no other split to try them on, or no choice between two of them.
    """
    fixed = keys.split_file is not None or find_protocol(protocol) is not FixedValidation
    if fixed or trials < FEWEST_TO_RACE or keys.finalists < 2 or not keys.finalist_splits:
        return 0
    return min(keys.finalists, trials)


def expected_epochs(keys: Keys, *, runs_to_the_end: bool = False) -> float:
    """Return the epochs of one search trial if one in `reduction` continues at every rung.

    runs_to_the_end: it tries the published setting or is a finalist, which nothing stops.
    """
    if runs_to_the_end:
        return search_epochs(keys)
    stops = [*rungs(keys), search_epochs(keys)]
    return stops[0] + sum(
        (b - a) / float(keys.reduction ** (i + 1)) for i, (a, b) in enumerate(pairwise(stops))
    )


def expected_search(keys: Keys, trials: int, *, races: int = 0) -> float:
    """Return the expected epochs of one search of a cell. races: how often a finalist is tried."""
    whole = expected_epochs(keys, runs_to_the_end=True)
    return (1 + races) * whole + (trials - 1) * expected_epochs(keys) if trials else 0


def check_search(keys: Keys) -> None:
    """Raise ValueError if the keys of the search contradict each other."""
    _check_training(keys)
    if keys.search_epochs and keys.search_epochs > keys.epochs:
        raise ValueError(
            f"search_epochs={keys.search_epochs} must not be above epochs={keys.epochs}; use "
            f"{keys.epochs} or less."
        )
    if keys.strategy == "fixed" or not (
        keys.peek_search or any(find_protocol(name).searches for name in keys.protocols)
    ):
        return
    if search_epochs(keys) <= keys.warm_up:
        raise ValueError(
            f"A search trial must outlast the warm-up, but search_epochs={keys.search_epochs} and "
            f"warm_up={keys.warm_up}; "
            f"use search_epochs={keys.warm_up + 1} or more."
        )
    if grace(keys) <= keys.warm_up:
        raise ValueError(
            f"Early stopping must not judge a trial before its backbone has learned, but "
            f"grace={grace(keys)} is not above "
            f"warm_up={keys.warm_up}; use grace={keys.warm_up + 1} or more."
        )
    if keys.search_epochs and grace(keys) > keys.search_epochs:
        raise ValueError(
            f"grace={grace(keys)} must not be above search_epochs={keys.search_epochs}; "
            f"use {keys.search_epochs} (which stops nothing) or less."
        )


def _check_training(keys: Keys) -> None:
    for name in keys.search_training:
        domain, start = pick(TRAINING, name, "name in search_training").search, getattr(keys, name)
        if keys.strategy == "fixed":
            raise ValueError(
                f"search_training={name} needs a search, but strategy=fixed has none; choose "
                f"another strategy, or leave it out."
            )
        if start not in domain:
            begins = (
                "has no value to start at"
                if start is None
                else f"would start at {value_text(start)}"
            )
            near = TRAINING[name].paper if start is None else domain.nearest(start)
            raise ValueError(
                f"{name} is searched in {domain}, but {begins}; set {name}={value_text(near)}, or "
                f"leave it out of search_training."
            )
