"""Define losses with weights that the library lacks: ProxyNCA, SoftTriple centres, the thesis's."""

import torch
from pytorch_metric_learning.utils import loss_and_miner_utils
from torch import Tensor, nn
from torch.nn import functional as F


class Labelled(nn.Module):
    """Refuse labels without a weight; the library drops some, or counts them from the end."""

    def __init__(self, loss: nn.Module, classes: int) -> None:
        super().__init__()
        self.loss, self.classes = loss, classes

    def forward(self, embeddings: Tensor, labels: Tensor, tuples: object = None) -> Tensor:
        low, high = (int(end) for end in labels.aminmax())
        if low < 0 or high >= self.classes:
            raise ValueError(
                f"Labels must be 0 to {self.classes - 1}, but a batch holds {low} to {high}; "
                f"number the split's classes from 0."
            )
        value: Tensor = self.loss(embeddings, labels, tuples)
        return value


class ProxyNCA(nn.Module):
    """Compute d(x, w_y) + log of the sum of exp(-d(x, w)) over the other proxies.

    d is the squared distance of unit vectors. The library's denominator also holds the own proxy.
    """

    def __init__(self, classes: int, size: int) -> None:
        super().__init__()
        self.proxies = nn.Parameter(torch.randn(classes, size))

    def forward(self, embeddings: Tensor, labels: Tensor, tuples: object = None) -> Tensor:
        squared = 2 - 2 * F.normalize(embeddings) @ F.normalize(self.proxies.to(embeddings.dtype)).T
        own = F.one_hot(labels, len(self.proxies)).bool()
        return (squared[own] + (-squared).masked_fill(own, -torch.inf).logsumexp(dim=1)).mean()


class SparseCenters(nn.Module):
    """Compute SoftTriple's regulariser: the distances of a class's unit centres, summed over pairs.

    The sum is divided by classes * K * (K - 1). The library compares all centres with all others:
    50 GB for the 11,318 classes of SOP with ten centres each.
    """

    def __init__(self, classes: int, centers: int) -> None:
        super().__init__()
        self.classes, self.centers = classes, centers

    def forward(self, weights: Tensor) -> Tensor:
        unit = F.normalize(weights).view(self.classes, self.centers, -1)
        # Not sqrt(2 - 2 cosine), which has no digits left where centres meet; and the regulariser
        # makes them meet.
        apart = torch.cdist(unit, unit, compute_mode="donot_use_mm_for_euclid_dist")
        # The factor 2: cdist has every pair twice.
        return apart.sum() / (2 * self.classes * self.centers * (self.centers - 1))


class ThesisLoss1(nn.Module):
    """Compute thesis 6.1: a proxy pulls its images as ProxyAnchor's does, and all proxies repel."""

    def __init__(self, classes: int, size: int, *, margin: float, alpha: float) -> None:
        super().__init__()
        self.margin, self.alpha = margin, alpha
        self.proxies = nn.Parameter(torch.empty(classes, size))
        nn.init.kaiming_normal_(self.proxies, mode="fan_out")  # as ProxyAnchor's

    def forward(self, embeddings: Tensor, labels: Tensor, tuples: object = None) -> Tensor:
        x, w = F.normalize(embeddings), F.normalize(self.proxies.to(embeddings.dtype))
        own = F.one_hot(labels, len(w)).bool()
        others = ~torch.eye(len(w), dtype=torch.bool, device=w.device)
        # The library's logsumexp is log(1 + sum of exp).
        pull = loss_and_miner_utils.logsumexp(
            -self.alpha * (x @ w.T - self.margin), keep_mask=own, dim=0
        )
        push = loss_and_miner_utils.logsumexp(
            self.alpha * (self.similarity(x, w) + self.margin), keep_mask=others, dim=1
        )
        value: Tensor = pull.sum() / own.any(dim=0).sum() + push.mean()
        return value

    def similarity(self, x: Tensor, w: Tensor) -> Tensor:
        """Return how similar each two proxies are."""
        return w @ w.T


class ThesisLoss2(ThesisLoss1):
    """Compute thesis 6.2: as 6.1, but two proxies' similarity is the sum over x of (w'x)(x'w-)."""

    def similarity(self, x: Tensor, w: Tensor) -> Tensor:
        seen = x @ w.T
        return seen.T @ seen
