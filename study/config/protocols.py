"""Divide the train classes into splits, and say by which rule a number is chosen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from random import Random
from typing import Any, ClassVar, Literal, Protocol

from search_spaces import pick
from trainables.contract import CLOSED, CLOSED_SET, PEEKING, Rule, Split, hold

Classes = Sequence[int]


class StudyProtocol(Protocol):
    """Divide classes into splits: the one hook of a protocol."""

    rule: ClassVar[Rule]  # how its numbers are chosen
    searches: ClassVar[bool]  # whether studies search settings under it
    argument: ClassVar[str | None]  # the key that a number after a colon in its name replaces

    def splits(self, train: Classes, test: Classes) -> tuple[Split, ...]: ...


@dataclass(frozen=True)
class Default:
    """Train on all train classes and choose the epoch on the test classes, as the literature does,
    to measure what that costs.
    """

    rule: ClassVar[Rule] = "best-on-test"
    searches: ClassVar[bool] = False
    argument: ClassVar[str | None] = None

    def splits(self, train: Classes, test: Classes) -> tuple[Split, ...]:
        return (Split(tuple(train), tuple(test), tuple(test)),)


@dataclass(frozen=True)
class FixedValidation:
    """Draw one class-disjoint split of the train classes from a seed; the test classes stay sealed
    until the end.
    """

    val_fraction: float
    split_seed: int
    rule: ClassVar[Rule] = "selected-on-validation"
    searches: ClassVar[bool] = True
    argument: ClassVar[str | None] = "val_fraction"

    def splits(self, train: Classes, test: Classes) -> tuple[Split, ...]:
        if not 0 < self.val_fraction < 1:
            raise ValueError(
                f"fixed_validation holds out a share of the classes between 0 and 1, but got "
                f"{self.val_fraction:g}; use 0.1."
            )
        held = max(2, round(self.val_fraction * len(train)))  # one class alone has no negatives
        if held > len(train) - 2:
            cure = "add classes" if len(train) < 4 else f"choose {1 - 2 / len(train):g} or less"
            raise ValueError(
                f"val_fraction={self.val_fraction:g} holds out {held} of {len(train)} train "
                f"classes, but two must be left to train on; "
                f"{cure}."
            )
        return (_without(train, Random(self.split_seed).sample(sorted(train), held), test),)


@dataclass(frozen=True)
class KFold:
    """Divide the train classes into k disjoint folds in one trial; each class is held out exactly
    once, by one of k models.
    """

    folds: int
    fold_order: Literal["shuffled", "consecutive"]
    split_seed: int
    rule: ClassVar[Rule] = "selected-on-validation"
    searches: ClassVar[bool] = True
    argument: ClassVar[str | None] = "folds"

    def splits(self, train: Classes, test: Classes) -> tuple[Split, ...]:
        if self.folds < 2 or 2 * self.folds > len(train) or len(train) < 4:
            cure = (
                f"use {len(train) // 2} or fewer"
                if len(train) >= 4 and self.folds >= 2
                else "use two or more, of four classes or more"
            )
            raise ValueError(
                f"Each of {self.folds} folds holds out two classes at least, but there are "
                f"{len(train)} train classes; {cure}."
            )
        order = sorted(train)
        if self.fold_order == "shuffled":
            Random(self.split_seed).shuffle(order)
        ends = [round(i * len(order) / self.folds) for i in range(self.folds + 1)]
        return tuple(_without(train, order[a:b], test) for a, b in pairwise(ends))


@dataclass(frozen=True)
class ClosedSet:
    """Train on a part of every class's images and test the others at the last epoch: train and test
    share classes, so no number of it compares with those of the other protocols.
    """

    train_share: float
    rule: ClassVar[Rule] = CLOSED
    searches: ClassVar[bool] = False
    argument: ClassVar[str | None] = "train_share"

    def splits(self, train: Classes, test: Classes) -> tuple[Split, ...]:
        if not 0 < self.train_share < 1:
            raise ValueError(
                f"closed_set trains on a share of each class's images between 0 and 1, but got "
                f"{self.train_share:g}; use 0.5."
            )
        return (Split(tuple(train), (), tuple(test)),)


def _without(train: Classes, held: Classes, test: Classes) -> Split:
    out = set(held)
    return Split(tuple(c for c in train if c not in out), tuple(sorted(out)), tuple(test))


AnyProtocol = type[Default] | type[FixedValidation] | type[KFold] | type[ClosedSet]
PROTOCOLS: dict[str, AnyProtocol] = {
    "default": Default,
    "fixed_validation": FixedValidation,
    "k_fold": KFold,
    CLOSED_SET: ClosedSet,
}


def find_protocol(name: str) -> AnyProtocol:
    """Return a protocol by its name, with or without what follows a colon."""
    return pick(PROTOCOLS, name.partition(":")[0], "protocol")


def make_protocol(name: str, keys: Mapping[str, Any]) -> StudyProtocol:
    """Return a protocol with the study's keys; a name like k_fold:4 replaces one of them."""
    kind = find_protocol(name)
    values = {field.name: keys[field.name] for field in fields(kind)}
    argument = name.partition(":")[2]
    if argument:
        if kind.argument is None:
            raise ValueError(
                f"{name.partition(':')[0]} takes no number, but got {name}; leave out what follows "
                f"the colon."
            )
        number = type(values[kind.argument])
        try:
            values[kind.argument] = number(argument)
        except ValueError:
            raise ValueError(
                f"{name}: what follows the colon is {kind.argument}, a number; write "
                f"{name.partition(':')[0]}:{values[kind.argument]}."
            ) from None
    return kind(**values)


def check_splits(splits: Sequence[Split], train: Classes, test: Classes, *, rule: Rule) -> None:
    """Raise LawError unless classes are disjoint, every side has two, the test classes are the
    official ones, and each train class is held out once.

    rule: how the numbers are chosen; only a protocol that peeks may select on test classes, and
    only the closed set, whose test images count as classes of their own, selects on nothing.
    """
    for split in splits:
        hold(
            not set(split.train) & (set(split.select) | set(split.test)), "no class is on two sides"
        )
        other = split.test if rule == CLOSED and not split.select else split.select
        hold(min(len(set(split.train)), len(set(other))) >= 2, "two classes on every side")
        hold(set(split.test) == set(test), "all splits have the official test classes")
        hold(set(split.train) <= set(train), "only train classes are trained on")
        if rule != PEEKING:
            hold(not set(split.select) & set(test), "who selects on test classes peeks")
            hold(set(split.train) | set(split.select) == set(train), "no train class is lost")
    if len(splits) > 1:
        held = [c for split in splits for c in split.select]
        hold(sorted(held) == sorted(train), "each train class is held out exactly once")
