"""Every key of a study: its type, its default and what it means."""

from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, field_validator

# More than any study means: what is above is a slip of the hand.
MANY = 1_000_000
SIDE = 65_536  # dimensions of an embedding, pixels along a side
SEED = 2**31 - 1  # what every generator takes


def _several(value: Any) -> Any:
    """One value, 'a,b' from the command line, or a list."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value if isinstance(value, (list, tuple)) else (value,)


Texts = Annotated[tuple[str, ...], BeforeValidator(_several)]
Names = Annotated[Texts, Field(min_length=1)]
Sizes = Annotated[tuple[Annotated[int, Field(gt=0, le=SIDE)], ...], BeforeValidator(_several), Field(min_length=1)]
Pair = Annotated[tuple[float, float], BeforeValidator(_several)]


def _baselines(value: Any) -> Any:
    return ("pixels", "untrained") if value is True else () if value in (False, None) else _several(value)


Baselines = Annotated[tuple[Literal["pixels", "untrained", "pca"], ...], BeforeValidator(_baselines)]


class Keys(BaseModel):
    """A value or a list where several make sense; the cells of a study are their product."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)
    _files: dict[str, str] = PrivateAttr(default_factory=dict)  # path -> text of the split file

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$", description="the study's folder and its MLflow experiment")

    dataset: Names = Field(description="one or several of `fairtrial list datasets`")
    data_root: str | None = Field(None, description="image_folder: the folder with one folder per class; csv: the file")
    train_classes: Texts = Field((), description="image_folder, csv: names, in place of the first half of the classes")
    test_classes: Texts = Field((), description="image_folder, csv: names, in place of the second half")
    exclude: Texts = Field((), description="image files left out, as paths below the dataset's folder")
    max_classes: int | None = Field(
        None, ge=2, le=MANY, description="of each half of a dataset, the first so many, to try things out; empty: all"
    )
    backbone: Names = Field(description="one or several of `fairtrial list backbones`, or timm:NAME")
    embedding_size: Sizes = Field(description="dimensions of the embedding")
    losses: Names = Field(description="the losses to compare; LOSS@TAG is the same one again, with settings or values of its own")
    protocols: Names = Field(description="how classes are divided, and so how numbers are chosen")
    settings: dict[str, dict[str, bool | float | str]] = Field({}, description="by loss: values in place of the published ones")
    where: tuple[dict[str, Any], ...] = Field(
        (),
        description="values for some cells only, as in [{dataset: sop, backbone: [resnet50], learning_rate: 0.0006}]: axes that a cell "
        "must match (dataset, backbone, embedding_size, loss, protocol), and keys of training, crop or network; later entries win",
    )
    leave_out: tuple[dict[str, Any], ...] = Field(
        (), description="cells not to run, by their axes, as in [{loss: triplet, backbone: resnet50}]"
    )
    val_fraction: float = Field(0.1, gt=0, lt=1, description="fixed_validation: share of the train classes held out, two at least")
    folds: int = Field(4, ge=2, le=MANY, description="k_fold: models of each trial, each without its own fold of the train classes")
    fold_order: Literal["shuffled", "consecutive"] = Field("shuffled", description="k_fold: how classes are put into folds")
    split_seed: int = Field(0, ge=0, le=SEED, description="fixed_validation, shuffled k_fold: which classes are held out")
    split_file: str | None = Field(None, description="class lists in place of drawn ones, as a study writes them into its splits folder")
    resplit: bool = Field(False, description="each final trial draws a split of its own, so that intervals contain that, too")

    strategy: str = Field("hyperopt", description="who proposes settings: one of `fairtrial list strategies`")
    search_trials: int = Field(
        8, ge=1, le=MANY, description="hyperopt, random: settings tried per searched cell; the first is the published one"
    )
    grids: Literal["all", "published"] = Field(
        "all", description="coordinate, grid: sweep all parameters, or those that a source has a grid for"
    )
    grid_levels: int | None = Field(
        None, ge=2, le=MANY, description="coordinate, grid: values of each parameter at most; empty: all of its grid"
    )
    search_training: Texts = Field((), description="searched with the loss: learning_rate, lr_step, lr_gamma, weight_decay")
    search_epochs: int | None = Field(None, ge=1, le=MANY, description="of a search trial that is not stopped; empty: as many as epochs")
    grace: int = Field(2, ge=1, le=MANY, description="epochs before early stopping may end a search trial; more than warm_up")
    reduction: int = Field(2, ge=2, le=MANY, description="of the trials at a rung, one in this many goes on")
    reproductions: int = Field(3, ge=1, le=MANY, description="final trials per cell, each with a seed of its own")
    peek_search: bool = Field(False, description="default: search its settings, too, with test feedback, to measure what that is worth")
    published_too: bool = Field(False, description="where settings are searched: final trials of the published one beside the chosen one")
    last_too: bool = Field(False, description="final trials score the test classes at their last epoch, too")
    refit: bool = Field(False, description="beside each final trial one on all train classes, for as many epochs as that one chose")
    seed: int = Field(0, ge=0, le=SEED, description="of searchers and search trials; final trials have the seeds after it")
    baselines: Baselines = Field(
        ("pixels", "untrained"),
        description="scored, too: raw pixels; the untrained network; pca, its features reduced by a PCA fitted on the train classes; "
        "true: the first two",
    )

    weights: str = Field("imagenet", description="where the backbone starts: imagenet, none, or a file")
    pooling: str = Field("gap", description="feature map to vector: gap, gmp, gap+gmp or grid")
    freeze_bn: bool = Field(False, description="batch norm keeps its statistics and its affine part")
    precision: Literal["float32", "bfloat16"] = Field("float32", description="of the backbone; losses are always float32")

    image_size: int | None = Field(
        None, ge=1, le=SIDE, description="pixels; empty: the backbone's own, or the images' own if they are smaller"
    )
    cache_size: int = Field(256, ge=1, le=SIDE, description="shorter side at which images are decoded, once per machine")
    center_crop: float = Field(0.875, gt=0, le=1, description="scoring sees the middle: this share of the shorter side")
    crop: Literal["resized", "shifted"] = Field("resized", description="training sees a random resized crop, or the middle shifted")
    crop_scale: Pair = Field((0.08, 1.0), description="resized: share of the image's area")
    crop_ratio: Pair = Field((3 / 4, 4 / 3), description="resized: width / height")
    max_shift: int = Field(0, ge=0, le=SIDE, description="shifted: pixels, any direction; black comes in")
    flip: bool = Field(True, description="mirror half of the images in training")

    epochs: int = Field(ge=1, le=MANY, description="of every final trial, and of search trials unless search_epochs says otherwise")
    batch_size: int = Field(ge=2, le=MANY, description="images per step, over all workers")
    batches: Literal["balanced", "random", "triplets", "mined"] | None = Field(None, description="of all losses; empty: as its card says")
    memory: int = Field(
        0, ge=0, le=100 * MANY, description="embeddings of earlier batches that a loss sees, too (cross-batch memory); 0: none"
    )
    mine_every: int = Field(1, ge=1, le=MANY, description="mined batches: epochs between two looks for the hardest neighbours")
    images_per_class: int = Field(ge=1, le=MANY, description="in a balanced batch; two or more for losses over pairs and triplets")
    steps_per_epoch: int | None = Field(None, ge=1, le=MANY, description="empty: ceil(train images / batch_size)")
    optimizer: str = Field("adamw", description="adamw, adam, rmsprop or sgd")
    learning_rate: float = Field(gt=0, description="of the backbone; a loss's own weights have theirs on its card")
    head_learning_rate: float | None = Field(None, gt=0, description="of the embedding layer; empty: the same")
    momentum: float = Field(0, ge=0, lt=1, description="sgd, rmsprop")
    weight_decay: float = Field(0, ge=0, description="of backbone and embedding layer")
    lr_step: int | None = Field(None, ge=1, le=MANY, description="epochs between two decays; empty: no decay")
    lr_gamma: float = Field(0.5, gt=0, le=1, description="factor of each decay")
    warm_up: int = Field(0, ge=0, le=MANY, description="epochs in which only embedding layer and loss learn")
    clip_norm: float | None = Field(None, gt=0, description="largest norm of all gradients together")
    clip_value: float | None = Field(None, gt=0, description="largest absolute value in a gradient")
    metrics: Names = Field(("recall_at_1", "map_at_r"), description="measured on select and test classes")
    select_metric: str = Field("recall_at_1", description="chooses epochs and settings")

    workers: int = Field(1, ge=1, le=MANY, description="Ray Train workers of each trial: DDP on one split, several splits are dealt out")
    gpus_per_worker: float | None = Field(None, ge=0, description="a share or whole GPUs; empty: one if the cluster has any")
    deterministic: bool = Field(False, description="the same bits on a GPU, too: slower, and some operations refuse")
    keep_embeddings: Literal["first", "all", "none"] = Field("first", description="final trials whose embeddings are kept as artifacts")
    keep_checkpoints: bool = Field(False, description="search trials leave their last state as an artifact, too")
    slots: int | None = Field(None, ge=1, le=MANY, description="trials at a time; empty: as many as the cluster has room for")
    studies: str = Field("studies", description="folder for studies and the embedded MLflow")
    tracking_uri: str | None = Field(None, description="an MLflow server; empty: SQLite in the studies folder")

    @field_validator(
        "losses", "dataset", "backbone", "protocols", "metrics", "train_classes", "test_classes", "search_training", "baselines"
    )
    @classmethod
    def _no_twins(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) < len(names):
            raise ValueError(f"Each name stands once, but got {', '.join(names)}.")
        return names

    @field_validator("crop_scale", "crop_ratio")
    @classmethod
    def _rising(cls, pair: tuple[float, float]) -> tuple[float, float]:
        if not 0 < pair[0] <= pair[1]:
            raise ValueError(f"A range goes from a smaller to a larger number above 0, but got {pair[0]:g} to {pair[1]:g}.")
        return pair

    @field_validator("data_root", "weights", "split_file")
    @classmethod
    def _absolute(cls, path: str | None) -> str | None:
        """A trial runs in a folder of its own, where a relative path would lead nowhere."""
        return path if path in (None, "imagenet", "none") else str(Path(str(path)).expanduser().absolute())

    @field_validator("gpus_per_worker")
    @classmethod
    def _share_or_whole(cls, gpus: float | None) -> float | None:
        if gpus and gpus > 1 and gpus != int(gpus):
            raise ValueError(f"gpus_per_worker is a share of one GPU or a whole number, but got {gpus:g}; use {int(gpus)}.")
        return gpus

    @field_validator("name")
    @classmethod
    def _not_ours(cls, name: str) -> str:
        if name in ("mlflow.db", "mlartifacts"):
            raise ValueError(f"The studies folder keeps its own {name}; choose another name.")
        return name

    @field_validator("tracking_uri")
    @classmethod
    def _known_scheme(cls, uri: str | None) -> str | None:
        if uri:
            urlsplit(uri)  # a ValueError says what is wrong with a malformed one
        if uri and not uri.startswith(("http://", "https://", "sqlite:///", "postgresql://", "mysql://")):
            raise ValueError(
                "tracking_uri starts with http://, https://, sqlite:///, postgresql:// or mysql://, or is empty for the embedded store."
            )
        return uri
