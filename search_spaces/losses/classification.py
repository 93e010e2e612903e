"""Describe the losses that classify: plain and normalised softmax, ArcFace, CosFace, SphereFace."""

from search_spaces.losses.ranges import GAP, POSITIVE, RATE, RATES, UNIT
from search_spaces.space import LossSpace, Param, Range

WIDE_SCALE = Range(1, 300, log=True)  # the reality check's optima go up to 220
RATE_UNIT = "learning rate of the class weights"
OUR_CHOICES = (
    "Batches are random, as the thesis draws them; the reality check draws 32 classes and one "
    "image of each. Weight decay leaves the class weights alone (our choice)."
)

SOFTMAX = LossSpace(
    cite="Bridle, NIPS 1989",
    year=1989, kind="classification", batches="random",
    about=(
        "Cross entropy of a linear classifier on the raw embedding, without a bias (thesis 2.25, "
        "2.26)."
    ),
    params={
        "weights_lr": Param(
            paper=1e-3, search=RATE, domain=RATES, unit=RATE_UNIT,
            note="Our choice: no source prints one.",
        ),
    },
    similarities=(),
    mining="none",
    reduction="mean over images",
    normalize=False,
    couples=False,
    note="Not among the thesis's experiments. " + OUR_CHOICES,
)  # fmt: skip

NORMALIZED_SOFTMAX = LossSpace(
    cite="Zhai and Wu, BMVC 2019",
    year=2019, kind="classification", batches="random",
    about="Cross entropy of the cosines to the class weights, divided by a temperature.",
    params={
        "temperature": Param(
            paper=0.05, reality=(0.1087, 0.0886, 0.0630),
            search=Range(0.005, 1, log=True), domain=POSITIVE,
        ),
        "weights_lr": Param(
            paper=0.01, code=1e-3, reality=(4.46e-3, 1.10e-2, 5.46e-4),
            search=RATE, domain=RATES, unit=RATE_UNIT,
            note="Rates of SGD; the released recipe for CUB has 1e-3 where the others have 0.01.",
        ),
    },
    similarities=(),
    mining="none",
    reduction="mean over images",
    couples=False,
    note=(
        "The paper also normalises the layer before and balances its batches; neither is part of "
        "the loss. " + OUR_CHOICES
    ),
)  # fmt: skip

ARCFACE = LossSpace(
    cite="Deng et al., CVPR 2019",
    year=2019, kind="classification", batches="random",
    about="Normalised softmax whose own angle is widened by margin degrees (thesis 2.29).",
    params={
        "margin": Param(
            paper=28.6, thesis=28.6, reality=(23.22, 20.52, 18.63),
            search=Range(0, 60), domain=Range(0, 90), unit="degrees",
            note=(
                "The paper's 0.5 radians are 28.65 degrees; the thesis and the library cut that to "
                "28.6."
            ),
        ),
        "scale": Param(
            paper=64, thesis=64, reality=(100.0, 49.50, 220.3),
            search=WIDE_SCALE, domain=POSITIVE,
            note="The thesis's code has 220, the reality check's optimum on SOP.",
        ),
        "weights_lr": Param(
            paper=1e-4, thesis=1e-4, reality=(5.13e-3, 7.39e-6, 2.01e-3),
            search=RATE, domain=RATES, unit=RATE_UNIT,
            note=(
                "Table 4's; the paper has 0.1 with SGD. The thesis's code never gives the weights "
                "to its optimizer."
            ),
        ),
    },
    similarities=(),
    mining="none",
    reduction="mean over images; 2.29 prints a sum",
    network="ResNet50, ResNet100", size=512,
    couples=False,
    note=(
        "Beyond 180 - margin degrees cos(angle + margin) would fall no further: there the released "
        "code and the library subtract margin * sin(margin) from the cosine instead, which 2.29 "
        "does not print. " + OUR_CHOICES
    ),
)  # fmt: skip

COSFACE = LossSpace(
    cite="Wang et al., CVPR 2018",
    year=2018, kind="classification", batches="random",
    about="Normalised softmax whose own cosine is lowered by margin.",
    params={
        "margin": Param(paper=0.35, reality=(0.6182, 0.4324, 0.3364),
                        search=UNIT,       domain=GAP, unit="cosine"),
        "scale":  Param(paper=64,   reality=(100.0, 161.5, 100.0),
                        search=WIDE_SCALE, domain=POSITIVE),
        "weights_lr": Param(
            paper=0.01, reality=(2.53e-3, 7.41e-3, 2.16e-3),
            search=RATE, domain=RATES, unit=RATE_UNIT,
            note="Our choice: the paper has 0.1 with SGD, which does not carry over.",
        ),
    },
    similarities=(),
    mining="none",
    reduction="mean over images",
    couples=False,
    note=OUR_CHOICES,
)  # fmt: skip

SPHEREFACE = LossSpace(
    cite="Liu et al., CVPR 2017",
    year=2017, kind="classification", batches="random",
    about=(
        "Softmax of unit class weights and raw embeddings whose own angle is multiplied by margin."
    ),
    params={
        "margin": Param(
            paper=4, search=Range(1, 6, integer=True), domain=Range(1, 10, integer=True),
            unit="times the angle",
        ),
        "weights_lr": Param(
            paper=0.01, search=RATE, domain=RATES, unit=RATE_UNIT,
            note="Our choice: the paper has 0.1 with SGD, which does not carry over.",
        ),
    },
    similarities=(),
    mining="none",
    reduction="mean over images",
    normalize=False,
    couples=False,
    note=(
        "The length of the embedding is the scale. The released code blends the plain logit in, "
        "with a weight that falls from 1000 to 5; the paper's formula and this one do not. The "
        "reality check describes it and does not run it. " + OUR_CHOICES
    ),
)  # fmt: skip

CARDS = {
    "softmax": SOFTMAX,
    "normalized_softmax": NORMALIZED_SOFTMAX,
    "arcface": ARCFACE,
    "cosface": COSFACE,
    "sphereface": SPHEREFACE,
}
