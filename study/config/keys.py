"""Define every key of a study: its type, its default and what it means."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from study.config.key_types import (
    MANY,
    SIDE,
    AbsolutePath,
    Baselines,
    Count,
    CountFrom0,
    CountFrom2,
    EmbeddingSizes,
    Gpus,
    Names,
    Pixels,
    Positive,
    Replicates,
    RisingPair,
    Seed,
    StudyName,
    Texts,
    TrackingUri,
    UniqueTexts,
    read_values,
)
from study.config.overrides import OVERRIDABLE, with_tuples


class Keys(BaseModel):
    """Hold a value for every key, or several where that makes sense; cells are their product."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False
    )

    name: StudyName = Field(description="the study's folder and its MLflow experiment")

    dataset: Names = Field(description="one or several of `fairtrial list datasets`")
    data_root: AbsolutePath | None = Field(
        None, description="image_folder: the folder with one folder per class; csv: the file"
    )
    train_classes: UniqueTexts = Field(
        (), description="image_folder, csv: names, in place of the first half of the classes"
    )
    test_classes: UniqueTexts = Field(
        (), description="image_folder, csv: names, in place of the second half"
    )
    exclude: Texts = Field(
        (), description="image files to leave out, as paths below the dataset's folder"
    )
    max_classes: CountFrom2 | None = Field(
        None, description="use only the first so many classes of each half; empty: all"
    )
    backbone: Names = Field(
        description="one or several of `fairtrial list backbones`, or timm:NAME"
    )
    embedding_size: EmbeddingSizes = Field(description="dimensions of the embedding")
    losses: Names = Field(
        description="the losses to compare; LOSS@TAG is the same one again, with its own settings"
    )
    protocols: Names = Field(description="how classes are divided, and so how numbers are chosen")
    settings: dict[str, dict[str, bool | float | str]] = Field(
        {}, description="by loss: values in place of the published ones"
    )
    where: tuple[dict[str, Any], ...] = Field(
        (),
        description="values for some cells only, as in [{dataset: sop, backbone: [resnet50], "
        "learning_rate: 0.0006}]: axes that a cell must match (dataset, backbone, embedding_size, "
        "loss, protocol), and keys of training, crop or network; later entries win",
    )
    leave_out: tuple[dict[str, Any], ...] = Field(
        (), description="cells not to run, by axes, as in [{loss: triplet, backbone: resnet50}]"
    )
    val_fraction: float = Field(
        0.1, gt=0, lt=1, description="fixed_validation: share of the train classes to hold out"
    )
    folds: CountFrom2 = Field(
        4, description="k_fold: models of each trial, each without its own fold of train classes"
    )
    fold_order: Literal["shuffled", "consecutive"] = Field(
        "shuffled", description="k_fold: how classes are put into folds"
    )
    split_seed: Seed = Field(
        0, description="fixed_validation, shuffled k_fold: draws the classes to hold out"
    )
    split_file: AbsolutePath | None = Field(
        None, description="class lists to use, like the files in a study's splits folder"
    )

    strategy: str = Field(
        "hyperopt", description="proposes settings: one of `fairtrial list strategies`"
    )
    searches: Replicates = Field(
        3,
        description="replicates of the whole pipeline, each with its own split, search and "
        "initial weights; intervals are over them",
    )
    search_trials: Count = Field(
        8, description="hyperopt, random: settings per search; the first is the published"
    )
    grids: Literal["all", "published"] = Field(
        "all", description="coordinate, grid: sweep all parameters, or those with a published grid"
    )
    grid_levels: CountFrom2 | None = Field(
        None, description="coordinate, grid: at most so many values per parameter; empty: all"
    )
    finalists: CountFrom0 = Field(
        3,
        description="best settings of a search of 16 trials or more, tried again on other splits",
    )
    finalist_splits: CountFrom0 = Field(
        2, description="further splits for each finalist; 0: the search alone chooses; not k_fold"
    )
    search_training: UniqueTexts = Field(
        (), description="searched with the loss: learning_rate, lr_step, lr_gamma, weight_decay"
    )
    search_epochs: Count | None = Field(
        None, description="of a search trial that is not stopped; empty: as many as epochs"
    )
    grace: Count | None = Field(
        None,
        description="epochs before early stopping may end a search trial, more than warm_up; "
        "empty: a quarter of a search trial's",
    )
    reduction: CountFrom2 = Field(
        2, description="one in this many trials continues beyond each rung"
    )
    reproductions: Count = Field(
        1, description="final trials per cell and replicate, each with its own seed"
    )
    peek_search: bool = Field(
        False, description="default: search with test feedback, to measure what that is worth"
    )
    published_too: bool = Field(
        False, description="searched cells: also train the published setting in final trials"
    )
    last_too: bool = Field(
        False, description="final trials also score the test classes at their last epoch"
    )
    refit: bool = Field(
        False, description="after each final trial, one on all train classes for as many epochs"
    )
    seed: Seed = Field(
        0,
        description="of searchers and search trials; final trials have the seeds after it, and "
        "each further replicate its own",
    )
    rope: float = Field(
        0.5,
        ge=0,
        le=100,
        description="points of Recall@1 within which two losses count as equally good in practice",
    )
    baselines: Baselines = Field(
        ("auto",),
        description="what else is scored: pixels; pooled, the features below the embedding layer; "
        "untrained, the network with a random embedding layer; pca, its features reduced by a PCA "
        "fitted on the train classes; auto or true: pixels, with pooled where weights are "
        "pretrained and untrained where weights=none",
    )

    weights: AbsolutePath = Field(
        "imagenet",
        description="where the backbone starts: pretrained, from the weights that ship with it or "
        "that its authors published; imagenet, the same where these were published; none; or a "
        "file",
    )
    pooling: str = Field(
        "gap",
        description="feature map to vector: gap, gmp, gap+gmp (their sum), gap-gmp (side by side) "
        "or grid",
    )
    train: Literal["all", "head"] = Field(
        "all",
        description="all: backbone and embedding layer; head: the backbone stays as its weights "
        "are, and its features are computed once per machine",
    )
    views: CountFrom0 = Field(
        0,
        description="train=head: random crops of each train image to compute features of; each "
        "epoch takes one of them; 0: the centre crop",
    )
    head: Literal["linear", "mlp"] = Field(
        "linear", description="the embedding layer, or one hidden layer with it"
    )
    head_width: Count = Field(512, description="head=mlp: units of the hidden layer")
    freeze_bn: bool = Field(False, description="freeze batch-norm statistics and affine parameters")
    precision: Literal["float32", "bfloat16"] = Field(
        "float32", description="of the backbone; losses are always float32"
    )

    image_size: Pixels | None = Field(
        None, description="empty: the backbone's input size, or the images' if they are smaller"
    )
    cache_size: Pixels = Field(
        256, description="shorter side at which images are decoded, once per machine"
    )
    center_crop: float = Field(
        0.875, gt=0, le=1, description="scoring sees the middle: this share of the shorter side"
    )
    crop: Literal["resized", "shifted"] = Field(
        "resized", description="training sees a random resized crop, or the middle shifted"
    )
    crop_scale: RisingPair = Field((0.08, 1.0), description="resized: share of the image's area")
    crop_ratio: RisingPair = Field((3 / 4, 4 / 3), description="resized: width / height")
    max_shift: int = Field(
        0, ge=0, le=SIDE, description="shifted: pixels, any direction, filled with black"
    )
    flip: bool = Field(True, description="mirror half of the images in training")

    epochs: Count = Field(
        description="of every final trial, and of search trials unless search_epochs is set"
    )
    batch_size: CountFrom2 = Field(description="images per step, over all workers")
    batches: Literal["balanced", "random", "triplets", "mined"] | None = Field(
        None, description="of all losses; empty: as each loss's card says"
    )
    memory: int = Field(
        0,
        ge=0,
        le=100 * MANY,
        description="embeddings of earlier batches that a loss also sees (cross-batch memory)",
    )
    mine_every: Count = Field(
        1, description="mined batches: epochs between two searches for the hardest neighbours"
    )
    images_per_class: Count = Field(
        description="in a balanced batch; two or more for losses over pairs and triplets"
    )
    steps_per_epoch: Count | None = Field(
        None, description="empty: ceil(train images / batch_size)"
    )
    optimizer: str = Field("adamw", description="adamw, adam, rmsprop or sgd")
    learning_rate: Positive = Field(
        description="of the backbone, and with train=head of the head; the rate of a loss's own "
        "weights is on its card"
    )
    head_learning_rate: Positive | None = Field(
        None, description="of the embedding layer; empty: the same"
    )
    momentum: float = Field(0, ge=0, lt=1, description="sgd, rmsprop")
    weight_decay: float = Field(0, ge=0, description="of backbone and embedding layer")
    lr_step: Count | None = Field(None, description="epochs between two decays; empty: no decay")
    lr_gamma: float = Field(0.5, gt=0, le=1, description="factor of each decay")
    warm_up: CountFrom0 = Field(
        0, description="epochs in which only embedding layer and loss learn"
    )
    clip_norm: Positive | None = Field(None, description="largest norm of all gradients together")
    clip_value: Positive | None = Field(None, description="largest absolute value in a gradient")
    metrics: Names = Field(
        ("recall_at_1", "map_at_r"), description="measured on select and test classes"
    )
    select_metric: str = Field(
        "map_at_r",
        description="chooses epochs and settings; on a few classes recall_at_1 is twice as noisy",
    )

    workers: Count = Field(
        1, description="Ray Train workers of each trial: DDP on one split, or several splits dealt"
    )
    gpus_per_worker: Gpus = Field(
        None, description="a share or whole GPUs; empty: one if the cluster has any"
    )
    deterministic: bool = Field(
        False, description="the same bits on a GPU too: slower, and some operations refuse"
    )
    keep_embeddings: Literal["first", "all", "none"] = Field(
        "first", description="final trials and baselines whose embeddings are kept, in float32"
    )
    keep_checkpoints: bool = Field(
        False, description="search trials also leave their last state as an artifact"
    )
    slots: Count | None = Field(
        None, description="trials at a time; empty: as many as fit on the cluster"
    )
    studies: str = Field("studies", description="folder for studies and the embedded MLflow")
    tracking_uri: TrackingUri = Field(
        None, description="an MLflow server; empty: SQLite in the studies folder"
    )

    @field_validator("where", "leave_out")
    @classmethod
    def _read_entries(cls, entries: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        """Return each entry with its values as the keys of these names have them."""
        try:
            return tuple(
                entry
                | read_values(cls.model_fields, {k: entry[k] for k in OVERRIDABLE if k in entry})
                for entry in map(with_tuples, entries)
            )
        except ValueError as error:
            raise ValueError(f"In where, {error}") from None
