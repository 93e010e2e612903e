"""Describe the losses that weigh all pairs of an anchor together: MultiSimilarity and its kin."""

from search_spaces.losses.ranges import COSINE, GAP, POSITIVE, SCALE, UNIT
from search_spaces.space import Claim, Grid, LossSpace, Param, Range

STEEP = Range(1, 300, log=True)  # the reality check's optimum on SOP is 156.61

MULTI_SIMILARITY = LossSpace(
    cite="Wang et al., CVPR 2019",
    year=2019, kind="pair", batches="balanced",
    about=(
        "Weighs every pair by its own and its relative similarity; mines with epsilon (thesis "
        "2.24)."
    ),
    params={
        "margin":  Param(paper=0.5,          thesis=0.5, found=0.8, reality=(0.77, 0.63, 0.72),
                         grid=Grid(0, 1, 0.1), search=UNIT,  domain=COSINE, unit="cosine"),
        "alpha":   Param(paper=2,            thesis=2,   found=18,  reality=(17.97, 7.49, 15.94),
                         grid=Grid(2, 100, 2), search=SCALE, domain=POSITIVE),
        "beta":    Param(paper=50,  code=40, thesis=50,  found=76,  reality=(75.66, 47.99, 156.61),
                         grid=Grid(2, 100, 2), search=STEEP, domain=POSITIVE),
        "epsilon": Param(paper=0.1,          thesis=0.1, found=0.4, reality=(0.39, 0.72, 0.34),
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
    claims=(
        Claim("cub200", "bn_inception", 512, 65.7,
              "Wang et al., CVPR 2019, with its released code"),
    ),
)  # fmt: skip

MULTI_SIMILARITY_NO_MINER = LossSpace(
    cite="Wang et al., CVPR 2019",
    year=2019, kind="pair", batches="balanced", memory=True,
    about="multi_similarity over all pairs of the batch (reality check, MS without miner).",
    params={
        "margin": Param(
            paper=0.5, reality=(0.56, 0.66, 0.41), search=UNIT, domain=COSINE, unit="cosine",
        ),
        "alpha": Param(
            paper=2, reality=(0.01, 14.35, 8.49),
            search=Range(0.001, 100, log=True), domain=POSITIVE,
            note="The reality check's 0.01 looks like a bound of its search, so ours goes on.",
        ),
        "beta": Param(
            paper=50, code=40, reality=(50.60, 75.83, 57.38), search=STEEP, domain=POSITIVE,
        ),
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
        "so we leave it out. Batches are balanced (our choice); the presets of the thesis have "
        "mined ones, to which each image's hardest neighbours are added."
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
            paper=10, reality=(17, 27, 16),
            search=Range(4, 40, integer=True), domain=Range(1, 10_000, integer=True),
            unit="of squared distances",
        ),
    },
    similarities=("positive", "negative"),
    mining="none",
    reduction="mean over the images with an equal one in the batch",
)  # fmt: skip

CARDS = {
    "multi_similarity": MULTI_SIMILARITY,
    "multi_similarity_no_miner": MULTI_SIMILARITY_NO_MINER,
    "lifted_structure": LIFTED_STRUCTURE,
    "circle": CIRCLE,
    "fast_ap": FAST_AP,
}
