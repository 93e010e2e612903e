"""Builders of the losses over learned proxies."""

from pytorch_metric_learning import losses

from trainables.losses.objective import Builder, Objective


def proxy_anchor(classes: int, size: int, *, margin: float, alpha: float, weights_lr: float) -> Objective:
    return Objective(losses.ProxyAnchorLoss(classes, size, margin=margin, alpha=alpha), weights_lr=weights_lr)


BUILDERS: dict[str, Builder] = {"proxy_anchor": proxy_anchor}
