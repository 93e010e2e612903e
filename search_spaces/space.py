"""Define the parts of a search space: Grid, Range, Choice, Param, LossSpace; pick() by name."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Literal, TypeVar

T = TypeVar("T")

LossKind = Literal["pair", "triplet", "proxy", "classification"]
BatchKind = Literal["balanced", "random", "triplets", "mined"]
# What a loss compares a pair's similarity with (thesis table 1).
Similarity = Literal["self", "positive", "negative"]
# The value of a parameter. Whole numbers are floats here and ints where a loss needs them.
Value = float | str | bool
REALITY_ON = ("cub200", "cars196", "sop")  # datasets that the reality check has optima for
LEVELS = 5  # of a range that no source has a grid for


@dataclass(frozen=True)
class Grid:
    """Hold evenly spaced values, both ends included, as the thesis sweeps them."""

    low: float
    high: float
    step: float

    def __post_init__(self) -> None:
        if not (self.low < self.high and self.step > 0):
            raise ValueError(
                f"A grid needs low < high and step > 0, but got ({self.low}, {self.high}, "
                f"{self.step})."
            )

    def values(self) -> tuple[float, ...]:
        """Return all values, from low to high."""
        count = math.floor((self.high - self.low) / self.step + 1e-9)
        return tuple(round(self.low + i * self.step, 12) for i in range(count + 1))


@dataclass(frozen=True)
class Range:
    """Hold a closed interval."""

    low: float
    high: float
    log: bool = False  # searched by order of magnitude
    integer: bool = False  # searched in whole numbers

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"A range needs low < high, but got ({self.low}, {self.high}).")
        if self.log and self.low <= 0:
            raise ValueError(f"A log range starts above 0, but got low={self.low}.")

    def __contains__(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        return self.low <= value <= self.high and (not self.integer or value == int(value))

    def __str__(self) -> str:
        return (
            f"{self.low:g} to {self.high:g}"
            + (", log" if self.log else "")
            + (", whole numbers" if self.integer else "")
        )

    def ends(self) -> tuple[Value, Value]:
        """Return the lowest and the highest value."""
        return self.low, self.high

    def position(self, value: float) -> float:
        """Return 0 for the low end, 1 for the high end; log ranges count orders of magnitude."""
        scale = math.log if self.log else float
        return (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low))

    def levels(self) -> tuple[Value, ...]:
        """Return LEVELS values from end to end, evenly spaced by position()."""
        shares = [i / (LEVELS - 1) for i in range(1, LEVELS - 1)]
        inner = [
            self.low * (self.high / self.low) ** x
            if self.log
            else self.low + x * (self.high - self.low)
            for x in shares
        ]
        rounded = [self.nearest(float(f"{value:.6g}")) for value in inner]  # no rounding noise
        return tuple(dict.fromkeys([self.low, *rounded, self.high]))

    def nearest(self, value: object) -> Value:
        """Return the valid value that is nearest to this one."""
        number = float(value) if isinstance(value, (int, float)) else self.low
        return min(max(float(round(number)) if self.integer else number, self.low), self.high)


@dataclass(frozen=True)
class Choice:
    """Hold a few named values, without an order."""

    options: tuple[Value, ...]
    own: bool = False  # or a function of the user's own, as package.module:NAME

    def __post_init__(self) -> None:
        if len(set(self.options)) < 2:
            raise ValueError(f"A choice needs two options or more, but got {self.options}.")

    def __contains__(self, value: object) -> bool:
        if self.own and isinstance(value, str) and re.fullmatch(r"[\w.]+:\w+", value):
            return True
        return any(value == option and type(value) is type(option) for option in self.options)

    def __str__(self) -> str:
        return " or ".join([*map(str, self.options), *["package.module:NAME"] * self.own])

    def ends(self) -> tuple[Value, Value]:
        """Return the first and the last option."""
        return self.options[0], self.options[-1]

    def levels(self) -> tuple[Value, ...]:
        """Return all options."""
        return self.options

    def nearest(self, value: object) -> Value:
        """Return the option that is spelt most like this value."""
        names = [str(option) for option in self.options]
        (near,) = get_close_matches(str(value), names, n=1, cutoff=0)
        return self.options[names.index(near)]


@dataclass(frozen=True)
class Param:
    """Hold one tunable number of a loss: every source's value beside our ranges."""

    paper: Value  # the original paper's
    search: Range | Choice  # what our searchers try
    domain: Range | Choice  # what the loss is defined for
    code: Value | None = None  # the released code's, where it differs
    thesis: Value | None = None  # table 4
    found: Value | None = None  # the optimum of the thesis's table 15
    reality: tuple[Value | None, ...] = ()  # the reality check's optima, by REALITY_ON
    grid: Grid | None = None  # the values of the thesis's sweep
    inverse: bool = False  # the thesis prints 1 / our value: in thesis, found and grid
    unit: str = ""
    note: str = ""
    only: tuple[Value, ...] = ()  # the levels that a study keeps; empty: all

    def __post_init__(self) -> None:
        if any(end not in self.domain for end in self.search.ends()):
            raise ValueError(f"The search range must lie in the domain: {self}")
        if any(value not in self.search for value in self.levels()):
            raise ValueError(f"The grid must lie in the search range: {self}")
        if self.note:
            return
        if any(value not in self.search for _, value in self.cited()):
            raise ValueError(
                f"Every cited value must lie in the search range, or note= must say why: {self}"
            )
        if self.found is not None and self.grid and self.found not in self.grid.values():
            raise ValueError(
                f"found={self.found} is not on its own grid {self.grid}; say so in note=."
            )

    def levels(self) -> tuple[Value, ...]:
        """Return the values of the thesis's grid, else the options or a few levels of the range."""
        if self.only:
            return self.only
        return tuple(map(self.ours, self.grid.values())) if self.grid else self.search.levels()

    def ours(self, printed: Value) -> Value:
        """Return a value that the thesis prints as our loss takes it."""
        return round(1 / float(printed), 12) if self.inverse else printed

    def thinned(self, count: int) -> "Param":
        """Return the parameter with at most this many levels: both ends, and evenly between."""
        levels = self.levels()
        if count >= len(levels):
            return self
        chosen = [round(i * (len(levels) - 1) / (count - 1)) for i in range(count)]
        return replace(self, only=tuple(levels[i] for i in chosen))

    def held(self, value: Value) -> "Param":
        """Return the parameter with one level only, so that it is not swept."""
        return replace(self, only=(value,))

    def cited(self) -> Iterator[tuple[str, Value]]:
        """Yield (source, value) for every source that gives a value."""
        for source in ("paper", "code", "thesis", "found"):
            value = getattr(self, source)
            if value is not None:
                yield source, value
        for dataset, value in self.optima().items():
            yield f"reality {dataset}", value

    def optima(self) -> dict[str, Value]:
        """Return the reality check's optimum by dataset, where it prints one."""
        found = zip(REALITY_ON, self.reality, strict=False)
        return {dataset: value for dataset, value in found if value is not None}


@dataclass(frozen=True)
class Claim:
    """Hold a Recall@1 that a loss's authors report, and where it is printed; in percent."""

    dataset: str
    backbone: str
    size: int
    recall_at_1: float
    source: str


@dataclass(frozen=True)
class LossSpace:
    """Hold a loss's card: what it is, what its sources say, and what may vary."""

    cite: str
    year: int
    kind: LossKind
    batches: BatchKind
    about: str
    params: Mapping[str, Param]
    similarities: tuple[Similarity, ...] = ()  # thesis table 1; empty: not in it
    mining: str = "none"  # or which tuples of the batch count
    reduction: str = ""  # over what the mean (or sum) goes
    network: str = ""  # of its paper (thesis table 2); empty: not printed there
    size: int | None = None  # of the embeddings in its paper
    normalize: bool = True  # whether the raw vector is normalised before the loss
    per_class: int | None = None  # images per class that the loss is defined for; None: the study's
    couples: bool = True  # whether the loss of one sample depends on the other samples of the batch
    memory: bool = False  # whether it can see embeddings of earlier batches
    unlabelled: bool = False  # whether images without a label can count in it
    class_weights: bool = False  # whether it has weights of each class, though it has no proxies
    decay: bool = False  # whether weight decay applies to the loss's own weights
    note: str = ""
    claims: tuple[Claim, ...] = ()  # of its paper or released code; only what we can cite
    defaults: dict[str, Value] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "defaults", {name: param.paper for name, param in self.params.items()}
        )

    @property
    def has_class_weights(self) -> bool:
        """Return whether the loss learns something of every train class."""
        return self.class_weights or self.kind in ("proxy", "classification")


def value_text(value: Value) -> str:
    """Return a value as people write it."""
    return str(value) if isinstance(value, (bool, str)) else f"{value:.4g}"


def pick(table: Mapping[str, T], name: str, what: str) -> T:
    """Return table[name], or raise ValueError with the nearest name and all known ones."""
    if name in table:
        return table[name]
    raise ValueError(
        f"Unknown {what} '{name}'.{near_name(table, name)} Known: {', '.join(sorted(table))}."
    )


def near_name(known: Iterable[str], name: str) -> str:
    """Return a question behind a sentence: whether the nearest known name was meant, if any."""
    near = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean '{near[0]}'?" if near else ""
