"""The plain data that a trial takes and gives: Cell, Origin, Crew, Split, Look, Design, Training, Leaves, TrialSpec, EpochRow, FinalRow."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any, Literal

from search_spaces.space import Value

Phase = Literal["search", "final"]
Rule = Literal["best-on-test", "selected-on-validation", "last-epoch", "refit", "untrained"]
FinalKind = Literal["final", "published"]  # the chosen setting, the published one; each may be followed by a refit of it
BEST, QUERIES, EMBEDDINGS = ARTIFACTS = ("best.pt", "queries.csv", "embeddings.npz")  # the files that a final trial leaves
CONCATENATED = "concatenated"  # in queries.csv, in place of a fold's number: the models of all folds as one
PUBLISHED = "search-0"  # the name of every search's first trial: the published setting
PEEKING: Rule = "best-on-test"
LAST: Rule = "last-epoch"
WORST = 0.0  # the score of a search trial that got lost: NaN would be invisible to the searcher
PIXELS = "pixels"  # the backbone that is no network
# In the loss's place of a cell where nothing is trained: the network as it stands, or with a PCA of the train classes as its head.
NOT_TRAINED = UNTRAINED, PCA = "untrained", "pca"


class LawError(ValueError):
    """A law of honest selection would be broken. Raised, not asserted: it must hold under `python -O`, too."""


def hold(holds: object, law: str) -> None:
    if not holds:
        raise LawError(law)


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
    max_classes: int | None = None  # of each half, the first so many; None: all


class WrongNode(ValueError):
    """A machine that must not train this study's trials."""


@dataclass(frozen=True)
class Crew:
    """What each slot of a study takes of its cluster."""

    workers: int = 1
    gpus: float = 0.0  # of one worker, beside one CPU
    folder: str = ""  # where Ray Train keeps its notes; all nodes can read it

    @property
    def worker(self) -> dict[str, float]:
        """Of one worker, as Ray says it."""
        return {"CPU": 1.0} | ({"GPU": self.gpus} if self.gpus else {})


@dataclass(frozen=True)
class Split:
    """Class lists. A search trial's split has no test classes: what is not there cannot be read."""

    train: tuple[int, ...]
    select: tuple[int, ...]
    test: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        train, select, test = set(self.train), set(self.select), set(self.test)
        hold(not train & (select | test), "classes are disjoint")
        hold(not test or select == test or not select & test, "select classes are the test classes, or none of them is")

    def sealed(self) -> "Split":
        """The same split without its test classes. One that selects on them cannot be sealed."""
        hold(not set(self.select) & set(self.test), "who selects on test classes peeks")
        return Split(self.train, self.select)


@dataclass(frozen=True)
class Look:
    """What of an image the network sees. Training crops at random, scoring takes the middle."""

    image_size: int  # side of the square that the network gets
    cache_size: int  # shorter side of the decoded images
    center_crop: float  # scoring: share of the shorter side
    crop: Literal["resized", "shifted"]
    crop_scale: tuple[float, float]  # resized: share of the image's area
    crop_ratio: tuple[float, float]  # resized: width / height
    max_shift: int  # shifted: the middle, moved by up to this many pixels of the network's input
    flip: bool  # mirror half of the images


@dataclass(frozen=True)
class Design:
    """The network around a backbone's trunk."""

    pooling: str
    weights: str  # imagenet, none or a file
    freeze_bn: bool  # statistics and affine
    precision: Literal["float32", "bfloat16"]  # of the trunk; losses are always float32


@dataclass(frozen=True)
class Training:
    """How any trial of a study is trained, whatever its loss."""

    epochs: int
    batch_size: int
    images_per_class: int
    batches: str | None  # None: the kind that the loss's card says
    memory: int  # embeddings of earlier batches that the loss sees, too; 0: none
    mine_every: int  # mined batches: epochs between two looks for the hardest neighbours
    steps_per_epoch: int | None  # None: ceil(train images / batch size)
    optimizer: str
    learning_rate: float
    head_learning_rate: float | None  # None: the same
    momentum: float
    weight_decay: float
    lr_step: int | None  # epochs between two decays; None: no decay
    lr_gamma: float
    warm_up: int  # epochs in which only head and loss learn
    clip_norm: float | None
    clip_value: float | None
    metrics: tuple[str, ...]
    select_metric: str
    deterministic: bool  # the same bits on a GPU, too


@dataclass(frozen=True)
class Leaves:
    """What a final trial tells beyond the scores of its chosen epoch."""

    last: bool  # the scores of its last epoch, too
    embeddings: bool


@dataclass(frozen=True)
class TrialSpec:
    """Everything that one trial needs to know; as_dict() survives JSON."""

    cell: Cell
    phase: Phase
    rule: Rule
    seed: int
    origin: Origin
    fingerprint: str  # of the data as the driver sees them
    splits: tuple[Split, ...]
    look: Look
    design: Design
    training: Training
    leaves: Leaves
    setting: Mapping[str, Value] = field(default_factory=dict)  # flat: {"loss.margin": 0.5}
    tuned: bool = False  # a search chose the setting
    code: Mapping[str, str] = field(default_factory=dict)  # that the driver runs, as versions.py tells it

    def __post_init__(self) -> None:
        if self.phase == "search" and any(split.test for split in self.splits):
            hold(self.peeks, "only a search that says it peeks may hold test classes")
        if not self.peeks and self.cell.loss not in NOT_TRAINED:
            hold(not any(set(split.select) & set(split.test) for split in self.splits), "who selects on test classes peeks")

    @property
    def peeks(self) -> bool:
        """Whether something was chosen with test feedback."""
        return self.rule == PEEKING

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "TrialSpec":
        parts = dict(data)
        for key, kind in _PARTS.items():
            parts[key] = _revive(kind, parts[key])
        parts["splits"] = tuple(_revive(Split, split) for split in parts["splits"])
        return cls(**parts)


_PARTS: dict[str, Any] = {"cell": Cell, "origin": Origin, "look": Look, "design": Design, "training": Training, "leaves": Leaves}


def _revive(kind: Any, values: Mapping[str, Any]) -> Any:
    """JSON has no tuples."""
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in values.items()})


@dataclass(frozen=True)
class EpochRow:
    """What one epoch of a trial gave: the mean over its splits, and each split's own scores when there are several."""

    epoch: int  # counts from 1
    loss: float | None  # None if it was not finite
    select: Mapping[str, float]
    folds: tuple[Mapping[str, float], ...]
    best: float  # best selection score so far: what searchers and stopping see
    best_epochs: tuple[int, ...]  # of each split
    seconds: float
    done: bool
    diverged: bool = False
    out_of_memory: bool = False
    train: Mapping[str, float] = field(default_factory=dict)  # why: what the loss sees of the last batches

    def metrics(self) -> dict[str, float]:
        """Flat and finite, as trackers want it."""
        flat = {"select/best": self.best, "seconds": self.seconds}
        flat |= {"train/loss": self.loss} if self.loss is not None else {}
        flat |= {f"train/{name}": value for name, value in self.train.items()}
        flat |= {f"select/{name}": value for name, value in self.select.items()}
        if len(self.folds) > 1:
            flat |= {f"fold{i}/select/{name}": value for i, fold in enumerate(self.folds) for name, value in fold.items()}
        return flat


@dataclass(frozen=True)
class FinalRow:
    """The reading of the test classes at the end of a final trial."""

    epochs: tuple[int, ...]  # the chosen one of each split
    test: Mapping[str, float]  # the mean over the splits' models
    queries: int
    lone_queries: int  # their class has no second image: counted, not scored
    last: Mapping[str, float] = field(default_factory=dict)  # the same at the last epoch, if asked
    concatenated: Mapping[str, float] = field(default_factory=dict)  # several models as one

    def metrics(self) -> dict[str, float]:
        flat = {"test/queries": self.queries, "test/lone_queries": self.lone_queries, "chosen_epoch": fmean(self.epochs)}
        for place, scores in (("test", self.test), ("last", self.last), ("concatenated", self.concatenated)):
            flat |= {f"{place}/{name}": value for name, value in scores.items()}
        if len(self.epochs) > 1:
            flat |= {f"fold{i}/chosen_epoch": epoch for i, epoch in enumerate(self.epochs)}
        return flat
