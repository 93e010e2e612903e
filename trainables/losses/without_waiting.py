"""Compute losses of the library with the same numbers, but without asking the device for sizes."""

from typing import Any

import torch
from pytorch_metric_learning import losses
from pytorch_metric_learning.utils import loss_and_miner_utils
from torch import Tensor
from torch.nn import functional as F

from trainables.losses.formulas import LossParts
from trainables.losses.labels import class_sizes, on_host, put


class CircleLoss(losses.CircleLoss):
    """Choose equal and different pairs by torch.where, in place of an index."""

    def _compute_loss(self, mat: Tensor, pos_mask: Tensor, neg_mask: Tensor) -> LossParts:
        equal, different = pos_mask.bool(), neg_mask.bool()
        fixed, zero = mat.detach(), torch.zeros_like(mat)
        pulled = -self.gamma * torch.relu(self.op - fixed) * (mat - self.delta_p)
        pushed = self.gamma * torch.relu(fixed - self.on) * (mat - self.delta_n)
        logits = torch.where(equal, pulled, torch.where(different, pushed, zero))
        both = [
            loss_and_miner_utils.logsumexp(logits, keep_mask=mask, add_one=False, dim=1)
            for mask in (equal, different)
        ]
        whole = equal.any(dim=1, keepdim=True) & different.any(dim=1, keepdim=True)
        each = self.soft_plus(both[0] + both[1]) * whole
        rows = torch.arange(len(mat), device=mat.device)
        return {"loss": {"losses": each, "indices": rows, "reduction_type": "element"}}


class FastAPLoss(losses.FastAPLoss):
    """Find the rows with a match on the host, and empty bins by torch.where."""

    def compute_loss(self, embeddings: Tensor, labels: Tensor, *_: Any) -> LossParts:
        matched = torch.nonzero(class_sizes(labels) > 1).flatten()
        if not len(matched):
            nothing: LossParts = self.zero_losses()
            return nothing
        rows = put(matched, embeddings.device)
        masks = loss_and_miner_utils.get_matches_and_diffs(labels)
        positive, negative = self._histograms(self.distance(embeddings), masks)
        closer, below = positive.cumsum(dim=1), (positive + negative).cumsum(dim=1)
        product = positive * closer
        there = (product > 0) & (below > 0)
        precision = torch.where(there, product / torch.where(there, below, 1), 0).sum(dim=1)
        each = 1 - precision[rows] / masks[0].to(embeddings.dtype).sum(dim=1)[rows]
        # A row that is not a number has only empty bins, and must not pass for one.
        each = each + 0 * embeddings.sum()
        return {"loss": {"losses": each, "indices": rows, "reduction_type": "element"}}

    def _histograms(self, apart: Tensor, masks: tuple[Tensor, Tensor]) -> list[Tensor]:
        longest = 2**self.distance.power
        edges = torch.linspace(
            0.0, longest, steps=self.num_edges, device=apart.device, dtype=apart.dtype
        ).view(-1, 1, 1)
        pulse = torch.relu(1 - (apart - edges).abs() / (longest / self.num_bins))
        return [(pulse * mask.to(apart.dtype)).sum(dim=2).t() for mask in masks]


class NPairsLoss(losses.NPairsLoss):
    """Find the first two rows of each class on the host."""

    def compute_loss(self, embeddings: Tensor, labels: Tensor, *_: Any) -> LossParts:
        known = on_host(labels)
        order = known.argsort(stable=True)
        _, sizes = torch.unique_consecutive(known[order], return_counts=True)
        firsts = (sizes.cumsum(0) - sizes)[sizes > 1]
        if not len(firsts):
            nothing: LossParts = self.zero_losses()
            return nothing
        both = put(torch.stack([order[firsts], order[firsts + 1]]), embeddings.device)
        similar = self.distance(embeddings[both[0]], embeddings[both[1]])
        targets = torch.arange(len(firsts), device=embeddings.device)
        each = F.cross_entropy(
            similar if self.distance.is_inverted else -similar, targets, reduction="none"
        )
        return {"loss": {"losses": each, "indices": both[0], "reduction_type": "element"}}


class _OwnCosine:
    """Take each row's cosine to its own class by gather, in place of a mask."""

    def compute_loss(self: Any, embeddings: Tensor, labels: Tensor, *_: Any) -> LossParts:
        self.cast_types(embeddings.dtype, embeddings.device)
        cosines = self.get_cosine(embeddings)
        own = cosines.gather(1, labels[:, None]).squeeze(1)
        change = (self.modify_cosine_of_target_classes(own) - own)[:, None]
        logits = cosines + F.one_hot(labels, self.num_classes).to(cosines.dtype) * change
        each = self.cross_entropy(self.scale_logits(logits, embeddings), labels)
        rows = torch.arange(len(embeddings), device=embeddings.device)
        return {"loss": {"losses": each, "indices": rows, "reduction_type": "element"}}


class ArcFaceLoss(_OwnCosine, losses.ArcFaceLoss):
    """Add the margin to the angle of the own class."""


class CosFaceLoss(_OwnCosine, losses.CosFaceLoss):
    """Subtract the margin from the cosine of the own class."""


class SphereFaceLoss(_OwnCosine, losses.SphereFaceLoss):
    """Multiply the angle of the own class by the margin."""


class ProxyNCALoss(losses.ProxyNCALoss):
    """Keep the proxies' labels on the device, and pick the rows that count once."""

    proxy_labels: Tensor

    def __init__(self, num_classes: int, embedding_size: int, **kwargs: Any) -> None:
        super().__init__(num_classes, embedding_size, **kwargs)
        del self.proxy_labels
        self.register_buffer("proxy_labels", torch.arange(num_classes), persistent=False)

    def nca_computation(
        self,
        query: Tensor,
        reference: Tensor,
        query_labels: Tensor,
        reference_labels: Tensor,
        indices_tuple: object,
    ) -> LossParts:
        apart = self.distance(query, reference)
        near = apart if self.distance.is_inverted else -apart
        equal = (query_labels[:, None] == reference_labels).to(query.dtype)
        share = (F.softmax(self.softmax_scale * near, dim=1) * equal).sum(dim=1)
        rows = torch.nonzero(share.detach()).squeeze(1)  # the others have no logarithm
        each = -torch.log(share[rows])
        return {"loss": {"losses": each, "indices": rows, "reduction_type": "element"}}


class ProxyAnchorLoss(losses.ProxyAnchorLoss):
    """Count the classes of the batch on the host."""

    def compute_loss(self, embeddings: Tensor, labels: Tensor, *_: Any) -> LossParts:
        self.cast_types(embeddings.dtype, embeddings.device)
        cosines = self.get_logits(embeddings)
        own = F.one_hot(labels, self.num_classes).bool()
        pull = self.alpha * self.distance.margin(cosines, self.margin)
        push = self.alpha * self.distance.margin(-self.margin, cosines)
        divisors = {"pos_loss": len(torch.unique(on_host(labels))), "neg_loss": self.num_classes}
        parts = zip(divisors.items(), ((pull, own), (push, ~own)), strict=True)
        rows = torch.arange(len(self.proxies), device=embeddings.device)
        return {
            name: {
                "losses": loss_and_miner_utils.logsumexp(logits, keep_mask=mask, dim=0).squeeze(0),
                "indices": rows,
                "reduction_type": "element",
                "divisor": divisor,
            }
            for (name, divisor), (logits, mask) in parts
        }
