"""Cards of the losses over learned proxies: proxy_anchor."""

from search_spaces.space import Grid, LossSpace, Param, Range

SCALE = Range(1, 100, log=True)
POSITIVE = Range(1e-6, 1e6)

PROXY_ANCHOR = LossSpace(
    cite="Kim et al., CVPR 2020",
    year=2020,
    kind="proxy",
    batches="random",
    about="Each class's proxy is an anchor that pulls and pushes the whole batch by hardness (thesis 2.31).",
    params={
        "margin":     Param(paper=0.1, thesis=0.1, found=0.1, grid=Grid(0, 1, 0.1), search=Range(0, 1), domain=Range(-1, 1), unit="cosine"),
        "alpha":      Param(paper=32,  thesis=32,  found=32,  grid=Grid(2, 100, 2), search=SCALE, domain=POSITIVE),
        "weights_lr": Param(paper=0.01, search=Range(1e-4, 1, log=True), domain=Range(1e-9, 100), unit="learning rate of the proxies"),
    },
    similarities=("positive", "negative"),
    mining="none",
    reduction="mean over the proxies in the batch, plus mean over all proxies",
    network="BNInception",
    size=512,
    note="The paper gives the proxies 100 times the network's rate of 1e-4; table 15 does not tune it, we do.",
)  # fmt: skip

CARDS = {"proxy_anchor": PROXY_ANCHOR}
