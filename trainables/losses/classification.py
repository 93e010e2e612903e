"""Build the losses that classify."""

from pytorch_metric_learning import losses
from torch import Tensor, nn
from torch.nn import functional as F

from trainables.losses.objective import Builder, Objective
from trainables.losses.proxy_formulas import Labelled
from trainables.losses.without_waiting import ArcFaceLoss, CosFaceLoss, SphereFaceLoss


class Softmax(nn.Module):
    """Compute the cross entropy of a linear classifier without a bias, on the raw embedding.

    The library's softmax normalises the embedding.
    """

    def __init__(self, classes: int, size: int) -> None:
        super().__init__()
        self.weights = nn.Linear(size, classes, bias=False).weight  # with torch's initial values

    def forward(self, embeddings: Tensor, labels: Tensor, tuples: object = None) -> Tensor:
        return F.cross_entropy(F.linear(embeddings, self.weights.to(embeddings.dtype)), labels)


def softmax(classes: int, size: int, *, weights_lr: float) -> Objective:
    return Objective(Labelled(Softmax(classes, size), classes), weights_lr=weights_lr)


def normalized_softmax(
    classes: int, size: int, *, temperature: float, weights_lr: float
) -> Objective:
    return Objective(
        Labelled(losses.NormalizedSoftmaxLoss(classes, size, temperature=temperature), classes),
        weights_lr=weights_lr,
    )


def arcface(
    classes: int, size: int, *, margin: float, scale: float, weights_lr: float
) -> Objective:
    return Objective(
        Labelled(ArcFaceLoss(classes, size, margin=margin, scale=scale), classes),
        weights_lr=weights_lr,
    )


def cosface(
    classes: int, size: int, *, margin: float, scale: float, weights_lr: float
) -> Objective:
    return Objective(
        Labelled(CosFaceLoss(classes, size, margin=margin, scale=scale), classes),
        weights_lr=weights_lr,
    )


def sphereface(classes: int, size: int, *, margin: float, weights_lr: float) -> Objective:
    # scale=1: the length of the raw embedding is the scale.
    return Objective(
        Labelled(SphereFaceLoss(classes, size, margin=int(margin), scale=1), classes),
        weights_lr=weights_lr,
    )


BUILDERS: dict[str, Builder] = {
    "softmax": softmax,
    "normalized_softmax": normalized_softmax,
    "arcface": arcface,
    "cosface": cosface,
    "sphereface": sphereface,
}
