"""Describe the losses that compare a positive with negatives of the same anchor."""

from search_spaces.losses.ranges import GAP, POSITIVE
from search_spaces.space import Choice, LossSpace, Param, Range

SWITCH = Choice((False, True))
DISTANCES = Choice(("cosine", "euclidean", "squared_euclidean"))
OWN_DISTANCES = Choice(DISTANCES.options, own=True)
MINING = Choice(("none", "easy", "semi_hard", "hard"))

TRIPLET = LossSpace(
    cite="Schroff et al., CVPR 2015",
    year=2015, kind="triplet", batches="balanced",
    about=(
        "A positive must be nearer than the hardest semi-hard negative by margin, in cosine "
        "(thesis 2.17, 2.20)."
    ),
    params={
        "margin": Param(
            paper=0.1, thesis=0.1, search=Range(0.01, 1, log=True), domain=GAP, unit="cosine",
            note=(
                "Schroff prints 0.2 on squared distances, which is a cosine difference of 0.1. A "
                "cosine difference is at most 2."
            ),
        ),
    },
    similarities=("positive",),
    mining=(
        "semi-hard: for every anchor and positive the hardest negative that is still farther (2.20)"
    ),
    reduction="mean over the non-zero triplets",
    network="22-layer CNN, GoogLeNet", size=128,
    note=(
        "Semi-hard is the single hardest negative that is still farther than the positive (2.20), "
        "not the library's 'all negatives inside the margin'. Batches are balanced (our choice: no "
        "source prints them)."
    ),
)  # fmt: skip

TRIPLET_EUCLIDEAN = LossSpace(
    cite="Schroff et al., CVPR 2015",
    year=2015, kind="triplet", batches="balanced",
    about="All triplets of the batch, by Euclidean distance (reality check).",
    params={
        "margin": Param(
            paper=0.2, reality=(0.0961, 0.1190, 0.0451),
            search=Range(0.01, 1, log=True), domain=GAP, unit="distance",
            note=(
                "Schroff prints 0.2 on squared distances; the library's default on distances is "
                "0.05."
            ),
        ),
    },
    similarities=("positive",),
    mining="none: all triplets",
    reduction="mean over the non-zero triplets",
)  # fmt: skip

TRIPLET_P_NORM = LossSpace(
    cite="TripletMarginLoss, PyTorch; triplet report and tutorial, 2025",
    year=2025, kind="triplet", batches="triplets",
    about=(
        "[d_ap - d_an + margin]+ by a p-norm, on triplets drawn at random (triplet report and "
        "tutorial)."
    ),
    params={
        "p":      Param(paper=2, search=Range(1, 4), domain=Range(1, 64), unit="of the norm"),
        "margin": Param(paper=1, search=Range(0.1, 2, log=True), domain=Range(0, 100),
                        unit="distance"),
        "swap":   Param(paper=False, search=SWITCH, domain=SWITCH,
                        unit="whether d_pn counts where it is below d_an"),
        "mining": Param(paper="none", search=MINING, domain=MINING,
                        unit="which negative of the batch an anchor and its positive get"),
    },
    similarities=("positive",),
    mining=(
        "none, or as its parameter says: easy the farthest negative, hard the nearest, semi_hard "
        "the nearest beyond the positive"
    ),
    reduction="mean over all triplets, satisfied ones too",
    note=(
        "The report prints neither margin nor norm; its losses fit margin 1 on normalised vectors "
        "(cosines 0.67 and 0.04 with loss 0.50). The tutorial sorts triplets by margin (easy: "
        "satisfied; hard: the negative is nearer); a miner must pick one, so we pick by rank. "
        "PyTorch adds 1e-6 to every difference, we do not."
    ),
)  # fmt: skip

TRIPLET_DISTANCE = LossSpace(
    cite="TripletMarginWithDistanceLoss, PyTorch; triplet tutorial, 2025",
    year=2025, kind="triplet", batches="triplets",
    about=(
        "[d_ap - d_an + margin]+ by any differentiable distance, on triplets drawn at random "
        "(triplet tutorial)."
    ),
    params={
        "distance": Param(paper="cosine", search=DISTANCES, domain=OWN_DISTANCES,
                          unit="or your own function of two (n, size) tensors, by module:NAME"),
        "margin": Param(paper=0.2, search=Range(0.02, 2, log=True), domain=Range(0, 100),
                        unit="of the distance"),
        "swap":   Param(paper=False, search=SWITCH, domain=SWITCH,
                        unit="whether d_pn counts where it is below d_an"),
        "mining": Param(paper="none", search=MINING, domain=MINING,
                        unit="which negative of the batch an anchor and its positive get"),
    },
    similarities=("positive",),
    mining=(
        "none, or as its parameter says: easy the farthest negative, hard the nearest, semi_hard "
        "the nearest beyond the positive"
    ),
    reduction="mean over all triplets, satisfied ones too",
    note=(
        "The tutorial's example is the cosine distance, 1 - cosine, with margin 0.2; the others "
        "are our choice."
    ),
)  # fmt: skip

N_PAIR = LossSpace(
    cite="Sohn, NIPS 2016",
    year=2016, kind="triplet", batches="balanced",
    about=(
        "One pair per class: softmax of its dot product against all other classes' positives "
        "(thesis 2.22)."
    ),
    params={
        "l2": Param(
            paper=0.02, code=0.005, thesis=0.02,
            search=Range(1e-4, 0.1, log=True), domain=Range(0, 1e6),
            unit="weight of the mean |x|^2",
            note=(
                "The authors' code multiplies the paper's 0.02 by 0.25; the thesis's code has 0 "
                "and normalises."
            ),
        ),
    },
    similarities=("negative",),
    mining="none: the first two images of each class",
    reduction="mean over pairs, plus the regulariser's mean over the batch",
    network="GoogLeNet", size=512,
    normalize=False,
    per_class=2,
    note=(
        "2.22 prints cosines and a sum over all positives; this is the paper's: raw dot products, "
        "one pair per class, the raw vectors kept small by l2. Table 2 gives sizes 64 and 512. A "
        "class's third image is only regularised."
    ),
)  # fmt: skip

NT_XENT = LossSpace(
    cite="Chen et al., ICML 2020",
    year=2020, kind="triplet", batches="balanced",
    about="Every equal pair in a softmax against all negatives of its anchor (reality check).",
    params={
        "temperature": Param(
            paper=0.1, reality=(0.0091, 0.0219, 0.0002),
            search=Range(1e-4, 1, log=True), domain=Range(1e-5, 1e3), unit="cosine",
        ),
    },
    similarities=("negative",),
    mining="none",
    reduction="mean over the equal pairs",
    note=(
        "The library's default is 0.07, and it takes log(softmax + tiny): in float32 a pair gets "
        "no gradient once a negative is ahead by 87 temperatures, so at the reality check's 0.0091 "
        "whatever is 0.79 or more behind. Here it is a log-sum-exp, exact everywhere."
    ),
)  # fmt: skip

TUPLET_MARGIN = LossSpace(
    cite="Yu and Tao, ICCV 2019",
    year=2019, kind="triplet", batches="balanced",
    about="nt_xent with a slack angle that spares the hardest positives (reality check).",
    params={
        "margin": Param(paper=5.73, search=Range(0.5, 30), domain=Range(0, 90), unit="degrees"),
        "scale":  Param(paper=64, search=Range(4, 256, log=True), domain=POSITIVE),
    },
    similarities=("negative",),
    mining="none",
    reduction="mean over the equal pairs",
    note=(
        "5.73 degrees are 0.1 radians. Without the paper's second loss on the variance within "
        "pairs. The library's is NaN where an image comes twice in a batch, since an arccosine has "
        "no gradient at 1; here cosines are cut a little before."
    ),
)  # fmt: skip

ANGULAR = LossSpace(
    cite="Wang et al., ICCV 2017",
    year=2017, kind="triplet", batches="balanced", memory=True,
    about=(
        "Bounds the angle at the negative of every triangle, all negatives in a log-sum-exp "
        "(reality check)."
    ),
    params={
        "alpha": Param(
            paper=45, search=Range(20, 60), domain=Range(1, 89), unit="degrees",
            note="The library's default is 40 degrees.",
        ),
    },
    similarities=("negative",),
    mining="none",
    reduction="mean over the equal pairs",
    note="Without the N-pair term that the paper adds in its best runs.",
)  # fmt: skip

CARDS = {
    "triplet": TRIPLET,
    "triplet_euclidean": TRIPLET_EUCLIDEAN,
    "triplet_p_norm": TRIPLET_P_NORM,
    "triplet_distance": TRIPLET_DISTANCE,
    "n_pair": N_PAIR,
    "nt_xent": NT_XENT,
    "tuplet_margin": TUPLET_MARGIN,
    "angular": ANGULAR,
}
