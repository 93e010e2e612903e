"""Keep a batch's labels on the host too: what they say is counted there, and no device is asked.

Finding pairs on a GPU makes the host wait for their number, unless the host says it beforehand.
"""

import torch
from pytorch_metric_learning.utils import loss_and_miner_utils
from torch import Tensor

Pairs = tuple[Tensor, Tensor, Tensor, Tensor]
Triplets = tuple[Tensor, Tensor, Tensor]
UNLABELLED = -1  # the label of a train image whose class the loss must not know


def put(host: Tensor, device: torch.device) -> Tensor:
    """Return the tensor on the device; the host does not wait until it is there."""
    if device.type == "cpu":
        return host
    return host.pin_memory().to(device, non_blocking=True)


def put_labels(host: Tensor, device: torch.device) -> Tensor:
    """Return the labels on the device, where on_host() finds them again without asking it."""
    labels = put(host, device)
    labels.known = host  # type: ignore[attr-defined]
    return labels


def on_host(labels: Tensor) -> Tensor:
    """Return the labels on the CPU; only labels that put_labels() has not made are copied."""
    known = getattr(labels, "known", None)
    return labels.cpu() if known is None else known


def class_sizes(labels: Tensor) -> Tensor:
    """Return on the host, for each row, how many rows have its label."""
    known = on_host(labels)
    sizes: Tensor = (known[:, None] == known).sum(1)
    return sizes


def found(mask: Tensor, count: int) -> tuple[Tensor, ...]:
    """Return the indices of all true values, of which there are `count`."""
    return torch.nonzero_static(mask, size=count).unbind(1)


def all_pairs(labels: Tensor, ref_labels: Tensor | None = None) -> Pairs:
    """Return anchors and positives, anchors and negatives: all pairs, in the library's order."""
    ref_labels = labels if ref_labels is None else ref_labels
    equal, different = loss_and_miner_utils.get_matches_and_diffs(labels, ref_labels)
    known = on_host(labels)[:, None] == on_host(ref_labels)
    matches, itself = int(known.sum()), len(labels) if ref_labels is labels else 0
    anchors, positives = found(equal, matches - itself)
    others, negatives = found(different, known.numel() - matches)
    return anchors, positives, others, negatives


def all_triplets(labels: Tensor, ref_labels: Tensor | None = None) -> Triplets:
    """Return anchors, positives and negatives: all triplets, in the library's order."""
    ref_labels = labels if ref_labels is None else ref_labels
    equal, different = loss_and_miner_utils.get_matches_and_diffs(labels, ref_labels)
    matches = (on_host(labels)[:, None] == on_host(ref_labels)).sum(1)
    positives = matches - 1 if ref_labels is labels else matches
    count = int((positives * (len(ref_labels) - matches)).sum())
    anchors, near, far = found(equal[:, :, None] * different[:, None, :], count)
    return anchors, near, far


# The library's own losses and miners find their pairs by these two. They get the same tuples.
loss_and_miner_utils.get_all_pairs_indices = all_pairs
loss_and_miner_utils.get_all_triplets_indices = all_triplets
