"""Losses and similarities that the library lacks, or computes wrongly in part of their range, in its own frame."""

import math
from typing import Any

import torch
from pytorch_metric_learning.distances import CosineSimilarity, LpDistance
from pytorch_metric_learning.losses import GenericPairLoss
from torch import Tensor

EDGE = 1e-6  # an arccosine's gradient is infinite at 1; 0.08 degrees

LossParts = dict[str, Any]


class TemperedCosine(CosineSimilarity):
    """The cosine divided by a temperature: what turns the library's smooth triplet and N-pair losses into NCA."""

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def compute_mat(self, query_emb: Tensor, ref_emb: Tensor) -> Tensor:
        cosines: Tensor = super().compute_mat(query_emb, ref_emb)
        return cosines / self.temperature


class NTXent(GenericPairLoss):
    """-log of each equal pair's softmax against the negatives of its anchor, by log-sum-exp.

    The library's takes log(softmax + tiny), which has no gradient where the softmax underflows: exactly the worst pairs.
    """

    def __init__(self, temperature: float) -> None:
        super().__init__(mat_based_loss=True, distance=CosineSimilarity())
        self.temperature = temperature

    def _compute_loss(self, mat: Tensor, pos_mask: Tensor, neg_mask: Tensor) -> LossParts:
        anchors, positives = torch.where(pos_mask)
        if not len(anchors) or not neg_mask.any():
            nothing: LossParts = self.zero_losses()
            return nothing
        others = (mat / self.temperature).masked_fill(neg_mask == 0, -torch.inf).logsumexp(dim=1)
        behind = others[anchors] - self._spare(mat[anchors, positives]) / self.temperature
        each = torch.logaddexp(behind, torch.zeros_like(behind))
        return {"loss": {"losses": each, "indices": (anchors, positives), "reduction_type": "pos_pair"}}

    def _spare(self, cosines: Tensor) -> Tensor:
        """Of equal pairs, before they are compared."""
        return cosines


class TupletMargin(NTXent):
    """NTXent with scale = 1 / temperature and each equal pair's angle less margin degrees.

    The library's is NaN where two vectors of a class are equal, and holds every equal pair times every different pair.
    """

    def __init__(self, margin: float, scale: float) -> None:
        super().__init__(1 / scale)
        self.margin = math.radians(margin)

    def _spare(self, cosines: Tensor) -> Tensor:
        return (cosines.clamp(-1 + EDGE, 1 - EDGE).acos() - self.margin).cos()


class HingeEmbedding(GenericPairLoss):
    """PyTorch's HingeEmbeddingLoss on the distances of all pairs: the mean is over equal and different ones together."""

    def __init__(self, margin: float) -> None:
        super().__init__(mat_based_loss=True, distance=LpDistance())
        self.margin = margin

    def _compute_loss(self, mat: Tensor, pos_mask: Tensor, neg_mask: Tensor) -> LossParts:
        pairs = torch.where((pos_mask + neg_mask) > 0)
        each = torch.where(pos_mask[pairs] > 0, mat[pairs], (self.margin - mat[pairs]).relu())
        return {"loss": {"losses": each, "indices": pairs, "reduction_type": "pos_pair"}}
