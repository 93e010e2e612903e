"""Define what every search strategy offers, and the words for settings and spaces."""

from collections.abc import Mapping
from typing import Protocol

from search_spaces import Param, Value

Setting = dict[str, Value]
Space = Mapping[str, Param]  # flat keys: {"loss.margin": Param(...)}


class Strategy(Protocol):
    """Propose settings for one cell, the published one first.

    trials() returns how many settings it tries in all: the study's budget, or as many as its rule
    has. suggest() returns the next setting, or None while it waits for a running one to complete.
    complete() takes a setting's score, or None if there is none.
    """

    about: str

    def __init__(self, space: Space, *, first: Setting, trials: int, seed: int) -> None: ...
    @staticmethod
    def trials(space: Space, *, first: Setting, budget: int) -> int: ...
    def suggest(self, trial_id: str) -> Setting | None: ...
    def complete(self, trial_id: str, score: float | None) -> None: ...
