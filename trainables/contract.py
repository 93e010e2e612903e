"""Define the plain data that a trial takes (TrialSpec) and gives (EpochRow, FinalRow)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from statistics import fmean
from typing import Any, Literal, get_type_hints

from search_spaces.space import Value

Resize = Literal["shorter", "squash"]
Phase = Literal["search", "final"]
Rule = Literal[
    "best-on-test", "selected-on-validation", "last-epoch", "refit", "untrained", "closed-set"
]
# A final trial with the chosen setting or the published one; a refit may follow each.
FinalKind = Literal["final", "published"]
# The files that a final trial leaves.
BEST, QUERIES, EMBEDDINGS = ARTIFACTS = ("best.pt", "queries.csv", "embeddings.npz")
# In queries.csv in place of a fold's number: the models of all folds joined into one.
CONCATENATED = "concatenated"
PEEKING: Rule = "best-on-test"
LAST: Rule = "last-epoch"
CLOSED: Rule = "closed-set"  # at the last epoch, on other images of the train classes
CLOSED_SET = "closed_set"  # its protocol
# Validation on fewer classes is warned of: on two of them one loss lost 6.9 points of Recall@1.
FEW_CLASSES = 10
# The score of a search trial that diverged or ran out of memory. A searcher would not see NaN.
WORST = 0.0
PIXELS = "pixels"  # the backbone that is not a network
OWN_FEATURES = "features"  # the dataset of vectors that the user brings in place of images
NO_TRUNK = "none"  # its backbone
# Instead of a loss in a cell that trains nothing: the network as it is with a random head, with a
# PCA of the train classes as its head, or without a head, so that its pooled features are scored.
NOT_TRAINED = UNTRAINED, PCA, POOLED = "untrained", "pca", "pooled"


def is_closed_set(protocol: str) -> bool:
    """Return whether train and test images share their classes under this protocol."""
    return protocol.partition(":")[0] == CLOSED_SET


class LawError(ValueError):
    """Report a broken law of honest selection. An assertion would vanish under `python -O`."""


def hold(holds: object, law: str) -> None:
    """Raise a LawError that states the law, unless it holds."""
    if not holds:
        raise LawError(law)


@dataclass(frozen=True)
class Cell:
    """Name one cell of a study: dataset x backbone x embedding size x loss x protocol."""

    dataset: str
    backbone: str
    embedding_size: int
    loss: str
    protocol: str

    def __str__(self) -> str:
        return f"{self.dataset}/{self.backbone}-{self.embedding_size}/{self.loss}/{self.protocol}"


@dataclass(frozen=True)
class DatasetRef:
    """Say which images a dataset's name refers to in this study."""

    dataset: str
    root: str | None = None  # image_folder: the folder; csv: the file; None for prepared datasets
    train_classes: tuple[str, ...] = ()  # image_folder and csv: names, in place of the first half
    test_classes: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()  # files left out, as paths below the root
    max_classes: int | None = None  # use only this many of each half, the first ones; None: all
    closed_set: bool = False  # divide the images of every class, not the classes
    train_share: float | None = None  # closed_set: of each class's images; None: official lists
    share_seed: int = 0  # closed_set with a share: draws the images


class WrongNode(ValueError):
    """Report that this machine must not train this study's trials: its code or images differ."""


@dataclass(frozen=True)
class Split:
    """Hold the classes of each part. A search trial's split has no test classes to read."""

    train: tuple[int, ...]
    select: tuple[int, ...]
    test: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        train, select, test = set(self.train), set(self.select), set(self.test)
        hold(not train & (select | test), "classes are disjoint")
        apart = not test or select == test or not select & test
        hold(apart, "select classes are the test classes, or none of them is")

    def sealed(self) -> "Split":
        """Return this split without its test classes. Raise LawError if it selects on them."""
        hold(not set(self.select) & set(self.test), "who selects on test classes peeks")
        return Split(self.train, self.select)


@dataclass(frozen=True)
class ImageTransform:
    """Say which part of an image the network sees: a random crop in training, else the middle."""

    image_size: int  # side of the square that the network gets
    cache_size: int  # side at which images are decoded
    center_crop: float  # scoring: share of the shorter side
    crop: Literal["resized", "shifted"]
    crop_scale: tuple[float, float]  # resized: share of the image's area
    crop_ratio: tuple[float, float]  # resized: width / height
    max_shift: int  # shifted: the middle, moved by up to this many pixels of the network's input
    flip: bool  # mirror half of the images
    resize: Resize = "shorter"  # or squash: cache_size x cache_size, whatever the image's shape


@dataclass(frozen=True)
class ModelConfig:
    """Say how the network around a backbone's trunk is built."""

    pooling: str
    weights: str  # pretrained, imagenet, none or a file
    freeze_bn: bool  # statistics and affine
    precision: Literal["float32", "bfloat16"]  # of the trunk; losses are always float32
    # These have defaults, because the records of version 0.5 lack them.
    train: Literal["all", "head"] = "all"  # head: the trunk is frozen, and its features are cached
    head: Literal["linear", "mlp"] = "linear"
    head_width: int = 512  # mlp: of its hidden layer
    tf32: bool = False  # a GPU's convolutions round to 10 bits; until 0.6 they did, unrecorded
    compile: bool = False  # the trunk, by torch.compile
    chunk: int = 0  # images that a worker embeds at a time in a training step; 0: all


@dataclass(frozen=True)
class Training:
    """Say how a trial is trained, with any loss."""

    epochs: int
    batch_size: int
    images_per_class: int
    batches: str | None  # None: the kind that the loss's card says
    memory: int  # embeddings of earlier batches that the loss also sees; 0: none
    mine_every: int  # mined batches: epochs between two searches for the hardest neighbours
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
    deterministic: bool  # the same bits each time, also on a GPU
    views: int = 0  # train=head: cached random crops of each train image; 0: the centre crop
    normalize: bool | None = None  # vectors before the loss; None: as the loss's card says
    patience: int | None = None  # epochs without a better selection score; None: no end
    weights_rate: float | None = (
        None  # rate of the loss's own weights / learning_rate; None: card's
    )
    label_fraction: float = 1.0  # share of every class's train images whose labels the loss sees


@dataclass(frozen=True)
class Outputs:
    """Say what a final trial writes beside the scores of its chosen epoch."""

    last: bool  # also the scores of its last epoch
    embeddings: bool


@dataclass(frozen=True)
class TrialSpec:
    """Hold everything that one trial needs to know; as_dict() survives JSON."""

    cell: Cell
    phase: Phase
    rule: Rule
    seed: int
    dataset_ref: DatasetRef
    fingerprint: str  # of the data as the driver sees them
    splits: tuple[Split, ...]
    transform: ImageTransform
    model: ModelConfig
    training: Training
    outputs: Outputs
    setting: Mapping[str, Value] = field(default_factory=dict)  # flat: {"loss.margin": 0.5}
    tuned: bool = False  # a search chose the setting
    code: Mapping[str, str] = field(default_factory=dict)  # the driver's, from versions.py
    label_seed: int = 0  # with a label_fraction: draws the images whose labels the loss sees

    def __post_init__(self) -> None:
        if self.phase == "search" and any(split.test for split in self.splits):
            hold(self.peeks, "only a search that says it peeks may hold test classes")
        if not self.peeks and self.cell.loss not in NOT_TRAINED:
            feedback = any(set(split.select) & set(split.test) for split in self.splits)
            hold(not feedback, "who selects on test classes peeks")

    @property
    def peeks(self) -> bool:
        """Return whether something was chosen with test feedback."""
        return self.rule == PEEKING

    @property
    def reads_features(self) -> bool:
        """Return whether the trial reads features of a frozen trunk instead of images."""
        return self.model.train == "head" and self.cell.backbone != PIXELS

    def as_dict(self) -> dict[str, Any]:
        """Return plain data from which from_dict() builds the same spec."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "TrialSpec":
        """Return the spec that as_dict() returned, even after a trip through JSON."""
        parts = dict(data)
        for key, kind in get_type_hints(cls).items():
            if is_dataclass(kind):
                parts[key] = _revive(kind, parts[key])
        parts["splits"] = tuple(_revive(Split, split) for split in parts["splits"])
        return cls(**parts)


def _revive(kind: Any, values: Mapping[str, Any]) -> Any:
    """Build a dataclass from its values; JSON has turned its tuples into lists."""
    return kind(
        **{key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    )


@dataclass(frozen=True)
class EpochRow:
    """Hold what one epoch of a trial produced."""

    epoch: int  # counts from 1
    loss: float | None  # None if it was not finite
    select: Mapping[str, float]  # the mean over the splits
    folds: tuple[Mapping[str, float], ...]  # each split's own scores
    best: float  # best selection score so far: what searchers and early stopping see
    best_epochs: tuple[int, ...]  # of each split
    seconds: float
    done: bool
    diverged: bool = False
    out_of_memory: bool = False
    out_of_patience: bool = False
    train: Mapping[str, float] = field(default_factory=dict)  # diagnostics of the last batches

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "EpochRow":
        """Return the row that asdict() returned, even after a trip through JSON."""
        row: EpochRow = _revive(cls, data)
        return row

    def metrics(self) -> dict[str, float]:
        """Return all finite numbers under flat names, as trackers take them."""
        flat = {"select/best": self.best, "seconds": self.seconds}
        flat |= {"train/loss": self.loss} if self.loss is not None else {}
        flat |= {f"train/{name}": value for name, value in self.train.items()}
        flat |= {f"select/{name}": value for name, value in self.select.items()}
        if len(self.folds) > 1:
            flat |= {
                f"fold{i}/select/{name}": value
                for i, fold in enumerate(self.folds)
                for name, value in fold.items()
            }
        return flat


@dataclass(frozen=True)
class FinalRow:
    """Hold the scores of the test classes at the end of a final trial."""

    epochs: tuple[int, ...]  # the chosen one of each split
    test: Mapping[str, float]  # the mean over the splits' models
    queries: int
    lone_queries: int  # their class has no second image: counted, not scored
    last: Mapping[str, float] = field(default_factory=dict)  # the same at the last epoch, if asked
    concatenated: Mapping[str, float] = field(default_factory=dict)  # several models as one

    def metrics(self) -> dict[str, float]:
        """Return all numbers under flat names, as trackers take them."""
        counts = {"test/queries": self.queries, "test/lone_queries": self.lone_queries}
        flat = counts | {"chosen_epoch": fmean(self.epochs)}
        for prefix in ("test", "last", "concatenated"):
            flat |= {f"{prefix}/{name}": value for name, value in getattr(self, prefix).items()}
        if len(self.epochs) > 1:
            flat |= {f"fold{i}/chosen_epoch": epoch for i, epoch in enumerate(self.epochs)}
        return flat
