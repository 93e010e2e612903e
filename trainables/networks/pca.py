"""Turn the head into a PCA of the features below it, which no loss learns."""

import torch
from torch import Tensor, nn

BLOCK = 4096  # rows in double precision at a time


def set_principal(head: nn.Module, features: Tensor) -> None:
    """Make the head a PCA of these features: centred, not whitened, the largest component first.

    Outputs beyond what the features span are zero.
    """
    assert isinstance(head, nn.Linear), "raw pixels have no head"
    rows, width = features.shape
    mean = features.mean(0, dtype=torch.float64)
    scatter = torch.zeros(width, width, dtype=torch.float64, device=features.device)
    for start in range(0, rows, BLOCK):
        centred = features[start : start + BLOCK].double() - mean
        scatter += centred.T @ centred
    count = min(head.out_features, rows - 1, width)
    components = torch.linalg.eigh(scatter).eigenvectors.flip(1)[:, :count].T
    with torch.no_grad():
        head.weight.zero_()
        head.bias.zero_()
        head.weight[:count] = components.to(head.weight.dtype)
        head.bias[:count] = -(components @ mean).to(head.bias.dtype)
