"""Define losses and similarities that the library lacks, or computes wrongly at times."""

import math
from typing import Any

import torch
from pytorch_metric_learning.distances import CosineSimilarity, LpDistance
from pytorch_metric_learning.losses import GenericPairLoss
from torch import Tensor

EDGE = 1e-6  # cosines are cut here, 0.08 degrees from 1, where an arccosine's gradient is infinite

LossParts = dict[str, Any]


class TemperedCosine(CosineSimilarity):
    """Divide the cosine by a temperature, which turns the library's smooth losses into NCA."""

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def compute_mat(self, query_emb: Tensor, ref_emb: Tensor) -> Tensor:
        cosines: Tensor = super().compute_mat(query_emb, ref_emb)
        return cosines / self.temperature


class NTXent(GenericPairLoss):
    """Compute -log of each equal pair's softmax against its anchor's negatives, by log-sum-exp.

    The library takes log(softmax + tiny), which has no gradient where the softmax underflows: for
    exactly the worst pairs.
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
        behind = others[anchors] - self._relaxed(mat[anchors, positives]) / self.temperature
        each = torch.logaddexp(behind, torch.zeros_like(behind))
        return {
            "loss": {"losses": each, "indices": (anchors, positives), "reduction_type": "pos_pair"}
        }

    def _relaxed(self, cosines: Tensor) -> Tensor:
        """Return the cosines of equal pairs as they are compared."""
        return cosines


class TupletMargin(NTXent):
    """Compute NTXent with scale = 1 / temperature and equal pairs' angles reduced by margin
    degrees.

    The library's loss is NaN where two vectors of a class are equal, and needs memory for every
    equal pair times every different pair.
    """

    def __init__(self, margin: float, scale: float) -> None:
        super().__init__(1 / scale)
        self.margin = math.radians(margin)

    def _relaxed(self, cosines: Tensor) -> Tensor:
        return (cosines.clamp(-1 + EDGE, 1 - EDGE).acos() - self.margin).cos()


class HingeEmbedding(GenericPairLoss):
    """Apply PyTorch's HingeEmbeddingLoss to all pairs: one mean over equal and different ones."""

    def __init__(self, margin: float) -> None:
        super().__init__(mat_based_loss=True, distance=LpDistance())
        self.margin = margin

    def _compute_loss(self, mat: Tensor, pos_mask: Tensor, neg_mask: Tensor) -> LossParts:
        pairs = torch.where((pos_mask + neg_mask) > 0)
        each = torch.where(pos_mask[pairs] > 0, mat[pairs], (self.margin - mat[pairs]).relu())
        return {"loss": {"losses": each, "indices": pairs, "reduction_type": "pos_pair"}}
