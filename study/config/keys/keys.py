"""Define every key of a study; those of network, crops, training and machines are here."""

from typing import Any, Literal

from pydantic import Field, field_validator

from study.config.keys.key_types import (
    MANY,
    SIDE,
    AbsolutePath,
    Count,
    CountFrom0,
    CountFrom2,
    Gpus,
    Names,
    Pixels,
    Positive,
    RisingPair,
    TrackingUri,
    read_values,
)
from study.config.keys.overrides import OVERRIDABLE, with_tuples
from study.config.keys.question import QuestionKeys


class Keys(QuestionKeys):
    """Hold a value for every key, or several where that makes sense; cells are their product."""

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
        "float32",
        description="of the backbone; losses are always float32. bfloat16 is recommended on GPUs "
        "that have it (A100, L4, H100, RTX 30 and newer), unless a paper's numbers are repeated",
    )
    tf32: bool = Field(
        False,
        description="let a GPU round the input of convolutions to TF32: faster, but 10 bits in "
        "place of float32's 23; losses and metrics never do",
    )
    compile: bool = Field(
        False,
        description="compile the backbone (torch.compile): the first steps take minutes, the "
        "others less; needs a C++ compiler on every node",
    )
    chunk: CountFrom0 = Field(
        0,
        description="images that a worker embeds at a time in a training step, for a GPU that is "
        "too small for its part of a batch: the same gradients, for one more forward pass; not "
        "with batch norm that learns; 0: all",
    )

    image_size: Pixels | None = Field(
        None, description="empty: the backbone's input size, or the images' if they are smaller"
    )
    cache_size: Pixels = Field(
        256, description="shorter side at which images are decoded, once per machine"
    )
    resize: Literal["shorter", "squash"] = Field(
        "shorter",
        description="images keep their shape when they are decoded; squash: both sides become "
        "cache_size, whatever their shape",
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
    patience: Count | None = Field(
        None,
        description="end a search or final trial whose selection score has not grown for so many "
        "epochs, those of the warm-up not counted; empty: never",
    )
    batch_size: CountFrom2 = Field(description="images per step, over all workers")
    batches: Literal["balanced", "random", "triplets", "mined"] | None = Field(
        None, description="of all losses; empty: as each loss's card says"
    )
    label_fraction: float = Field(
        1,
        gt=0,
        le=1,
        description="share of the images of each train class whose labels a loss sees, at least "
        "two images; the others are left out, unless the loss can use images without a label; in a "
        "preset, a file or --set also several, as in 0.1,1: every loss once for each",
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
    normalize: bool | None = Field(
        None,
        description="whether losses get vectors of length 1 or raw ones; empty: as each loss's "
        "card says; scoring always normalises",
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
    weights_rate: Positive | None = Field(
        None,
        description="of a loss's own weights, in multiples of learning_rate; empty: its card's",
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
    gpu_type: str | None = Field(
        None,
        description="the only accelerator type that trials run on, as Ray names it: A100, H100, "
        "T4; empty: any, so that a loss may get slower or smaller GPUs than another",
    )
    cpus_per_worker: Count | None = Field(
        None,
        description="reserved for each worker, as for cutting crops beside a GPU; empty: a GPU "
        "node's CPUs divided among its GPUs, one without GPUs",
    )
    deterministic: bool = Field(False, description="the same bits on a GPU too, which is slower")
    keep_embeddings: Literal["first", "all", "none"] = Field(
        "first", description="final trials and baselines that keep their embeddings, in float32"
    )
    checkpoint_seconds: Positive = Field(
        60,
        description="of training that a kill may cost, unless one epoch takes longer: how often "
        "running trials are saved",
    )
    keep_checkpoints: bool = Field(
        False, description="search trials also leave their last state as an artifact"
    )
    log_models: Literal["best", "all", "none"] = Field(
        "best",
        description="networks to log to MLflow as ONNX models: of each loss the best replicate by "
        "validation; all: of every final trial",
    )
    system_metrics: bool = Field(
        False,
        description="log CPU, memory, disk, network and GPUs of the driver's machine to MLflow, "
        "every 10 s, into the study's own run",
    )
    stall_minutes: Positive | None = Field(
        None,
        description="minutes without progress after which a trial's slot is ended and the trial "
        "tried elsewhere; it ends as stalled after three tries; empty: ten times the slowest epoch "
        "of its cell so far, at least 5, and at least 30 before its first epoch",
    )
    max_hours: Positive | None = Field(
        None,
        description="hours after which `fairtrial run` ends the study in good order, to be "
        "resumed, as before a cluster's time limit; empty: never",
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
