"""Build the losses that compare a positive with negatives of the same anchor."""

from collections.abc import Callable

from pytorch_metric_learning import distances, losses, reducers, regularizers
from pytorch_metric_learning.distances.base_distance import BaseDistance

from trainables.losses.formulas import NTXent, OwnDistance, TupletMargin
from trainables.losses.mining import GivenTriplets, SemiHardNegative
from trainables.losses.objective import Builder, Objective
from trainables.losses.reducers import NonZeroMean
from trainables.losses.without_waiting import NPairsLoss

DISTANCES: dict[str, Callable[[], BaseDistance]] = {
    "cosine": distances.CosineSimilarity,
    "euclidean": distances.LpDistance,
    "squared_euclidean": lambda: distances.LpDistance(power=2),
}


def triplet(classes: int, size: int, *, margin: float) -> Objective:
    return Objective(
        losses.TripletMarginLoss(
            margin=margin, distance=distances.CosineSimilarity(), reducer=NonZeroMean()
        ),
        SemiHardNegative(),
    )


def triplet_euclidean(classes: int, size: int, *, margin: float) -> Objective:
    return Objective(
        losses.TripletMarginLoss(
            margin=margin, distance=distances.LpDistance(), reducer=NonZeroMean()
        )
    )


def triplet_p_norm(
    classes: int, size: int, *, p: float, margin: float, swap: bool, mining: str
) -> Objective:
    # Not normalised here: the library would normalise by the p-norm, but the vectors have length 1
    # by the 2-norm.
    return _given_triplets(
        distances.LpDistance(p=p, normalize_embeddings=False),
        margin=margin,
        swap=swap,
        mining=mining,
    )


def triplet_distance(
    classes: int, size: int, *, distance: str, margin: float, swap: bool, mining: str
) -> Objective:
    made = DISTANCES[distance]() if distance in DISTANCES else OwnDistance(distance)
    return _given_triplets(made, margin=margin, swap=swap, mining=mining)


def _given_triplets(distance: BaseDistance, *, margin: float, swap: bool, mining: str) -> Objective:
    """Take the mean over all triplets, as PyTorch does; the library's default skips zeros."""
    loss = losses.TripletMarginLoss(
        margin=margin, swap=swap, distance=distance, reducer=reducers.MeanReducer()
    )
    return Objective(loss, GivenTriplets(mining, distance))


def n_pair(classes: int, size: int, *, l2: float) -> Objective:
    return Objective(
        NPairsLoss(
            # The library's default normalises.
            distance=distances.DotProductSimilarity(normalize_embeddings=False),
            embedding_regularizer=regularizers.LpRegularizer(p=2, power=2),
            embedding_reg_weight=l2,
        )
    )


def nt_xent(classes: int, size: int, *, temperature: float) -> Objective:
    return Objective(NTXent(temperature))


def tuplet_margin(classes: int, size: int, *, margin: float, scale: float) -> Objective:
    return Objective(TupletMargin(margin, scale))


def angular(classes: int, size: int, *, alpha: float) -> Objective:
    return Objective(losses.AngularLoss(alpha=alpha))


BUILDERS: dict[str, Builder] = {
    "triplet": triplet,
    "triplet_euclidean": triplet_euclidean,
    "triplet_p_norm": triplet_p_norm,
    "triplet_distance": triplet_distance,
    "n_pair": n_pair,
    "nt_xent": nt_xent,
    "tuplet_margin": tuplet_margin,
    "angular": angular,
}
