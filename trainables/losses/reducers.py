"""Reduce the losses of tuples to one as the library does, with fewer waits for the device."""

import torch
from pytorch_metric_learning.reducers import AvgNonZeroReducer, DivisorReducer
from torch import Tensor


class NonZeroMean(AvgNonZeroReducer):
    """Take the mean of the losses above zero.

    The library picks them by a mask, for whose size the host waits, and again in the backward pass.
    """

    def element_reduction_helper(self, losses: Tensor, embeddings: Tensor) -> Tensor:
        counted = losses.flatten()[(losses.detach() > 0).flatten().nonzero().squeeze(1)]
        zero: Tensor = self.zero_loss(embeddings)
        return counted.mean() if len(counted) else zero


class Quotient(DivisorReducer):
    """Divide the sum by the loss's own divisor, or return zero if that is zero.

    The library asks the device whether it is, and whether the quotient is a number.
    """

    def sum_and_divide(self, losses: Tensor, embeddings: Tensor, divisor: Tensor | int) -> Tensor:
        zero: Tensor = self.zero_loss(embeddings)
        if not torch.is_tensor(divisor):
            return losses.sum() / divisor if divisor else zero
        return torch.where(divisor == 0, zero, losses.sum() / divisor.clamp(min=1))
