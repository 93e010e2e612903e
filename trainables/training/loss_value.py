"""Compute a loss's own value on scored images, in batches like those that it is trained on."""

import copy
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from trainables.inputs.batches import BATCHES
from trainables.losses.memory import Memory
from trainables.training.step import TrainingStep


def mean_loss(
    step: TrainingStep,
    embeddings: Tensor,
    labels: NDArray[np.int64],
    *,
    kind: str,
    key: tuple[int, ...],
    **options: Any,
) -> float:
    """Return the mean loss over one pass of batches, or 0 if no class has two images.

    kind: of batches. key: draws them, the same in every epoch. options: size and images per class
    of a batch. The step's own objective stays as it is, and its memory of train images is left out.
    """
    classes, targets = np.unique(labels, return_inverse=True)
    if len(classes) < 2 or np.bincount(targets).max() < 2:
        return 0.0
    vectors = F.normalize(embeddings) if step.normalize else embeddings
    own = copy.deepcopy(step.objective).eval()
    own.loss = own.loss.loss if isinstance(own.loss, Memory) else own.loss
    batches = BATCHES["balanced" if kind == "mined" else kind](
        labels, np.random.default_rng(key), **options
    )
    anchors = options["size"] // 3 if kind == "triplets" else options["size"]
    every = torch.from_numpy(targets).to(vectors.device)
    chosen = islice(batches, -(-len(labels) // anchors))
    with torch.no_grad():
        values = [own(vectors[batch], every[batch]) for batch in chosen]
    return float(torch.stack(values).double().mean())
