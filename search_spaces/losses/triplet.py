"""Cards of the losses over triplets: triplet."""

from search_spaces.space import LossSpace, Param, Range

TRIPLET = LossSpace(
    cite="Schroff et al., CVPR 2015",
    year=2015,
    kind="triplet",
    batches="balanced",
    about="A positive must be nearer than the hardest semi-hard negative by margin, in cosine (thesis 2.17, 2.20).",
    params={
        "margin": Param(
            paper=0.1, thesis=0.1, search=Range(0.01, 1, log=True), domain=Range(0, 2), unit="cosine",
            note="Schroff prints 0.2 on squared distances, which is a cosine difference of 0.1. A cosine difference is at most 2.",
        ),
    },
    similarities=("positive",),
    mining="semi-hard",
    reduction="mean",
    note="Semi-hard is the single hardest negative that is still farther than the positive (2.20), not the library's "
    "'all negatives inside the margin'. Batches are balanced (our choice: no source prints them). Mean over non-zero triplets.",
)  # fmt: skip

CARDS = {"triplet": TRIPLET}
