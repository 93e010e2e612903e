"""Make small specs and batches for the tests of trainables/."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from search_spaces import LOSSES, Choice, Param, Value
from trainables.contract import (
    NOT_TRAINED,
    Cell,
    DatasetRef,
    EpochRow,
    ImageTransform,
    ModelConfig,
    Outputs,
    Split,
    Training,
    TrialSpec,
)
from trainables.datasets.pixels import Dataset, load
from trainables.networks.backbones import tiny

# One loss of each kind: over pairs, triplets, proxies and classes; mined and not; with weights and
# random draws of its own; raw and normalised.
FEW = (
    "contrastive",
    "margin",
    "multi_similarity",
    "n_pair",
    "proxy_anchor",
    "softmax",
    "triplet",
    "triplet_p_norm",
)
SPLIT = Split(train=tuple(range(12)), select=tuple(range(12, 16)), test=tuple(range(100, 106)))
METRICS = ("recall_at_1", "recall_at_4", "precision_at_4", "r_precision", "map_at_r")

TRAINING = Training(
    epochs=3,
    batch_size=20,
    images_per_class=5,
    batches=None,
    memory=0,
    mine_every=1,
    steps_per_epoch=2,
    optimizer="adamw",
    learning_rate=2e-3,
    head_learning_rate=None,
    momentum=0.0,
    weight_decay=1e-4,
    lr_step=10,
    lr_gamma=0.5,
    warm_up=0,
    clip_norm=None,
    clip_value=None,
    metrics=METRICS,
    select_metric="map_at_r",
    deterministic=False,
)


TRANSFORM = ImageTransform(
    28, 256, 1.0, "shifted", (0.08, 1.0), (3 / 4, 4 / 3), max_shift=2, flip=True
)
MODEL = ModelConfig("grid", "none", freeze_bn=False, precision="float32")


def sketches() -> Dataset:
    return load(DatasetRef("sketches"), 256)


def search(
    loss: str = "contrastive",
    *,
    seed: int = 0,
    backbone: str = "tiny",
    setting: dict[str, Value] | None = None,
    **training: Any,
):
    """Return a search trial on SPLIT without its test classes; default setting: the card's."""
    defaults = {} if loss in NOT_TRAINED else LOSSES[loss].defaults
    return TrialSpec(
        cell=Cell("sketches", backbone, 8, loss, "single"),
        phase="search",
        rule="selected-on-validation",
        seed=seed,
        dataset_ref=DatasetRef("sketches"),
        fingerprint=sketches().index.fingerprint,
        splits=(SPLIT.sealed(),),
        transform=TRANSFORM,
        model=MODEL,
        training=replace(TRAINING, **training),
        outputs=Outputs(last=False, embeddings=False),
        setting={f"loss.{name}": value for name, value in {**defaults, **(setting or {})}.items()},
    )


def final(loss: str = "contrastive", **kwargs: Any) -> TrialSpec:
    """Return the same as a final trial, with the test classes."""
    return replace(search(loss, **kwargs), phase="final", splits=(SPLIT,))


def timeless(row: EpochRow) -> EpochRow:
    """Return the row without its seconds, the one field that no seed fixes."""
    return replace(row, seconds=0.0)


def batch(
    seed: int, *, classes: int = 4, per_class: int = 3, size: int = 5
) -> tuple[Tensor, Tensor]:
    """Return shuffled float64 embeddings that lean towards their class a little, and labels."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes).repeat(per_class)[
        torch.randperm(classes * per_class, generator=generator)
    ]
    centres = torch.randn(classes, size, generator=generator, dtype=torch.float64)
    noise = torch.randn(len(labels), size, generator=generator, dtype=torch.float64)
    return centres[labels] * 0.7 + noise, labels


def triplet_batch(seed: int, *, triplets: int = 4) -> tuple[Tensor, Tensor]:
    """Return a batch with the rows anchor, positive, negative, anchor, positive, negative, ..."""
    generator = torch.Generator().manual_seed(seed)
    anchors = torch.randint(4, (triplets,), generator=generator)
    negatives = (anchors + 1 + torch.randint(3, (triplets,), generator=generator)) % 4
    labels = torch.stack([anchors, anchors, negatives], dim=1).flatten()
    embeddings, classes = batch(seed, per_class=3 * triplets)
    rows = [int((classes == label).nonzero()[i]) for i, label in enumerate(labels.tolist())]
    return embeddings[rows], labels


def batch_for(loss: str, seed: int, *, per_class: int = 3) -> tuple[Tensor, Tensor]:
    """Return a batch of the kind that the loss's card asks for."""
    if LOSSES[loss].batches == "triplets":
        return triplet_batch(seed, triplets=2 + per_class)
    return batch(seed, per_class=per_class)


def between(param: Param, share: float) -> Value:
    """Return the value at this share of a parameter's search range."""
    search = param.search
    if isinstance(search, Choice):
        return search.options[min(int(share * len(search.options)), len(search.options) - 1)]
    value = (
        search.low * (search.high / search.low) ** share
        if search.log
        else search.low + share * (search.high - search.low)
    )
    return round(value) if search.integer else value


def frozen_trunk(folder: Path) -> ModelConfig:
    """Return a model with a frozen tiny trunk, whose weights are in a file below the folder."""
    path = folder / "trunk.pth"
    if not path.exists():
        with torch.random.fork_rng():
            torch.manual_seed(5)
            torch.save(tiny(1)[0].state_dict(), path)
    return replace(MODEL, pooling="gap", weights=str(path), train="head")
