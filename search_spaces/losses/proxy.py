"""Describe the losses over learned proxies: ProxyNCA, SoftTriple, ProxyAnchor, the thesis's own."""

from search_spaces.losses.ranges import COSINE, POSITIVE, RATE, RATES, SCALE, UNIT
from search_spaces.space import Claim, Grid, LossSpace, Param, Range

RATE_UNIT = "learning rate of the proxies"
OUR_CHOICES = "Weight decay leaves the proxies alone (our choice)."

PROXY_NCA = LossSpace(
    cite="Movshovitz-Attias et al., ICCV 2017",
    year=2017, kind="proxy", batches="random",
    about=(
        "Nearer to the own proxy than to all others; the own one is not in the denominator (thesis "
        "2.27)."
    ),
    params={
        "weights_lr": Param(paper=1e-5, thesis=1e-5, search=RATE, domain=RATES, unit=RATE_UNIT),
    },
    similarities=(),
    mining="none",
    reduction="mean over images; 2.27 prints a sum",
    network="BNInception", size=64,
    couples=False,
    note=(
        "The exponent is the squared distance of unit vectors, as NCA has it: up to a constant 2 "
        "w'x where 2.27 prints w'x. Without the own proxy in the denominator the loss can be "
        "negative. The rate is table 4's. The paper has no scale: proxy_nca_pml has. " + OUR_CHOICES
    ),
)  # fmt: skip

PROXY_NCA_PML = LossSpace(
    cite="Movshovitz-Attias et al., ICCV 2017, as pytorch-metric-learning has it",
    year=2017, kind="proxy", batches="random",
    about=(
        "Cross entropy of squared distances to all proxies, the own one included, times "
        "softmax_scale."
    ),
    params={
        "softmax_scale": Param(
            paper=1, reality=(13.98, 7.97, 10.73),
            search=Range(1, 20, log=True), domain=Range(1e-6, 20),
            note=(
                "The paper has no scale: 1 is the library's. Above 20 its probabilities underflow "
                "in float32, and it drops such images."
            ),
        ),
        "weights_lr": Param(
            paper=1e-5, reality=(6.04e-3, 4.43e-3, 5.28e-4),
            search=RATE, domain=RATES, unit=RATE_UNIT,
            note="1e-5 is what table 4 has for proxy_nca.",
        ),
    },
    similarities=(),
    mining="none",
    reduction="mean over images",
    network="BNInception", size=64,
    couples=False,
    note=(
        "The form of the reality check, which draws 32 classes and one image of each; batches are "
        "random here as for proxy_nca. " + OUR_CHOICES
    ),
)  # fmt: skip

SOFT_TRIPLE = LossSpace(
    cite="Qian et al., ICCV 2019",
    year=2019, kind="proxy", batches="random",
    about=(
        "Softmax over classes of several centres each, with a margin; tau merges the centres that "
        "are too many (thesis 2.30)."
    ),
    params={
        "margin": Param(
            paper=0.01, thesis=0.1,  found=0.4,  reality=(0.4307, 0.3588, 0.3145),
            grid=Grid(0, 1, 0.1), search=UNIT, domain=COSINE, unit="cosine",
            note="Paper and released code have 0.01, table 4 has 0.1.",
        ),
        "alpha": Param(
            paper=20,   thesis=20,   found=78,   reality=(78.02, 17.69, 100.00),
            grid=Grid(2, 100, 2), search=SCALE, domain=POSITIVE,
        ),
        "weights_lr": Param(
            paper=0.01, thesis=1e-4, found=5e-5, reality=(5.37e-5, 1.40e-4, 8.68e-5),
            grid=Grid(1e-5, 1e-4, 1e-5), search=RATE, domain=RATES,
            unit="learning rate of the centres",
            note=(
                "Paper and released code have 100 times the network's 1e-4; table 4 has 1e-4 "
                "itself."
            ),
        ),
        "gamma": Param(
            paper=0.1,  thesis=10,   found=58,   reality=(58.95, 19.18, 47.90),
            grid=Grid(10, 100, 10), inverse=True,
            search=Range(0.01, 100, log=True), domain=POSITIVE,
            note=(
                "Here as in the paper: similarities to centres are divided by gamma, so a small "
                "one picks the nearest centre. The thesis prints and multiplies by 1/gamma: its 10 "
                "is our 0.1, its 58 our 0.017, its grid of 10 to 100 our 0.1 to 0.01, and 58 is "
                "not on it. The reality check's 58.95 is in our sense, almost a plain mean over "
                "the centres: nearly the same number, the opposite loss."
            ),
        ),
        "tau": Param(
            paper=0.2,  thesis=0.2,  found=0.4,  reality=(0.3754, 0.0669, None),
            grid=Grid(0, 1, 0.1), search=UNIT, domain=Range(0, 1e6),
            note=(
                "The library of the reality check divided by half as many pairs: its 0.3754 is our "
                "0.75. It prints none for SOP."
            ),
        ),
        "centers": Param(
            paper=10,
            search=Range(2, 20, integer=True), domain=Range(2, 100, integer=True),
            unit="centres per class",
            note=(
                "The thesis prints none and its code has 2. With 1 there is no pair of centres for "
                "tau."
            ),
        ),
    },
    similarities=(),
    mining="none",
    reduction="mean over images; 2.30 prints a sum",
    network="BNInception", size=512,
    couples=False,
    note=(
        "2.30 prints one centre and neither gamma nor tau: this is the paper's loss. Its sizes are "
        "64 and 512. Table 15's optimum is the reality check's, rounded. The released code decays "
        "the centres, too; here weight decay leaves them alone (our choice)."
    ),
    claims=(
        Claim("cub200", "bn_inception", 512, 65.4,
              "Qian et al., ICCV 2019, as the thesis quotes it in section 4.1.2"),
        Claim("cars196", "bn_inception", 512, 84.5,
              "Qian et al., ICCV 2019, as the thesis quotes it in section 4.1.4"),
    ),
)  # fmt: skip

KIM = "Kim et al., CVPR 2020, README of the released code"
PROXY_ANCHOR = LossSpace(
    cite="Kim et al., CVPR 2020",
    year=2020, kind="proxy", batches="random",
    about=(
        "Each class's proxy is an anchor that pulls and pushes the whole batch by hardness (thesis "
        "2.31)."
    ),
    params={
        "margin":     Param(paper=0.1, thesis=0.1, found=0.1,
                            grid=Grid(0, 1, 0.1), search=UNIT,  domain=COSINE, unit="cosine"),
        "alpha":      Param(paper=32,  thesis=32,  found=32,
                            grid=Grid(2, 100, 2), search=SCALE, domain=POSITIVE),
        "weights_lr": Param(paper=0.01, search=RATE, domain=RATES, unit=RATE_UNIT),
    },
    similarities=(),
    mining="none",
    reduction="mean over proxies: those with an image in the batch pull, all push",
    network="BNInception", size=512,
    note=(
        "The paper gives the proxies 100 times the network's rate of 1e-4; tables 4 and 15 do not "
        "have it, we tune it. " + OUR_CHOICES
    ),
    claims=(
        Claim("cub200",  "bn_inception", 512, 69.1, KIM),
        Claim("cars196", "bn_inception", 512, 86.4, KIM),
        Claim("sop",     "bn_inception", 512, 79.2, KIM),
        Claim("cub200",  "resnet50",     512, 69.9, KIM),
        Claim("cars196", "resnet50",     512, 87.7, KIM),
    ),
)  # fmt: skip

THESIS_CITE = "Psomas, master's thesis, Athens 2020"
THESIS_NOTE = (
    "The thesis prints no values: alpha, margin and the rate are ProxyAnchor's (our choice). X+ is "
    "read as the batch's images of w's class, w- as every proxy but w. Proxies and embeddings are "
    "unit vectors, as ProxyAnchor's. "
)
BORROWED = "Our choice: ProxyAnchor's."
THESIS_PARAMS = {
    "margin":     Param(paper=0.1,  search=UNIT,  domain=COSINE, unit="cosine",  note=BORROWED),
    "alpha":      Param(paper=32,   search=SCALE, domain=POSITIVE,               note=BORROWED),
    "weights_lr": Param(paper=0.01, search=RATE,  domain=RATES,  unit=RATE_UNIT, note=BORROWED),
}  # fmt: skip

THESIS_LOSS_1 = LossSpace(
    cite=THESIS_CITE,
    year=2020, kind="proxy", batches="random",
    about=(
        "Pulls images to their proxy as proxy_anchor does, and pushes the proxies apart instead of "
        "the images (thesis 6.1)."
    ),
    params=THESIS_PARAMS,
    similarities=(),
    mining="none",
    reduction="mean over proxies: those with an image in the batch pull, all push",
    network="BNInception", size=512,
    memory=True,
    note=(
        THESIS_NOTE + "6.1 sums the push over W-; every proxy is one, so it goes over all, as in "
        "6.2. " + OUR_CHOICES
    ),
)  # fmt: skip

THESIS_LOSS_2 = LossSpace(
    cite=THESIS_CITE,
    year=2020, kind="proxy", batches="random",
    about=(
        "thesis_loss_1 with the similarity of two proxies seen through the batch: the sum of "
        "(w'x)(x'w-) (thesis 6.2)."
    ),
    params=THESIS_PARAMS,
    similarities=(),
    mining="none",
    reduction=(
        "mean over proxies: those with an image in the batch pull, all push; a sum over images "
        "inside the exponent"
    ),
    network="BNInception", size=512,
    memory=True, unlabelled=True,
    note=(
        THESIS_NOTE + "The sum inside the exponent grows with the batch, so alpha means less of it "
        "in a large one; with a memory it is scaled to as many images as the batch has. It reads "
        "no label, so images without one count in it. " + OUR_CHOICES
    ),
)  # fmt: skip

THESIS_LOSS_3 = LossSpace(
    cite="Fair Trial, 2026, after Psomas, master's thesis, Athens 2020",
    year=2026, kind="proxy", batches="balanced",
    about=(
        "Ours: thesis_loss_1, and both of its terms again between the images of a batch: each "
        "pulls the others of its class and pushes those of other classes."
    ),
    params=THESIS_PARAMS | {
        "relations": Param(
            paper=1, search=UNIT, domain=Range(0, 1e6), unit="weight of the terms between images",
            note="Our choice. 0 is thesis_loss_1.",
        ),
    },
    similarities=(),
    mining="none",
    reduction=(
        "mean over proxies: those with an image in the batch pull, all push; mean over images"
    ),
    memory=True,
    note=(
        "The thesis proposes to redesign its loss so that it captures more relations between "
        "images; the redesign is ours, and no paper has measured it. With x and x- in the place of "
        "w and w-, the terms of 6.1 become log(1 + sum over x+ of e^(-alpha (x'x+ - margin))) and "
        "log(1 + sum over x- of e^(alpha (x'x- + margin))). Batches are balanced, because a random "
        "one may hold no two images of a class. " + OUR_CHOICES
    ),
)  # fmt: skip

CARDS = {
    "proxy_nca": PROXY_NCA,
    "proxy_nca_pml": PROXY_NCA_PML,
    "soft_triple": SOFT_TRIPLE,
    "proxy_anchor": PROXY_ANCHOR,
    "thesis_loss_1": THESIS_LOSS_1,
    "thesis_loss_2": THESIS_LOSS_2,
    "thesis_loss_3": THESIS_LOSS_3,
}
