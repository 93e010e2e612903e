"""Miners that no library has: the single hardest semi-hard negative of every pair (thesis 2.20)."""

import torch
from pytorch_metric_learning.utils import loss_and_miner_utils
from torch import Tensor, nn
from torch.nn import functional as F

Triplets = tuple[Tensor, Tensor, Tensor]


class SemiHardNegative(nn.Module):
    """For every (anchor, positive): the most similar negative that is still less similar than the positive.

    The library's 'semihard' takes all negatives within the margin instead.
    """

    def forward(self, embeddings: Tensor, labels: Tensor) -> Triplets:
        with torch.no_grad():
            unit = F.normalize(embeddings)
            similarity = unit @ unit.T
            anchors, positives, _, _ = loss_and_miner_utils.get_all_pairs_indices(labels)
            allowed = (labels[anchors, None] != labels) & (similarity[anchors] < similarity[anchors, positives][:, None])
            candidates = similarity[anchors].masked_fill(~allowed, -torch.inf)
            hardest, negatives = candidates.max(dim=1)
            found = hardest > -torch.inf
        return anchors[found], positives[found], negatives[found]
