"""Define losses and similarities that the library lacks, or computes wrongly or slowly."""

import math
from typing import Any

import torch
from pytorch_metric_learning.distances import CosineSimilarity, LpDistance
from pytorch_metric_learning.distances.base_distance import BaseDistance
from pytorch_metric_learning.losses import GenericPairLoss
from torch import Tensor

from search_spaces.own import find_function
from trainables.losses.labels import Pairs, found

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
        super().__init__(mat_based_loss=False, distance=CosineSimilarity())
        self.temperature = temperature

    def pair_based_loss(self, mat: Tensor, indices_tuple: Pairs) -> LossParts:
        anchors, positives, different, negatives = indices_tuple
        if not len(anchors) or not len(negatives):
            nothing: LossParts = self.zero_losses()
            return nothing
        left_out = torch.ones_like(mat, dtype=torch.bool)
        left_out[different, negatives] = False
        others = (mat / self.temperature).masked_fill(left_out, -torch.inf).logsumexp(dim=1)
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
        super().__init__(mat_based_loss=False, distance=LpDistance())
        self.margin = margin

    def pair_based_loss(self, mat: Tensor, indices_tuple: Pairs) -> LossParts:
        anchors, positives, others, negatives = indices_tuple
        equal, different = (torch.zeros_like(mat, dtype=torch.bool) for _ in range(2))
        equal[anchors, positives], different[others, negatives] = True, True
        pairs = found(equal | different, len(anchors) + len(others))
        each = torch.where(equal[pairs], mat[pairs], (self.margin - mat[pairs]).relu())
        return {"loss": {"losses": each, "indices": pairs, "reduction_type": "pos_pair"}}


class OwnDistance(BaseDistance):
    """Measure with a user's function of two (n, size) tensors, which returns n distances."""

    def __init__(self, name: str) -> None:
        super().__init__(normalize_embeddings=False)
        self.function = find_function(name)

    def compute_mat(self, query_emb: Tensor, ref_emb: Tensor) -> Tensor:
        left = query_emb.repeat_interleave(len(ref_emb), dim=0)
        return self.pairwise_distance(left, ref_emb.repeat(len(query_emb), 1)).view(
            len(query_emb), len(ref_emb)
        )

    def pairwise_distance(self, query_emb: Tensor, ref_emb: Tensor) -> Tensor:
        apart: Tensor = self.function(query_emb, ref_emb)
        if apart.shape != query_emb.shape[:1]:
            raise ValueError(
                f"A distance takes two tensors of shape (n, size) and returns n numbers, but for "
                f"n={len(query_emb)} yours returns {tuple(apart.shape)}."
            )
        return apart
