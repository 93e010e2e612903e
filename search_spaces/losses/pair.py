"""Describe the losses that compare each pair's similarity with a value: contrastive and its kin."""

from search_spaces.losses.ranges import COSINE, DISTANCE, GAP, POSITIVE, RATE, RATES, SCALE, UNIT
from search_spaces.space import Grid, LossSpace, Param, Range

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
        "choice): random ones hold almost no equal pair."
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
            paper=0, reality=-0.20, search=Range(-0.5, 1), domain=Range(-2, 2), unit="distance",
            note=(
                "The reality check's -0.2000 looks like a bound of its search, so ours goes on; "
                "below 0 an equal pair is never done."
            ),
        ),
        "neg_margin": Param(
            paper=1, reality=0.384, search=Range(0.1, 2), domain=DISTANCE, unit="distance",
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
        "pos_margin": Param(paper=0,   reality=0.326, search=UNIT,          domain=Range(-2, 100),
                            unit="noise to signal"),
        "neg_margin": Param(paper=1,   reality=0.845, search=Range(0.1, 2), domain=Range(0, 100),
                            unit="noise to signal"),
        "zero_mean":  Param(paper=0.1, reality=0.138, search=UNIT,          domain=Range(0, 1e6),
                            unit="weight of the mean |sum(x)|"),
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
            paper=0.2, thesis=0.5, reality=0.088,
            search=Range(0.01, 1, log=True), domain=DISTANCE, unit="distance",
            note=(
                "Table 4 has 0.5 and calls it the paper's; the paper and the thesis's code have "
                "0.2."
            ),
        ),
        "beta": Param(
            paper=1.2, thesis=1.2, reality=0.78,
            search=Range(0.5, 1.5), domain=DISTANCE, unit="distance, at the start",
        ),
        "weights_lr": Param(
            paper=5e-5, thesis=5e-5, reality=1.3e-3,
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
        "choice: the thesis seems to draw them at random, where almost no positive could be drawn)."
    ),
)  # fmt: skip

MARGIN_PER_CLASS = LossSpace(
    cite="Wu et al., ICCV 2017",
    year=2017, kind="pair", batches="balanced",
    about="margin with one learned boundary for each class (reality check, Margin/class).",
    params={
        "margin": Param(
            paper=0.2, search=Range(0.01, 1, log=True), domain=DISTANCE, unit="distance",
        ),
        "beta": Param(
            paper=1.2, reality=0.98,
            search=Range(0.5, 1.5), domain=DISTANCE, unit="distance, at the start",
        ),
        "weights_lr": Param(
            paper=5e-5, search=RATE, domain=RATES, unit="learning rate of beta",
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

MULTI_SIMILARITY = LossSpace(
    cite="Wang et al., CVPR 2019",
    year=2019, kind="pair", batches="balanced",
    about=(
        "Weighs every pair by its own and its relative similarity; mines with epsilon (thesis "
        "2.24)."
    ),
    params={
        "margin":  Param(paper=0.5,          thesis=0.5, found=0.8, reality=0.77,
                         grid=Grid(0, 1, 0.1), search=UNIT,  domain=COSINE, unit="cosine"),
        "alpha":   Param(paper=2,            thesis=2,   found=18,  reality=17.97,
                         grid=Grid(2, 100, 2), search=SCALE, domain=POSITIVE),
        "beta":    Param(paper=50,  code=40, thesis=50,  found=76,  reality=75.66,
                         grid=Grid(2, 100, 2), search=SCALE, domain=POSITIVE),
        "epsilon": Param(paper=0.1,          thesis=0.1, found=0.4, reality=0.39,
                         grid=Grid(0, 1, 0.1), search=UNIT,  domain=GAP, unit="cosine"),
    },
    similarities=("self", "positive", "negative"),
    mining="pairs that are harder, within epsilon, than the hardest of the other sort",
    reduction="mean over anchors",
    network="BNInception", size=512,
    note=(
        "The released code has beta 40 and removes near-duplicates (cosine above 1 - 1e-5). The "
        "library's documentation says that the paper prints a margin of 1; code and thesis have "
        "0.5, which is our default. Table 15's optimum is the reality check's, rounded. Table 2 "
        "gives sizes 64 and 512."
    ),
)  # fmt: skip

MULTI_SIMILARITY_NO_MINER = LossSpace(
    cite="Wang et al., CVPR 2019",
    year=2019, kind="pair", batches="balanced", memory=True,
    about="multi_similarity over all pairs of the batch (reality check, MS without miner).",
    params={
        "margin": Param(paper=0.5, reality=0.56, search=UNIT, domain=COSINE, unit="cosine"),
        "alpha": Param(
            paper=2, reality=0.01, search=Range(0.001, 100, log=True), domain=POSITIVE,
            note="The reality check's 0.01 looks like a bound of its search, so ours goes on.",
        ),
        "beta": Param(paper=50, code=40, reality=50.6, search=SCALE, domain=POSITIVE),
    },
    similarities=("self", "negative", "positive"),
    mining="none",
    reduction="mean over anchors",
)  # fmt: skip

LIFTED_STRUCTURE = LossSpace(
    cite="Song et al., CVPR 2016",
    year=2016, kind="pair", batches="balanced",
    about=(
        "All equal pairs of an anchor against all its different ones, each through a log-sum-exp "
        "(thesis 2.21)."
    ),
    params={
        "margin": Param(
            paper=0.5, thesis=0.5, search=UNIT, domain=GAP, unit="cosine",
            note=(
                "The paper prints 1 on distances, with a squared hinge; 0.5 is table 4's for the "
                "cosine form."
            ),
        ),
    },
    similarities=("negative",),
    mining="none",
    reduction="mean over anchors; one without an equal or a different pair counts as 0",
    network="GoogLeNet", size=64,
    note=(
        "2.21 is printed as a sum. Table 5 says hard mining: the paper adds each pair's hardest "
        "neighbours to the batch, the thesis's code is a third formula with its own mining. Where "
        "an anchor has no equal pair the library adds its negatives alone; 2.21 has log 0 there, "
        "so we leave it out. Batches are balanced (our choice: the thesis seems to draw them at "
        "random, where almost no anchor has an equal pair)."
    ),
)  # fmt: skip

CIRCLE = LossSpace(
    cite="Sun et al., CVPR 2020",
    year=2020, kind="pair", batches="balanced", memory=True,
    about=(
        "Weighs each pair by how far it is from its optimum, 1 + margin or -margin (reality check)."
    ),
    params={
        "margin": Param(paper=0.4, search=Range(0.05, 0.8), domain=UNIT, unit="cosine"),
        "scale":  Param(paper=80, search=Range(8, 512, log=True), domain=POSITIVE),
    },
    similarities=("self", "positive", "negative"),
    mining="none",
    reduction="mean over the anchors with an equal and a different pair",
    note=(
        "0.4 and 80 are for fine-grained retrieval; faces have 0.25 and 256. The weights are "
        "constants to the gradient, as in the paper."
    ),
)  # fmt: skip

FAST_AP = LossSpace(
    cite="Cakir et al., CVPR 2019",
    year=2019, kind="pair", batches="balanced",
    about=(
        "1 - average precision of every image against the batch, by soft histograms of distances "
        "(reality check)."
    ),
    params={
        "bins": Param(
            paper=10, reality=17,
            search=Range(4, 40, integer=True), domain=Range(1, 10_000, integer=True),
            unit="of squared distances",
        ),
    },
    similarities=("positive", "negative"),
    mining="none",
    reduction="mean over the images with an equal one in the batch",
)  # fmt: skip

CARDS = {
    "contrastive": CONTRASTIVE,
    "contrastive_euclidean": CONTRASTIVE_EUCLIDEAN,
    "snr_contrastive": SNR_CONTRASTIVE,
    "hinge_embedding": HINGE_EMBEDDING,
    "margin": MARGIN,
    "margin_per_class": MARGIN_PER_CLASS,
    "multi_similarity": MULTI_SIMILARITY,
    "multi_similarity_no_miner": MULTI_SIMILARITY_NO_MINER,
    "lifted_structure": LIFTED_STRUCTURE,
    "circle": CIRCLE,
    "fast_ap": FAST_AP,
}
