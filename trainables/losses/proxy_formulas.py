"""Define losses with weights that the library lacks: ProxyNCA, SoftTriple centres, the thesis's."""

import torch
from pytorch_metric_learning.utils import loss_and_miner_utils
from torch import Tensor, nn
from torch.nn import functional as F

from trainables.losses.labels import UNLABELLED, on_host

Remembered = tuple[Tensor, Tensor]  # embeddings of earlier batches, and their labels


class Labelled(nn.Module):
    """Refuse labels without a weight; the library drops some, or counts them from the end.

    unlabelled: let images without a label through, to a loss that can use them.
    """

    def __init__(self, loss: nn.Module, classes: int, *, unlabelled: bool = False) -> None:
        super().__init__()
        self.loss, self.classes = loss, classes
        self.lowest = UNLABELLED if unlabelled else 0

    def forward(
        self, embeddings: Tensor, labels: Tensor, tuples: object = None, *more: object
    ) -> Tensor:
        low, high = (int(end) for end in on_host(labels).aminmax())
        if low < self.lowest or high >= self.classes:
            raise ValueError(
                f"Labels must be 0 to {self.classes - 1}, but a batch holds {low} to {high}; "
                f"number the split's classes from 0."
            )
        value: Tensor = self.loss(embeddings, labels, tuples, *more)
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
        mine = squared.gather(1, labels[:, None]).squeeze(1)
        return (mine + (-squared).masked_fill(own, -torch.inf).logsumexp(dim=1)).mean()


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
    """Compute thesis 6.1: a proxy pulls its images as ProxyAnchor's does, and all proxies repel.

    remembered: embeddings of earlier batches and their labels, which count as further images.
    """

    def __init__(self, classes: int, size: int, *, margin: float, alpha: float) -> None:
        super().__init__()
        self.margin, self.alpha = margin, alpha
        self.proxies = nn.Parameter(torch.empty(classes, size))
        nn.init.kaiming_normal_(self.proxies, mode="fan_out")  # as ProxyAnchor's

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        tuples: object = None,
        remembered: Remembered | None = None,
    ) -> Tensor:
        x, w = F.normalize(embeddings), F.normalize(self.proxies.to(embeddings.dtype))
        seen, marks = x, labels
        if remembered is not None:
            seen = torch.cat([x, F.normalize(remembered[0])])
            marks = torch.cat([labels, remembered[1]])
        own = marks[:, None] == torch.arange(len(w), device=w.device)  # unlabelled: none
        others = ~torch.eye(len(w), dtype=torch.bool, device=w.device)
        pull = self._pull(seen @ w.T, own, dim=0)
        push = self._push(self.similarity(seen, w, batch=len(x)), others)
        value: Tensor = pull.sum() / own.any(dim=0).sum().clamp(min=1) + push.mean()
        return value + self.relate(x, labels, seen, marks)

    def _pull(self, cosines: Tensor, keep: Tensor, *, dim: int) -> Tensor:
        # The library's logsumexp is log(1 + sum of exp).
        value: Tensor = loss_and_miner_utils.logsumexp(
            -self.alpha * (cosines - self.margin), keep_mask=keep, dim=dim
        )
        return value

    def _push(self, cosines: Tensor, keep: Tensor) -> Tensor:
        value: Tensor = loss_and_miner_utils.logsumexp(
            self.alpha * (cosines + self.margin), keep_mask=keep, dim=1
        )
        return value

    def similarity(self, x: Tensor, w: Tensor, *, batch: int) -> Tensor:
        """Return how similar each two proxies are. batch: how many of the images are its own."""
        return w @ w.T

    def relate(self, x: Tensor, labels: Tensor, seen: Tensor, marks: Tensor) -> Tensor | float:
        """Return what relations between images cost: nothing here."""
        return 0.0


class ThesisLoss2(ThesisLoss1):
    """Compute thesis 6.2: as 6.1, but two proxies' similarity is the sum over x of (w'x)(x'w-).

    No label is read there, so images without one count. With a memory the sum is scaled to as many
    images as the batch has, so that alpha keeps its meaning.
    """

    def similarity(self, x: Tensor, w: Tensor, *, batch: int) -> Tensor:
        through = x @ w.T
        return through.T @ through * (batch / len(x))


class ThesisLoss3(ThesisLoss1):
    """Compute our redesign of 6.1: both of its terms again, with images in the place of proxies.

    Every image pulls the others of its class and pushes those of other classes, by hardness.
    """

    def __init__(
        self, classes: int, size: int, *, margin: float, alpha: float, relations: float
    ) -> None:
        super().__init__(classes, size, margin=margin, alpha=alpha)
        self.relations = relations

    def relate(self, x: Tensor, labels: Tensor, seen: Tensor, marks: Tensor) -> Tensor:
        cosines = x @ seen.T
        equal = labels[:, None] == marks
        itself = torch.eye(len(x), len(seen), dtype=torch.bool, device=x.device)
        pull = self._pull(cosines, equal & ~itself, dim=1)
        return self.relations * (pull + self._push(cosines, ~equal)).mean()
