"""Diagnose a batch's embeddings in training: are equal classes similar, have they collapsed?"""

import torch
from torch import Tensor
from torch.nn import functional as F

from trainables.losses.labels import UNLABELLED


@torch.no_grad()
def describe_batch(embeddings: Tensor, labels: Tensor) -> dict[str, float]:
    """Return the mean cosines of equal and of different pairs (NaN without any), and the spread.

    The spread is 1 - |mean unit vector|^2, the variance of the unit vectors: 0 where all vectors
    point in one direction, 1 at most. Images without a label count in no pair.
    """
    unit = F.normalize(embeddings)
    cosines = unit @ unit.T
    equal = labels[:, None] == labels
    known = (labels != UNLABELLED)[:, None] & (labels != UNLABELLED)
    itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    return {
        "positive_similarity": cosines[known & equal & ~itself].mean().item(),
        "negative_similarity": cosines[known & ~equal].mean().item(),
        "spread": 1 - unit.mean(dim=0).square().sum().item(),
    }
