"""The words of a search space: Grid, Range, Choice, Param, LossSpace, and pick() with the near name."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Literal, TypeVar

T = TypeVar("T")

Kind = Literal["pair", "triplet", "proxy", "classification"]
BatchKind = Literal["balanced", "random", "triplets", "mined"]
Similarity = Literal["self", "positive", "negative"]  # what a loss compares a pair's similarity with (thesis table 1)
Value = float | str | bool  # of a parameter; whole numbers are floats here and ints where a loss needs them
LEVELS = 5  # of a range that no source has a grid for


@dataclass(frozen=True)
class Grid:
    """Evenly spaced values, both ends included: how the thesis sweeps."""

    low: float
    high: float
    step: float

    def __post_init__(self) -> None:
        if not (self.low < self.high and self.step > 0):
            raise ValueError(f"A grid needs low < high and step > 0, but got ({self.low}, {self.high}, {self.step}).")

    def values(self) -> tuple[float, ...]:
        count = math.floor((self.high - self.low) / self.step + 1e-9)
        return tuple(round(self.low + i * self.step, 12) for i in range(count + 1))


@dataclass(frozen=True)
class Range:
    """A closed interval; log=True is searched by order of magnitude, integer=True in whole numbers."""

    low: float
    high: float
    log: bool = False
    integer: bool = False

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
        return f"{self.low:g} to {self.high:g}" + (", log" if self.log else "") + (", whole numbers" if self.integer else "")

    def ends(self) -> tuple[Value, Value]:
        return self.low, self.high

    def place(self, value: float) -> float:
        """Where a value lies, from 0 at the low end to 1 at the high end; log ranges by order of magnitude."""
        scale = math.log if self.log else float
        return (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low))

    def levels(self) -> tuple[Value, ...]:
        """A few values from end to end, evenly spaced as place() has it."""
        shares = [i / (LEVELS - 1) for i in range(1, LEVELS - 1)]
        inner = [self.low * (self.high / self.low) ** x if self.log else self.low + x * (self.high - self.low) for x in shares]
        rounded = [self.nearest(float(f"{value:.6g}")) for value in inner]  # no binary dust
        return tuple(dict.fromkeys([self.low, *rounded, self.high]))

    def nearest(self, value: object) -> Value:
        """The valid value that is meant, as far as one can tell."""
        number = float(value) if isinstance(value, (int, float)) else self.low
        return min(max(float(round(number)) if self.integer else number, self.low), self.high)


@dataclass(frozen=True)
class Choice:
    """A few named values, without an order."""

    options: tuple[Value, ...]

    def __post_init__(self) -> None:
        if len(set(self.options)) < 2:
            raise ValueError(f"A choice needs two options or more, but got {self.options}.")

    def __contains__(self, value: object) -> bool:
        return any(value == option and type(value) is type(option) for option in self.options)

    def __str__(self) -> str:
        return " or ".join(str(option) for option in self.options)

    def ends(self) -> tuple[Value, Value]:
        return self.options[0], self.options[-1]

    def levels(self) -> tuple[Value, ...]:
        return self.options

    def nearest(self, value: object) -> Value:
        near = get_close_matches(str(value), [str(option) for option in self.options], n=1, cutoff=0)
        return next(option for option in self.options if str(option) == near[0])


@dataclass(frozen=True)
class Param:
    """One tunable number of a loss: every source's value beside ours.

    paper: the original paper; code: its released code where that differs; thesis: table 4; found: the
    optimum of table 15; reality: the reality check's optimum on CUB. search: what our searchers try;
    domain: what the loss is defined for.
    """

    paper: Value
    search: Range | Choice
    domain: Range | Choice
    code: Value | None = None
    thesis: Value | None = None
    found: Value | None = None
    reality: Value | None = None
    grid: Grid | None = None
    inverse: bool = False  # the thesis prints 1 / our value: in thesis, found and grid
    unit: str = ""
    note: str = ""
    only: tuple[Value, ...] = ()  # the levels that a study has left of it; empty: all

    def __post_init__(self) -> None:
        if any(end not in self.domain for end in self.search.ends()):
            raise ValueError(f"The search range lies in the domain: {self}")
        if any(value not in self.search for value in self.levels()):
            raise ValueError(f"The grid lies in the search range: {self}")
        if self.note:
            return
        if any(value not in self.search for _, value in self.cited()):
            raise ValueError(f"Every cited value lies in the search range, or note= says why: {self}")
        if self.found is not None and self.grid is not None and self.found not in self.grid.values():
            raise ValueError(f"found={self.found} is not on its own grid {self.grid}; say so in note=.")

    def levels(self) -> tuple[Value, ...]:
        """The values of its source's grid; without one every option, or a few levels of the range."""
        return self.only or (tuple(map(self.ours, self.grid.values())) if self.grid else self.search.levels())

    def ours(self, printed: Value) -> Value:
        """A value of the thesis in the sense that the loss here has."""
        return round(1 / float(printed), 12) if self.inverse else printed

    def thinned(self, count: int) -> "Param":
        """With so many of its levels at most: both ends, and evenly between them."""
        levels = self.levels()
        places = [round(i * (len(levels) - 1) / (count - 1)) for i in range(count)]
        return replace(self, only=tuple(levels[place] for place in places)) if count < len(levels) else self

    def held(self, value: Value) -> "Param":
        """With this level only: it is not swept."""
        return replace(self, only=(value,))

    def cited(self) -> Iterator[tuple[str, Value]]:
        """(source, value) of everyone who gave one."""
        for source in ("paper", "code", "thesis", "found", "reality"):
            value = getattr(self, source)
            if value is not None:
                yield source, value


@dataclass(frozen=True)
class LossSpace:
    """A loss's card: what it is, what its sources say, and what may vary."""

    cite: str
    year: int
    kind: Kind
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
    memory: bool = False  # whether a cross-batch memory can wrap it
    decay: bool = False  # whether weight decay applies to the loss's own weights
    note: str = ""
    defaults: dict[str, Value] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "defaults", {name: param.paper for name, param in self.params.items()})


def text(value: Value) -> str:
    """A value as people write it."""
    return str(value) if isinstance(value, (bool, str)) else f"{value:.4g}"


def pick(table: Mapping[str, T], name: str, what: str) -> T:
    """table[name], or a ValueError with the near name and all known ones."""
    if name in table:
        return table[name]
    near = get_close_matches(name, table, n=1, cutoff=0.5)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    raise ValueError(f"Unknown {what} '{name}'.{hint} Known: {', '.join(sorted(table))}.")
