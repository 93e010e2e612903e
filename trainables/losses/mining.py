"""Define miners that the library lacks, such as semi-hard negatives and random positives."""

import torch
from pytorch_metric_learning.distances import CosineSimilarity, LpDistance
from pytorch_metric_learning.distances.base_distance import BaseDistance
from pytorch_metric_learning.miners import BatchEasyHardMiner, MultiSimilarityMiner
from pytorch_metric_learning.utils import loss_and_miner_utils
from torch import Tensor, nn

from trainables.losses.labels import Pairs, Triplets, all_pairs, class_sizes, found, on_host, put


class SemiHardNegative(nn.Module):
    """Find, for every (anchor, positive), the most similar negative below the positive.

    The library's 'semihard' takes all negatives within the margin instead.
    """

    def forward(self, embeddings: Tensor, labels: Tensor) -> Triplets:
        anchors, positives, _, _ = all_pairs(labels)
        return _pick(
            _apart(embeddings, CosineSimilarity()), labels, (anchors, positives), "semi_hard"
        )


class RandomPositive(nn.Module):
    """Draw, for every anchor, one positive at random with the negative of SemiHardNegative."""

    def forward(self, embeddings: Tensor, labels: Tensor) -> Triplets:
        known = on_host(labels)
        equal = loss_and_miner_utils.get_matches_and_diffs(known)[0].bool()
        drawn = torch.rand(equal.shape, device="cpu")  # the same on every machine
        anchors = equal.any(dim=1).nonzero().flatten()
        positives = drawn.masked_fill(~equal, -1).argmax(dim=1)[anchors]
        pairs = put(torch.stack([anchors, positives]), labels.device)
        return _pick(
            _apart(embeddings, CosineSimilarity()), labels, (pairs[0], pairs[1]), "semi_hard"
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
        known = on_host(labels)
        anchors = 3 * torch.arange(len(known) // 3, device=known.device)
        real = known[anchors] == known[anchors + 1]
        if self.rule == "none":
            real &= known[anchors] != known[anchors + 2]
        chosen = put(anchors[real], labels.device)
        if self.rule == "none":
            return chosen, chosen + 1, chosen + 2
        return _pick(_apart(embeddings, self.distance), labels, (chosen, chosen + 1), self.rule)


class WholeAnchors(nn.Module):
    """Take all pairs of the anchors that have both an equal and a different image."""

    def forward(self, embeddings: Tensor, labels: Tensor) -> Pairs:
        equal, different = loss_and_miner_utils.get_matches_and_diffs(labels)
        whole = (equal.bool().any(dim=1) & different.bool().any(dim=1))[:, None]
        sizes = class_sizes(labels)
        sizes = sizes[(sizes > 1) & (sizes < len(labels))]
        anchors, positives = found(equal.bool() & whole, int((sizes - 1).sum()))
        others, negatives = found(different.bool() & whole, int((len(labels) - sizes).sum()))
        return anchors, positives, others, negatives


class EasyPositive(BatchEasyHardMiner):
    """Find each anchor's nearest positive and the most similar negative below it.

    The library names the triplets as pairs, and the host then waits for them to be triplets again.
    """

    def __init__(self) -> None:
        super().__init__(pos_strategy="easy", neg_strategy="semihard", distance=CosineSimilarity())

    def mine(
        self, embeddings: Tensor, labels: Tensor, ref_emb: Tensor, ref_labels: Tensor
    ) -> Triplets:
        anchors, positives, _, negatives = super().mine(embeddings, labels, ref_emb, ref_labels)
        return anchors, positives, negatives


class HarderPairs(MultiSimilarityMiner):
    """Name a lone pair of the library's miner twice, so that it counts once.

    The library's losses ignore a single pair.
    """

    def mine(
        self, embeddings: Tensor, labels: Tensor, ref_emb: Tensor, ref_labels: Tensor
    ) -> tuple[Tensor, ...]:
        pairs: Pairs = super().mine(embeddings, labels, ref_emb, ref_labels)
        return tuple(part.repeat(2) if len(part) == 1 else part for part in pairs)


class DistanceWeighted(nn.Module):
    """Draw negatives by one over the density of their distance (Wu et al. 2017, section 4).

    An anchor gets as many triplets as its class has images; each has a positive at random. This is
    the distribution of the library's miner, which works class by class and waits after each. In a
    diverged batch no distance is a number, and nothing is drawn.
    """

    cutoff, too_far = 0.5, 1.4  # nearer counts as this near; farther negatives give no gradient

    def forward(self, embeddings: Tensor, labels: Tensor) -> Triplets:
        sizes = class_sizes(labels)
        anchors, positives = _drawn_positives(on_host(labels), sizes)
        draws = torch.rand(len(labels), int(sizes.max()), device="cpu").double()
        with torch.no_grad():
            until = self.weights(embeddings, labels).cumsum(dim=1)
            reached = put(draws, until.device) * until[:, -1:]
            columns = torch.searchsorted(until, reached, right=True).clamp(max=len(labels) - 1)
            turn = _turns(anchors)
            a, p, t = put(torch.stack([anchors, positives, turn]), until.device)
            rows = torch.nonzero(until[a, -1] > 0).squeeze(1)  # the others have no negative
            return a[rows], p[rows], columns[a[rows], t[rows]]

    def weights(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Return how often each row (down) gets each negative (across), up to a factor.

        As in the library, all are relative to the largest of the batch, so that a row whose
        negatives are all much rarer has none.
        """
        size = embeddings.shape[1]
        apart = LpDistance()(embeddings).clamp(min=self.cutoff)
        log = (2.0 - size) * apart.log() - ((size - 3) / 2) * (1.0 - 0.25 * apart**2.0).log()
        unknown, different = ~log.isfinite(), labels[:, None] != labels
        log = log * different  # which makes those of equal rows 1
        largest = log.masked_fill(unknown, -torch.inf).max()
        allowed = different & (apart < self.too_far) & ~unknown
        weights: Tensor = (log - largest).exp().masked_fill(~allowed, 0).double()
        return weights


def _drawn_positives(labels: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Return each anchor as often as its class has rows, and each time one of its positives."""
    able = (sizes > 1) & (sizes < len(labels))
    anchors = torch.arange(len(labels), device="cpu")[able].repeat_interleave(sizes[able])
    order = labels.argsort(stable=True)  # a class's rows one after the other
    place, first = order.argsort(), torch.searchsorted(labels[order], labels)
    others = (torch.rand(len(anchors), device="cpu") * (sizes[anchors] - 1)).long()
    others += others >= (place - first)[anchors]  # skip the anchor itself
    return anchors, order[first[anchors] + others]


def _turns(anchors: Tensor) -> Tensor:
    """Return for each anchor how many equal ones came before it in a row: 0, 1, 2, 0, 1, ..."""
    return torch.arange(len(anchors), device="cpu") - torch.searchsorted(anchors, anchors)


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
    rows = torch.nonzero(allowed.any(dim=1)).squeeze(1)
    return anchors[rows], positives[rows], negatives[rows]
