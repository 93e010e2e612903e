"""The plain data that a trial takes and gives: Cell, Split, Training, TrialSpec, EpochRow, FinalRow."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Phase = Literal["search", "final"]
Rule = Literal["best-on-test", "selected-on-validation", "untrained"]
ARTIFACTS = ("best.pt", "queries.csv")  # the files that a final trial leaves
PUBLISHED = "search-0"  # the name of every search's first trial: the published setting
PEEKING: Rule = "best-on-test"
PIXELS = "pixels"  # the backbone that is no network
UNTRAINED = "untrained"  # in a cell's place for the loss: nothing is trained, the network is scored as it stands


@dataclass(frozen=True)
class Cell:
    """dataset x backbone x embedding size x loss x protocol."""

    dataset: str
    backbone: str
    embedding_size: int
    loss: str
    protocol: str

    def __str__(self) -> str:
        return f"{self.dataset}/{self.backbone}-{self.embedding_size}/{self.loss}/{self.protocol}"


@dataclass(frozen=True)
class Origin:
    """Which images a dataset's name stands for in this study."""

    dataset: str
    root: str | None = None  # image_folder: the folder; csv: the file; the others are found where they were prepared
    train_classes: tuple[str, ...] = ()  # image_folder and csv: names, in place of the first half
    test_classes: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()  # files left out, as paths below the root


@dataclass(frozen=True)
class Split:
    """Class lists. A search trial's split has no test classes: what is not there cannot be read."""

    train: tuple[int, ...]
    select: tuple[int, ...]
    test: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        train, select, test = set(self.train), set(self.select), set(self.test)
        assert not train & (select | test), "classes are disjoint"
        assert not test or select == test or not select & test, "select classes are the test classes, or none of them is"

    def sealed(self) -> "Split":
        """The same split without its test classes."""
        return Split(self.train, self.select)


@dataclass(frozen=True)
class Training:
    """How any trial of a study is trained, whatever its loss."""

    epochs: int
    batch_size: int
    images_per_class: int
    steps_per_epoch: int | None  # None: ceil(train images / batch size)
    learning_rate: float
    weight_decay: float
    lr_step: int  # epochs between two decays
    lr_gamma: float
    warm_up: int  # epochs in which only head and loss learn
    max_shift: int  # pixels
    flip: bool
    metrics: tuple[str, ...]
    select_metric: str


@dataclass(frozen=True)
class TrialSpec:
    """Everything that one trial needs to know; as_dict() survives JSON."""

    cell: Cell
    phase: Phase
    rule: Rule
    seed: int
    splits: tuple[Split, ...]
    training: Training
    setting: Mapping[str, float] = field(default_factory=dict)  # flat: {"loss.margin": 0.5}

    def __post_init__(self) -> None:
        if self.phase == "search" and any(split.test for split in self.splits):
            assert self.peeks, "only a search that says it peeks may hold test classes"

    @property
    def peeks(self) -> bool:
        """Whether something was chosen with test feedback."""
        return self.rule == PEEKING

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "TrialSpec":
        parts = dict(data)
        parts["cell"] = Cell(**parts["cell"])
        parts["splits"] = tuple(Split(**{side: tuple(ids) for side, ids in split.items()}) for split in parts["splits"])
        parts["training"] = Training(**{**parts["training"], "metrics": tuple(parts["training"]["metrics"])})
        return cls(**parts)


@dataclass(frozen=True)
class EpochRow:
    """What one epoch of a trial gave: the mean over its splits, and each split's own scores when there are several."""

    epoch: int  # counts from 1
    loss: float | None  # None if it was not finite
    select: Mapping[str, float]
    folds: tuple[Mapping[str, float], ...]
    best: float  # best selection score so far: what searchers and stopping see
    best_epoch: int
    seconds: float
    done: bool
    diverged: bool = False

    def metrics(self) -> dict[str, float]:
        """Flat and finite, as trackers want it."""
        flat = {"select/best": self.best, "seconds": self.seconds}
        flat |= {"train/loss": self.loss} if self.loss is not None else {}
        flat |= {f"select/{name}": value for name, value in self.select.items()}
        if len(self.folds) > 1:
            flat |= {f"fold{i}/select/{name}": value for i, fold in enumerate(self.folds) for name, value in fold.items()}
        return flat


@dataclass(frozen=True)
class FinalRow:
    """The one reading of the test classes at the end of a final trial."""

    epoch: int  # the chosen one
    test: Mapping[str, float]
    queries: int
    lone_queries: int  # their class has no second image: counted, not scored

    def metrics(self) -> dict[str, float]:
        return {f"test/{name}": value for name, value in self.test.items()} | {
            "test/queries": self.queries,
            "test/lone_queries": self.lone_queries,
            "chosen_epoch": self.epoch,
        }
