"""What a batch's embeddings look like while a loss trains them: similar where they should be, and not collapsed."""

import torch
from torch import Tensor
from torch.nn import functional as F


@torch.no_grad()
def look(embeddings: Tensor, labels: Tensor) -> dict[str, float]:
    """The mean cosine of equal and of different pairs (NaN without any), and the spread: 0 where all vectors point one way, 1 at most.

    The spread is 1 - |mean unit vector|^2, the variance of the unit vectors.
    """
    unit = F.normalize(embeddings)
    cosines = unit @ unit.T
    equal = labels[:, None] == labels
    alone = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    return {
        "positive_similarity": cosines[equal & ~alone].mean().item(),
        "negative_similarity": cosines[~equal].mean().item(),
        "spread": 1 - unit.mean(dim=0).square().sum().item(),
    }
