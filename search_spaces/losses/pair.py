"""Cards of the losses over pairs: contrastive, multi_similarity."""

from search_spaces.space import Grid, LossSpace, Param, Range

UNIT = Range(0, 1)
GAP = Range(0, 2)  # between two cosines
SCALE = Range(1, 100, log=True)
POSITIVE = Range(1e-6, 1e6)
COSINE = Range(-1, 1)

CONTRASTIVE = LossSpace(
    cite="Hadsell et al., CVPR 2006",
    year=2006,
    kind="pair",
    batches="balanced",
    about="Pulls equal pairs together; pushes different pairs below a cosine of margin (thesis 2.15).",
    params={
        "margin": Param(paper=0.5, thesis=0.5, search=UNIT, domain=COSINE, unit="cosine"),
    },
    similarities=("self",),
    mining="none",
    reduction="mean",
    note="The 2006 paper prints no margin; 0.5 is the thesis's. The gradient of 2.15 is that of a positive margin of 1. "
    "Batches are balanced (our choice): random ones hold almost no equal pair. Mean over non-zero pairs.",
)  # fmt: skip

MULTI_SIMILARITY = LossSpace(
    cite="Wang et al., CVPR 2019",
    year=2019,
    kind="pair",
    batches="balanced",
    about="Weighs every pair by its own and its relative similarity; mines with epsilon (thesis 2.24).",
    params={
        "margin":  Param(paper=0.5, thesis=0.5, found=0.8, reality=0.77,  grid=Grid(0, 1, 0.1), search=UNIT,  domain=COSINE, unit="cosine"),
        "alpha":   Param(paper=2,   thesis=2,   found=18,  reality=17.97, grid=Grid(2, 100, 2), search=SCALE, domain=POSITIVE),
        "beta":    Param(paper=50,  code=40, thesis=50, found=76, reality=75.66, grid=Grid(2, 100, 2), search=SCALE, domain=POSITIVE),
        "epsilon": Param(paper=0.1, thesis=0.1, found=0.4, reality=0.39,  grid=Grid(0, 1, 0.1), search=UNIT,  domain=GAP, unit="cosine"),
    },
    similarities=("self", "positive", "negative"),
    mining="hard",
    reduction="mean",
    note="The released code has beta 40. Table 15's optimum is the reality check's, rounded. Mean over anchors.",
)  # fmt: skip

CARDS = {"contrastive": CONTRASTIVE, "multi_similarity": MULTI_SIMILARITY}
