"""Describe the four triplet selections that the generalisation paper compares, all in NCA form."""

from search_spaces.space import LossSpace, Param, Range

TEMPERATURE = Param(
    paper=0.1, search=Range(0.01, 1, log=True), domain=Range(1e-4, 1e3), unit="cosine",
    note=(
        "The generalisation paper prints none; 0.1 is that of Xuan et al.'s released code, taken "
        "for all four (our choice)."
    ),
)  # fmt: skip

BATCH_ALL_NCA = LossSpace(
    cite="Hermans et al., arXiv 2017",
    year=2017, kind="triplet", batches="balanced",
    about=(
        "log(1 + exp((S_an - S_ap) / temperature)) over all triplets of the batch (generalisation)."
    ),
    params={"temperature": TEMPERATURE},
    similarities=("positive",),
    mining="none: all triplets",
    reduction="mean over triplets",
    network="ResNet18", size=64,
    note="Network and size of these four are the generalisation paper's.",
)  # fmt: skip

N_PAIR_NCA = LossSpace(
    cite="Sohn, NIPS 2016",
    year=2016, kind="triplet", batches="balanced",
    about="n_pair on normalised vectors with a temperature (generalisation).",
    params={"temperature": TEMPERATURE},
    similarities=("negative",),
    mining="none: the first two images of each class",
    reduction="mean over pairs",
    network="ResNet18", size=64,
    per_class=2,
    note=(
        "The generalisation paper says only that N-pair is put in NCA form; one pair per class "
        "against the other classes' positives is Sohn's."
    ),
)  # fmt: skip

SEMI_HARD_NEGATIVE_NCA = LossSpace(
    cite="Schroff et al., CVPR 2015",
    year=2015, kind="triplet", batches="balanced",
    about=(
        "One triplet per image: a random positive and the hardest negative that is still farther, "
        "in NCA form (generalisation)."
    ),
    params={"temperature": TEMPERATURE},
    similarities=("positive",),
    mining="a random positive of each anchor, then the hardest negative that is still farther",
    reduction="mean over triplets",
    network="ResNet18", size=64,
    note=(
        "The generalisation paper asks for a negative 'within a margin' and prints no margin; the "
        "hardest one farther than the positive needs none."
    ),
)  # fmt: skip

EASY_POSITIVE_SEMI_HARD_NEGATIVE = LossSpace(
    cite="Xuan et al., arXiv 2019",
    year=2019, kind="triplet", batches="balanced",
    about=(
        "One triplet per image: its most similar positive and the hardest negative that is still "
        "farther, in NCA form (generalisation)."
    ),
    params={"temperature": TEMPERATURE},
    similarities=("positive",),
    mining="the easiest positive of each anchor, then the hardest negative that is still farther",
    reduction="mean over triplets",
    network="ResNet18", size=64,
    note=(
        "The released code also drops anchors whose best cosine is not above 0 or is above 0.9999; "
        "we drop only those without a triplet."
    ),
)  # fmt: skip

CARDS = {
    "batch_all_nca": BATCH_ALL_NCA,
    "n_pair_nca": N_PAIR_NCA,
    "semi_hard_negative_nca": SEMI_HARD_NEGATIVE_NCA,
    "easy_positive_semi_hard_negative": EASY_POSITIVE_SEMI_HARD_NEGATIVE,
}
