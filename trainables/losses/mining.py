"""Define miners that the library lacks, such as semi-hard negatives and random positives."""

import torch
from pytorch_metric_learning.distances import CosineSimilarity
from pytorch_metric_learning.distances.base_distance import BaseDistance
from pytorch_metric_learning.miners import DistanceWeightedMiner, MultiSimilarityMiner
from pytorch_metric_learning.utils import loss_and_miner_utils
from torch import Tensor, nn

Triplets = tuple[Tensor, Tensor, Tensor]
Pairs = tuple[Tensor, Tensor, Tensor, Tensor]


class SemiHardNegative(nn.Module):
    """Find, for every (anchor, positive), the most similar negative below the positive.

    The library's 'semihard' takes all negatives within the margin instead.
    """

    def forward(self, embeddings: Tensor, labels: Tensor) -> Triplets:
        anchors, positives, _, _ = loss_and_miner_utils.get_all_pairs_indices(labels)
        return _pick(
            _apart(embeddings, CosineSimilarity()), labels, (anchors, positives), "semi_hard"
        )


class RandomPositive(nn.Module):
    """Draw, for every anchor, one positive at random with the negative of SemiHardNegative."""

    def forward(self, embeddings: Tensor, labels: Tensor) -> Triplets:
        equal = loss_and_miner_utils.get_matches_and_diffs(labels)[0].bool()
        drawn = torch.rand(equal.shape).to(labels.device)  # on the CPU: the same on every machine
        anchors = equal.any(dim=1).nonzero().flatten()
        positives = drawn.masked_fill(~equal, -1).argmax(dim=1)[anchors]
        return _pick(
            _apart(embeddings, CosineSimilarity()), labels, (anchors, positives), "semi_hard"
        )


class GivenTriplets(nn.Module):
    """Read rows a, p, n, a, p, n, ... as 'triplets' batches hold them.

    With a rule, (a, p) gets its negative from the whole batch instead. easy: the farthest negative;
    hard: the nearest; semi_hard: the nearest that is farther than the positive.
    """

    def __init__(self, rule: str, distance: BaseDistance) -> None:
        super().__init__()
        self.rule = rule
        self.distance = distance

    def forward(self, embeddings: Tensor, labels: Tensor) -> Triplets:
        anchors = 3 * torch.arange(len(labels) // 3, device=labels.device)
        positives, negatives = anchors + 1, anchors + 2
        real = labels[anchors] == labels[positives]
        if self.rule != "none":
            return _pick(
                _apart(embeddings, self.distance),
                labels,
                (anchors[real], positives[real]),
                self.rule,
            )
        real &= labels[anchors] != labels[negatives]
        return anchors[real], positives[real], negatives[real]


class WholeAnchors(nn.Module):
    """Take all pairs of the anchors that have both an equal and a different image."""

    def forward(self, embeddings: Tensor, labels: Tensor) -> Pairs:
        equal, different = loss_and_miner_utils.get_matches_and_diffs(labels)
        whole = (equal.bool().any(dim=1) & different.bool().any(dim=1))[:, None]
        anchors, positives = torch.where(equal.bool() & whole)
        others, negatives = torch.where(different.bool() & whole)
        return anchors, positives, others, negatives


class HarderPairs(MultiSimilarityMiner):
    """Name a lone pair of the library's miner twice, so that it counts once.

    The library's losses ignore a single pair.
    """

    def mine(
        self, embeddings: Tensor, labels: Tensor, ref_emb: Tensor, ref_labels: Tensor
    ) -> tuple[Tensor, ...]:
        pairs: Pairs = super().mine(embeddings, labels, ref_emb, ref_labels)
        return tuple(part.repeat(2) if len(part) == 1 else part for part in pairs)


class DistanceWeighted(DistanceWeightedMiner):
    """Run the library's miner, but mine nothing in a diverged batch, where it fails.

    The loss of such a batch is not finite.
    """

    def mine(
        self, embeddings: Tensor, labels: Tensor, ref_emb: Tensor, ref_labels: Tensor
    ) -> Triplets:
        if not embeddings.isfinite().all():
            nothing = labels.new_empty(0)
            return nothing, nothing, nothing
        triplets: Triplets = super().mine(embeddings, labels, ref_emb, ref_labels)
        return triplets


def _apart(embeddings: Tensor, distance: BaseDistance) -> Tensor:
    """Return distances between all rows, also where the library's object gives similarities."""
    with torch.no_grad():
        apart: Tensor = distance(embeddings)
        return -apart if distance.is_inverted else apart


def _pick(apart: Tensor, labels: Tensor, pairs: tuple[Tensor, Tensor], rule: str) -> Triplets:
    """Return each pair with the negative that the rule picks; drop pairs without one."""
    anchors, positives = pairs
    allowed = labels[anchors, None] != labels
    if rule == "semi_hard":
        allowed &= apart[anchors] > apart[anchors, positives][:, None]
    far = rule == "easy"
    candidates = apart[anchors].masked_fill(~allowed, -torch.inf if far else torch.inf)
    negatives = candidates.argmax(dim=1) if far else candidates.argmin(dim=1)
    found = allowed.any(dim=1)
    return anchors[found], positives[found], negatives[found]
