"""Build the losses over learned proxies."""

from pytorch_metric_learning import losses

from trainables.losses.objective import Builder, Objective
from trainables.losses.proxy_formulas import (
    Labelled,
    ProxyNCA,
    SparseCenters,
    ThesisLoss1,
    ThesisLoss2,
    ThesisLoss3,
)
from trainables.losses.reducers import Quotient
from trainables.losses.without_waiting import ProxyAnchorLoss, ProxyNCALoss


def proxy_nca(classes: int, size: int, *, weights_lr: float) -> Objective:
    return Objective(Labelled(ProxyNCA(classes, size), classes), weights_lr=weights_lr)


def proxy_nca_pml(classes: int, size: int, *, softmax_scale: float, weights_lr: float) -> Objective:
    return Objective(
        Labelled(ProxyNCALoss(classes, size, softmax_scale=softmax_scale), classes),
        weights_lr=weights_lr,
    )


def soft_triple(
    classes: int,
    size: int,
    *,
    margin: float,
    alpha: float,
    gamma: float,
    tau: float,
    centers: float,
    weights_lr: float,
) -> Objective:
    loss = losses.SoftTripleLoss(
        classes,
        size,
        centers_per_class=int(centers),
        la=alpha,
        gamma=gamma,
        margin=margin,
        weight_regularizer=SparseCenters(classes, int(centers)),
        weight_reg_weight=tau,
    )
    return Objective(Labelled(loss, classes), weights_lr=weights_lr)


def proxy_anchor(
    classes: int, size: int, *, margin: float, alpha: float, weights_lr: float
) -> Objective:
    return Objective(
        Labelled(
            ProxyAnchorLoss(classes, size, margin=margin, alpha=alpha, reducer=Quotient()), classes
        ),
        weights_lr=weights_lr,
    )


def thesis_loss_1(
    classes: int, size: int, *, margin: float, alpha: float, weights_lr: float
) -> Objective:
    return Objective(
        Labelled(ThesisLoss1(classes, size, margin=margin, alpha=alpha), classes),
        weights_lr=weights_lr,
    )


def thesis_loss_2(
    classes: int, size: int, *, margin: float, alpha: float, weights_lr: float
) -> Objective:
    return Objective(
        Labelled(ThesisLoss2(classes, size, margin=margin, alpha=alpha), classes, unlabelled=True),
        weights_lr=weights_lr,
    )


def thesis_loss_3(
    classes: int, size: int, *, margin: float, alpha: float, relations: float, weights_lr: float
) -> Objective:
    loss = ThesisLoss3(classes, size, margin=margin, alpha=alpha, relations=relations)
    return Objective(Labelled(loss, classes), weights_lr=weights_lr)


BUILDERS: dict[str, Builder] = {
    "proxy_nca": proxy_nca,
    "proxy_nca_pml": proxy_nca_pml,
    "soft_triple": soft_triple,
    "proxy_anchor": proxy_anchor,
    "thesis_loss_1": thesis_loss_1,
    "thesis_loss_2": thesis_loss_2,
    "thesis_loss_3": thesis_loss_3,
}
