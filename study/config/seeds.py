"""Give every replicate seeds of its own, which no replicate of a neighbouring study has."""

from collections.abc import Sequence
from functools import cache

from study.config.keys.key_types import MOST_SEARCHES, SEED, SEEDS


def split_seed(own: int, replicate: int, *, further: int = 0) -> int:
    """Return the seed that divides the train classes in a replicate.

    own: the study's, which is the first replicate's. further: counts the splits beside a
    replicate's own on which finalists are tried again.
    """
    draw = further * MOST_SEARCHES + replicate - 1
    return _derived(own, draw) if draw else own


@cache
def first_seeds(own: int, replicates: int) -> tuple[int, ...]:
    """Return every replicate's first seed: that of its searchers and search trials.

    The first replicate has the study's own. Each has the SEEDS from there on for itself.
    """
    found = [own]
    for replicate in range(2, replicates + 1):
        again = 0
        while any(abs(_place(own, replicate, again) - other) < SEEDS for other in found):
            again += 1
        found.append(_place(own, replicate, again))
    return tuple(found)


def replicate_of(seed: int, firsts: Sequence[int]) -> int:
    """Return the replicate that has this seed; the first one also has seeds that nobody has."""
    return next((k for k, first in enumerate(firsts, start=1) if 0 <= seed - first < SEEDS), 1)


def _place(own: int, replicate: int, again: int) -> int:
    """Return a first seed after which every generator takes SEEDS more; again: counts attempts."""
    return _derived(own, replicate, again) % (SEED - SEEDS)


def _derived(*parts: int) -> int:
    """Return 64 bits that are the same on every machine."""
    import numpy as np  # here: a study of one replicate, and every help text, does without

    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0])
