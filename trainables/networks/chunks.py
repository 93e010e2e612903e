"""Embed a batch in chunks that keep no activations: the same gradients from less memory."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def embed_in_chunks(embed: Callable[[Tensor], Tensor], images: Tensor, size: int) -> Tensor:
    """Return the embeddings of all images, `size` of them at a time.

    The loss sees the whole batch. Its gradient then goes back chunk by chunk, and each chunk is
    embedded once more for that, so that the activations of one chunk are the most that is held (Gao
    et al., 2021: gradient cache). That is exact if no layer mixes images, as batch norm does while
    it learns.
    """
    parts = torch.split(images, size)
    return torch.cat([checkpoint(embed, part, use_reentrant=False) for part in parts])
