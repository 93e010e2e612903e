"""Build the losses that compare each pair's similarity with a value."""

from pytorch_metric_learning import distances, losses, regularizers

from trainables.losses.formulas import HingeEmbedding
from trainables.losses.mining import DistanceWeighted, HarderPairs, WholeAnchors
from trainables.losses.objective import Builder, Objective
from trainables.losses.reducers import NonZeroMean, Quotient
from trainables.losses.without_waiting import CircleLoss, FastAPLoss


def contrastive(classes: int, size: int, *, margin: float) -> Objective:
    # pos_margin=1: equal pairs are pulled all the way, the gradient of thesis 2.15.
    return Objective(
        losses.ContrastiveLoss(
            pos_margin=1,
            neg_margin=margin,
            distance=distances.CosineSimilarity(),
            reducer=NonZeroMean(),
        )
    )


def contrastive_euclidean(
    classes: int, size: int, *, pos_margin: float, neg_margin: float
) -> Objective:
    return Objective(
        losses.ContrastiveLoss(
            pos_margin=pos_margin,
            neg_margin=neg_margin,
            distance=distances.LpDistance(),
            reducer=NonZeroMean(),
        )
    )


def snr_contrastive(
    classes: int, size: int, *, pos_margin: float, neg_margin: float, zero_mean: float
) -> Objective:
    return Objective(
        losses.SignalToNoiseRatioContrastiveLoss(
            pos_margin=pos_margin,
            neg_margin=neg_margin,
            embedding_regularizer=regularizers.ZeroMeanRegularizer(),
            embedding_reg_weight=zero_mean,
            reducer=NonZeroMean(),
        )
    )


def hinge_embedding(classes: int, size: int, *, margin: float) -> Objective:
    return Objective(HingeEmbedding(margin))


def margin(classes: int, size: int, *, margin: float, beta: float, weights_lr: float) -> Objective:
    loss = losses.MarginLoss(margin=margin, beta=beta, learn_beta=True, reducer=Quotient())
    return Objective(loss, DistanceWeighted(), weights_lr=weights_lr)


def margin_per_class(
    classes: int, size: int, *, margin: float, beta: float, weights_lr: float
) -> Objective:
    loss = losses.MarginLoss(
        margin=margin, beta=beta, learn_beta=True, num_classes=classes, reducer=Quotient()
    )
    return Objective(loss, DistanceWeighted(), weights_lr=weights_lr)


def multi_similarity(
    classes: int, size: int, *, margin: float, alpha: float, beta: float, epsilon: float
) -> Objective:
    return Objective(
        losses.MultiSimilarityLoss(alpha=alpha, beta=beta, base=margin),
        HarderPairs(epsilon=epsilon),
    )


def multi_similarity_no_miner(
    classes: int, size: int, *, margin: float, alpha: float, beta: float
) -> Objective:
    return Objective(losses.MultiSimilarityLoss(alpha=alpha, beta=beta, base=margin))


def lifted_structure(classes: int, size: int, *, margin: float) -> Objective:
    # The 'generalized' loss is thesis 2.21; LiftedStructureLoss is the paper's squared hinge on
    # distances.
    loss = losses.GeneralizedLiftedStructureLoss(
        pos_margin=margin, neg_margin=0, distance=distances.CosineSimilarity()
    )
    return Objective(loss, WholeAnchors())


def circle(classes: int, size: int, *, margin: float, scale: float) -> Objective:
    return Objective(CircleLoss(m=margin, gamma=scale, reducer=NonZeroMean()))


def fast_ap(classes: int, size: int, *, bins: float) -> Objective:
    return Objective(FastAPLoss(num_bins=int(bins)))


BUILDERS: dict[str, Builder] = {
    "contrastive": contrastive,
    "contrastive_euclidean": contrastive_euclidean,
    "snr_contrastive": snr_contrastive,
    "hinge_embedding": hinge_embedding,
    "margin": margin,
    "margin_per_class": margin_per_class,
    "multi_similarity": multi_similarity,
    "multi_similarity_no_miner": multi_similarity_no_miner,
    "lifted_structure": lifted_structure,
    "circle": circle,
    "fast_ap": fast_ap,
}
