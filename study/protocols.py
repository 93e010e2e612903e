"""Protocols: how the train classes become splits, and by which rule a number was then chosen."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar, Protocol

from trainables.contract import Rule, Split

Classes = Sequence[int]


class Divides(Protocol):
    """The one hook of a protocol, the rule its numbers carry, and whether settings may be searched under it."""

    rule: ClassVar[Rule]
    searches: ClassVar[bool]

    def splits(self, train: Classes, test: Classes) -> tuple[Split, ...]: ...


@dataclass(frozen=True)
class Default:
    """Train on all train classes, choose the epoch on the test classes: the literature's habit, kept to measure its cost."""

    rule: ClassVar[Rule] = "best-on-test"
    searches: ClassVar[bool] = False

    def splits(self, train: Classes, test: Classes) -> tuple[Split, ...]:
        return (Split(tuple(train), tuple(test), tuple(test)),)


@dataclass(frozen=True)
class FixedValidation:
    """One class-disjoint split of the train classes, drawn once from a seed; the test classes stay sealed until the end."""

    val_fraction: float
    split_seed: int
    rule: ClassVar[Rule] = "selected-on-validation"
    searches: ClassVar[bool] = True

    def splits(self, train: Classes, test: Classes) -> tuple[Split, ...]:
        held = max(2, round(self.val_fraction * len(train)))  # one class alone has no negatives
        if held > len(train) - 2:
            cure = "add classes" if len(train) < 4 else f"choose {1 - 2 / len(train):g} or less"
            raise ValueError(
                f"val_fraction={self.val_fraction:g} holds out {held} of {len(train)} train classes, but two must be left to train on; "
                f"{cure}."
            )
        chosen = set(Random(self.split_seed).sample(sorted(train), held))
        rest = tuple(c for c in train if c not in chosen)
        return (Split(rest, tuple(sorted(chosen)), tuple(test)),)


PROTOCOLS: dict[str, type[Default] | type[FixedValidation]] = {
    "default": Default,
    "fixed_validation": FixedValidation,
}
