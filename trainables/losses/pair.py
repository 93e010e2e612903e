"""Builders of the losses over pairs."""

from pytorch_metric_learning import distances, losses, miners

from trainables.losses.objective import Builder, Objective


def contrastive(classes: int, size: int, *, margin: float) -> Objective:
    # pos_margin=1: equal pairs are pulled all the way, the gradient of thesis 2.15.
    return Objective(losses.ContrastiveLoss(pos_margin=1, neg_margin=margin, distance=distances.CosineSimilarity()))


def multi_similarity(classes: int, size: int, *, margin: float, alpha: float, beta: float, epsilon: float) -> Objective:
    return Objective(
        losses.MultiSimilarityLoss(alpha=alpha, beta=beta, base=margin),
        miners.MultiSimilarityMiner(epsilon=epsilon),
    )


BUILDERS: dict[str, Builder] = {"contrastive": contrastive, "multi_similarity": multi_similarity}
