"""What the library lacks for losses with weights: the paper's ProxyNCA, lean centres for SoftTriple, the thesis's losses, a label check."""

import torch
from pytorch_metric_learning.utils import loss_and_miner_utils
from torch import Tensor, nn
from torch.nn import functional as F


class Labelled(nn.Module):
    """A loss that refuses labels without a weight; the library drops some of them, or counts them from the end."""

    def __init__(self, loss: nn.Module, classes: int) -> None:
        super().__init__()
        self.loss, self.classes = loss, classes

    def forward(self, embeddings: Tensor, labels: Tensor, tuples: object = None) -> Tensor:
        low, high = (int(end) for end in labels.aminmax())
        if low < 0 or high >= self.classes:
            raise ValueError(f"Labels are 0 to {self.classes - 1}, but a batch holds {low} to {high}; number the split's classes from 0.")
        value: Tensor = self.loss(embeddings, labels, tuples)
        return value


class ProxyNCA(nn.Module):
    """d(x, w_y) + log of the sum of exp(-d(x, w)) over the other proxies, d the squared distance of unit vectors.

    The library's denominator holds the own proxy, too.
    """

    def __init__(self, classes: int, size: int) -> None:
        super().__init__()
        self.proxies = nn.Parameter(torch.randn(classes, size))

    def forward(self, embeddings: Tensor, labels: Tensor, tuples: object = None) -> Tensor:
        squared = 2 - 2 * F.normalize(embeddings) @ F.normalize(self.proxies.to(embeddings.dtype)).T
        own = F.one_hot(labels, len(self.proxies)).bool()
        return (squared[own] + (-squared).masked_fill(own, -torch.inf).logsumexp(dim=1)).mean()


class SparseCenters(nn.Module):
    """SoftTriple's regulariser: the distances of a class's unit centres, summed over pairs, by classes * K * (K - 1).

    The library compares all centres with all others, 50 GB for the 11,318 classes of SOP with ten centres each.
    """

    def __init__(self, classes: int, centers: int) -> None:
        super().__init__()
        self.classes, self.centers = classes, centers

    def forward(self, weights: Tensor) -> Tensor:
        unit = F.normalize(weights).view(self.classes, self.centers, -1)
        # Not sqrt(2 - 2 cosine), which has no digits left where centres meet; and meeting is what this is for.
        apart = torch.cdist(unit, unit, compute_mode="donot_use_mm_for_euclid_dist")
        return apart.sum() / (2 * self.classes * self.centers * (self.centers - 1))  # cdist has every pair twice


class ThesisLoss1(nn.Module):
    """Thesis 6.1: a proxy pulls the images of its class as ProxyAnchor's does, and is pushed away from all other proxies."""

    def __init__(self, classes: int, size: int, *, margin: float, alpha: float) -> None:
        super().__init__()
        self.margin, self.alpha = margin, alpha
        self.proxies = nn.Parameter(torch.empty(classes, size))
        nn.init.kaiming_normal_(self.proxies, mode="fan_out")  # as ProxyAnchor's

    def forward(self, embeddings: Tensor, labels: Tensor, tuples: object = None) -> Tensor:
        x, w = F.normalize(embeddings), F.normalize(self.proxies.to(embeddings.dtype))
        own = F.one_hot(labels, len(w)).bool()
        others = ~torch.eye(len(w), dtype=torch.bool, device=w.device)
        pull = loss_and_miner_utils.logsumexp(-self.alpha * (x @ w.T - self.margin), keep_mask=own, dim=0)  # log(1 + sum of exp)
        push = loss_and_miner_utils.logsumexp(self.alpha * (self.similarity(x, w) + self.margin), keep_mask=others, dim=1)
        value: Tensor = pull.sum() / own.any(dim=0).sum() + push.mean()
        return value

    def similarity(self, x: Tensor, w: Tensor) -> Tensor:
        return w @ w.T


class ThesisLoss2(ThesisLoss1):
    """Thesis 6.2: 6.1 with two proxies as similar as the batch sees them, the sum over x of (w'x)(x'w-)."""

    def similarity(self, x: Tensor, w: Tensor) -> Tensor:
        seen = x @ w.T
        return seen.T @ seen
