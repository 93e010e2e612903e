"""Builders of the losses over triplets."""

from pytorch_metric_learning import distances, losses

from trainables.losses.mining import SemiHardNegative
from trainables.losses.objective import Builder, Objective


def triplet(classes: int, size: int, *, margin: float) -> Objective:
    return Objective(losses.TripletMarginLoss(margin=margin, distance=distances.CosineSimilarity()), SemiHardNegative())


BUILDERS: dict[str, Builder] = {"triplet": triplet}
