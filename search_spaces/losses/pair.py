"""Describe the losses that compare each pair's similarity with a value: contrastive and its kin."""

from search_spaces.losses.ranges import COSINE, DISTANCE, RATE, RATES, UNIT
from search_spaces.space import Claim, LossSpace, Param, Range

CONTRASTIVE = LossSpace(
    cite="Hadsell et al., CVPR 2006",
    year=2006, kind="pair", batches="balanced", memory=True,
    about=(
        "Pulls equal pairs together; pushes different pairs below a cosine of margin (thesis 2.15)."
    ),
    params={
        "margin": Param(paper=0.5, thesis=0.5, search=UNIT, domain=COSINE, unit="cosine"),
    },
    similarities=("self",),
    mining="none",
    reduction="mean over the non-zero equal pairs, plus mean over the non-zero different pairs",
    network="2-layer CNN, 5-layer CNN", size=2,
    note=(
        "The 2006 paper prints no margin and squares both hinges on distances; 0.5 is the "
        "thesis's, whose released code uses Euclidean distances instead. The gradient of 2.15 is "
        "that of a positive margin of 1. Table 2 gives sizes 2 and 50. Batches are balanced (our "
        "choice): a random one of 180 holds some 160 equal pairs on CUB, but one or two on SOP."
    ),
)  # fmt: skip

CONTRASTIVE_EUCLIDEAN = LossSpace(
    cite="Hadsell et al., CVPR 2006",
    year=2006, kind="pair", batches="balanced", memory=True,
    about=(
        "Pulls equal pairs below a distance of pos_margin and pushes different ones beyond "
        "neg_margin (reality check)."
    ),
    params={
        "pos_margin": Param(
            paper=0, reality=(-0.2000, 0.2652, 0.2850),
            search=Range(-0.5, 1), domain=Range(-2, 2), unit="distance",
            note=(
                "The reality check's -0.2000 looks like a bound of its search, so ours goes on; "
                "below 0 an equal pair is never done."
            ),
        ),
        "neg_margin": Param(
            paper=1, reality=(0.3841, 0.5409, 0.5130),
            search=Range(0.1, 2), domain=DISTANCE, unit="distance",
        ),
    },
    similarities=("self",),
    mining="none",
    reduction="mean over the non-zero equal pairs, plus mean over the non-zero different pairs",
    note=(
        "0 and 1 are the library's defaults; the 2006 paper squares both hinges and prints no "
        "margin."
    ),
)  # fmt: skip

SNR_CONTRASTIVE = LossSpace(
    cite="Yuan et al., CVPR 2019",
    year=2019, kind="pair", batches="balanced", memory=True,
    about=(
        "Contrastive on var(a - b) / var(a), with the vectors' sums held at zero (reality check)."
    ),
    params={
        "pos_margin": Param(paper=0,   reality=(0.3264, 0.1670, 0.3759), search=UNIT,
                            domain=Range(-2, 100), unit="noise to signal"),
        "neg_margin": Param(paper=1,   reality=(0.8446, 0.9337, 1.0831), search=Range(0.1, 2),
                            domain=Range(0, 100),  unit="noise to signal"),
        "zero_mean":  Param(paper=0.1, reality=(0.1382, 0, 0),           search=UNIT,
                            domain=Range(0, 1e6),  unit="weight of the mean |sum(x)|"),
    },
    similarities=("self",),
    mining="none",
    reduction=(
        "mean over the non-zero equal pairs, plus mean over the non-zero different pairs, plus the "
        "regulariser's mean over the batch"
    ),
    note=(
        "Margins 0 and 1 are the library's defaults and the weight 0.1 is our choice; the paper "
        "was not at hand. The distance is not symmetric: the anchor's variance divides."
    ),
)  # fmt: skip

HINGE_EMBEDDING = LossSpace(
    cite="HingeEmbeddingLoss, PyTorch; triplet tutorial, 2025",
    year=2025, kind="pair", batches="balanced",
    about=(
        "The distance of an equal pair, and what a different pair lacks to margin (triplet "
        "tutorial)."
    ),
    params={
        "margin": Param(paper=1, search=Range(0.1, 2), domain=DISTANCE, unit="distance"),
    },
    similarities=("self",),
    mining="none",
    reduction="mean over all pairs",
    note=(
        "The tutorial names the loss and a single distance; Euclidean distances of all pairs of a "
        "balanced batch are our choice. Unlike contrastive_euclidean the mean is over all pairs at "
        "once, so the many different pairs outweigh the equal ones."
    ),
)  # fmt: skip

MARGIN = LossSpace(
    cite="Wu et al., ICCV 2017",
    year=2017, kind="pair", batches="balanced",
    about=(
        "Contrastive around a learned boundary beta: distances below beta - margin and above beta "
        "+ margin cost nothing (thesis 2.23)."
    ),
    params={
        "margin": Param(
            paper=0.2, thesis=0.5, reality=(0.0878, 0.0781, 0.0915),
            search=Range(0.01, 1, log=True), domain=DISTANCE, unit="distance",
            note=(
                "Table 4 has 0.5 and calls it the paper's; the paper and the thesis's code have "
                "0.2."
            ),
        ),
        "beta": Param(
            paper=1.2, thesis=1.2, reality=(0.7838, 1.3164, 1.1072),
            search=Range(0.5, 1.5), domain=DISTANCE, unit="distance, at the start",
        ),
        "weights_lr": Param(
            paper=5e-5, thesis=5e-5, reality=(1.31e-3, 1.11e-4, 1.82e-3),
            search=RATE, domain=RATES, unit="learning rate of beta",
            note="The paper prints none; 5e-5 is table 4's.",
        ),
    },
    similarities=("self",),
    mining=(
        "distance-weighted: a random positive, and a negative drawn by 1 / q(d), distances cut at "
        "0.5 and 1.4"
    ),
    reduction="sum over the drawn pairs / number of the non-zero ones",
    network="ResNet50", size=128,
    note=(
        "2.23 prints a cosine and I in {0, 1}, which makes the negative term constant; this is the "
        "paper's distance with I in {-1, 1}. beta is not decayed: the reality check had to repeat "
        "its runs for that. The thesis's code does not learn beta. Batches are balanced (our "
        "choice: the thesis draws them at random, where most anchors have a positive on CUB and "
        "almost none on SOP)."
    ),
    claims=(
        Claim("cars196", "resnet50", 128, 79.6,
              "Wu et al., ICCV 2017, as the thesis quotes it in section 4.1.4"),
    ),
)  # fmt: skip

MARGIN_PER_CLASS = LossSpace(
    cite="Wu et al., ICCV 2017",
    year=2017, kind="pair", class_weights=True, batches="balanced",
    about="margin with one learned boundary for each class (reality check, Margin/class).",
    params={
        "margin": Param(
            paper=0.2, reality=(0.0779, 0.0776, 0.0518),
            search=Range(0.01, 1, log=True), domain=DISTANCE, unit="distance",
        ),
        "beta": Param(
            paper=1.2, reality=(0.9796, 0.9598, 0.8424),
            search=Range(0.5, 1.5), domain=DISTANCE, unit="distance, at the start",
        ),
        "weights_lr": Param(
            paper=5e-5, reality=(2.65e-4, 4.76e-5, 7.10e-5),
            search=RATE, domain=RATES, unit="learning rate of beta",
            note="The paper prints none.",
        ),
    },
    similarities=("self",),
    mining=(
        "distance-weighted: a random positive, and a negative drawn by 1 / q(d), distances cut at "
        "0.5 and 1.4"
    ),
    reduction="sum over the drawn pairs / number of the non-zero ones",
    note=(
        "The boundary is that of the anchor's class. The paper adds class offsets to a common beta "
        "and can penalise beta with nu; here each class has its own beta and nu is 0."
    ),
)  # fmt: skip

CARDS = {
    "contrastive": CONTRASTIVE,
    "contrastive_euclidean": CONTRASTIVE_EUCLIDEAN,
    "snr_contrastive": SNR_CONTRASTIVE,
    "hinge_embedding": HINGE_EMBEDDING,
    "margin": MARGIN,
    "margin_per_class": MARGIN_PER_CLASS,
}
