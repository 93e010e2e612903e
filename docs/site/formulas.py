"""Hold the formula of every loss as LaTeX, which the site turns into MathML.

They say what tests/support/formulas_*.py compute in plain loops, to test every loss against.
"""

from dataclasses import dataclass, field

# What every page explains once, by the symbols that its formula uses.
SYMBOLS = {
    r"\mathcal{P}": ("P_i", "the other images of i's class in the batch"),
    r"\mathcal{N}": ("N_i", "the images of other classes in the batch"),
    r"\mathcal{B}": ("B", "the images of the batch"),
    r"\mathcal{W}": ("W⁺", "the proxies of classes with an image in the batch"),
    r"\mathcal{T}": ("T", "the triplets (a, p, n) that the loss takes"),
    "s_{": ("s", "cosine similarity"),
    "d_{": ("d", "Euclidean distance of the two vectors"),
    r"\operatorname{mean}_{+}": ("mean₊", "mean over the terms that are not zero"),
    "]_{+}": ("[x]₊", "x where it is positive, else 0"),
    "w_{": ("w", "learned weights, one vector for each class"),
}


@dataclass(frozen=True)
class Formula:
    """Hold a loss's formula: its lines in LaTeX, the symbol of each parameter, and remarks."""

    lines: tuple[str, ...]
    symbols: dict[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def hinges(positive: str, negative: str) -> str:
    """Return the sum of two means over pairs that are not zero."""
    return (
        r"\operatorname{mean}_{+}\left[" + positive + r"\right]_{+} + "
        r"\operatorname{mean}_{+}\left[" + negative + r"\right]_{+}"
    )


def against_negatives(exponent: str) -> str:
    """Return the mean over positive pairs of the log of 1 plus the sum over negatives."""
    return (
        r"\underset{i,\,j \in \mathcal{P}_i}{\operatorname{mean}}\;"
        r"\log\left(1 + \sum_{k \in \mathcal{N}_i} \exp\left(" + exponent + r"\right)\right)"
    )


def nca(triplets: str) -> Formula:
    """Return the NCA loss of triplets."""
    return Formula(
        (
            r"L = \underset{(a,p,n) \in \mathcal{T}}{\operatorname{mean}}\;"
            r"\log\left(1 + \exp\frac{s_{an} - s_{ap}}{t}\right)",
        ),
        {"temperature": "t"},
        (f"T: {triplets}.",),
    )


def cross_entropy(own: str, other: str) -> str:
    """Return the cross entropy of an image's own logit and those of other classes."""
    return (
        r"L = -\underset{i \in \mathcal{B}}{\operatorname{mean}}\;\log\frac{e^{" + own + "}}{e^{"
        + own + r"} + \sum_{c \neq y_i} e^{" + other + "}}"
    )  # fmt: skip


PULL = (
    r"\frac{1}{|\mathcal{W}^{+}|}\sum_{w \in \mathcal{W}^{+}} \log\left(1 + "
    r"\sum_{i:\, y_i = w} e^{-\alpha (s_{iw} - m)}\right)"
)
PROXY_SYMBOLS = {"margin": "m", "alpha": r"\alpha"}
MULTI = (
    r"L = \underset{i \in \mathcal{B}}{\operatorname{mean}}\;"
    r"\frac{1}{\alpha}\log\left(1 + \sum_{j \in \mathcal{P}_i} e^{-\alpha(s_{ij} - m)}\right) + "
    r"\frac{1}{\beta}\log\left(1 + \sum_{k \in \mathcal{N}_i} e^{\beta(s_{ik} - m)}\right)"
)
MARGIN = Formula(
    (
        r"L = \operatorname{mean}_{+}\left(\left[m + d_{ap} - \beta\right]_{+},\; "
        r"\left[m - d_{an} + \beta\right]_{+}\right), \quad (a,p,n) \in \mathcal{T}",
    ),
    {"margin": "m", "beta": r"\beta"},
    (
        "T: for every pair of a class, a negative drawn with a weight that makes all distances "
        "equally likely.",
    ),
)
TRIPLET_HINGE = (
    r"L = \underset{(a,p,n) \in \mathcal{T}}{\operatorname{mean}}\;"
    r"\left[d_{ap} - d^{-} + m\right]_{+}"
)
MINED = (
    "d⁻ is the distance of a and n; with `swap` the smaller of that and the distance of p and n.",
    "T: the triplets of the batch in order; with `mining` a pair takes its negative from the whole "
    "batch: the farthest (`easy`), the nearest (`hard`), or the nearest beyond its positive "
    "(`semi_hard`).",
)

FORMULAS: dict[str, Formula] = {
    "contrastive": Formula(
        ("L = " + hinges("1 - s_{ij}", "s_{ik} - m"),
         r"j \in \mathcal{P}_i, \quad k \in \mathcal{N}_i"),
        {"margin": "m"},
    ),
    "contrastive_euclidean": Formula(
        ("L = " + hinges("d_{ij} - m^{+}", "m^{-} - d_{ik}"),
         r"j \in \mathcal{P}_i, \quad k \in \mathcal{N}_i"),
        {"pos_margin": "m^{+}", "neg_margin": "m^{-}"},
    ),
    "snr_contrastive": Formula(
        ("L = " + hinges("r_{ij} - m^{+}", "m^{-} - r_{ik}")
         + r" + z\;\underset{i}{\operatorname{mean}}\,\left|\textstyle\sum_f x_{if}\right|",
         r"r_{ij} = \frac{\operatorname{Var}(x_i - x_j)}{\operatorname{Var}(x_i)}, \quad "
         r"j \in \mathcal{P}_i, \quad k \in \mathcal{N}_i"),
        {"pos_margin": "m^{+}", "neg_margin": "m^{-}", "zero_mean": "z"},
        ("r is noise to signal: variances over the components of a vector.",),
    ),
    "hinge_embedding": Formula(
        (r"L = \underset{i < j}{\operatorname{mean}}\begin{cases} d_{ij} & y_i = y_j \\ "
         r"\left[m - d_{ij}\right]_{+} & y_i \neq y_j \end{cases}",),
        {"margin": "m"},
    ),
    "margin": Formula(
        MARGIN.lines, MARGIN.symbols,
        (*MARGIN.remarks, "β is learned, one for all classes; the parameter is where it starts."),
    ),
    "margin_per_class": Formula(
        tuple(line.replace(r"\beta", r"\beta_{y_a}") for line in MARGIN.lines), MARGIN.symbols,
        (*MARGIN.remarks, "β is learned for each class; the parameter is where all start."),
    ),
    "multi_similarity": Formula(
        (MULTI,
         r"\text{keep } j \text{ if } s_{ij} - \varepsilon < \max_{k \in \mathcal{N}_i} s_{ik},"
         r"\quad \text{keep } k \text{ if } s_{ik} + \varepsilon > "
         r"\min_{j \in \mathcal{P}_i} s_{ij}"),
        {"margin": "m", "alpha": r"\alpha", "beta": r"\beta", "epsilon": r"\varepsilon"},
    ),
    "multi_similarity_no_miner": Formula(
        (MULTI,), {"margin": "m", "alpha": r"\alpha", "beta": r"\beta"}
    ),
    "lifted_structure": Formula(
        (r"L = \underset{i \in \mathcal{B}}{\operatorname{mean}}\left[\log \sum_{j \in "
         r"\mathcal{P}_i} e^{m - s_{ij}} + \log \sum_{k \in \mathcal{N}_i} e^{s_{ik}}\right]_{+}",),
        {"margin": "m"},
    ),
    "circle": Formula(
        (r"L = \underset{i \in \mathcal{B}}{\operatorname{mean}}\;\log\left(1 + "
         r"\sum_{k \in \mathcal{N}_i} e^{\gamma\, a_{ik}(s_{ik} - m)} "
         r"\sum_{j \in \mathcal{P}_i} e^{-\gamma\, a_{ij}(s_{ij} - 1 + m)}\right)",
         r"a_{ij} = \left[1 + m - s_{ij}\right]_{+}, \quad a_{ik} = \left[s_{ik} + m\right]_{+}"),
        {"margin": "m", "scale": r"\gamma"},
        ("The weights a are constants to the gradient.",),
    ),
    "fast_ap": Formula(
        (r"L = \underset{i \in \mathcal{B}}{\operatorname{mean}}\left(1 - "
         r"\frac{1}{|\mathcal{P}_i|} \sum_{b=0}^{n} \frac{h_b^{+} H_b^{+}}{H_b}\right)",),
        {"bins": "n"},
        ("h⁺ is a soft histogram, over n bins, of the squared distances of i to its positives; "
         "H⁺ and H are its cumulative sum and that of all other images.",),
    ),
    "triplet": Formula(
        (r"L = \operatorname{mean}_{+}\left[s_{an} - s_{ap} + m\right]_{+}, \quad "
         r"(a,p,n) \in \mathcal{T}",),
        {"margin": "m"},
        ("T: every pair of a class with its semi-hard negative, the most similar one that is less "
         "similar than the positive.",),
    ),
    "triplet_euclidean": Formula(
        (r"L = \operatorname{mean}_{+}\left[d_{ap} - d_{an} + m\right]_{+}, \quad "
         r"(a,p,n) \in \mathcal{T}",),
        {"margin": "m"},
        ("T: all triplets of the batch.",),
    ),
    "triplet_p_norm": Formula(
        (TRIPLET_HINGE, r"d_{ij} = \left(\sum_f |x_{if} - x_{jf}|^{q}\right)^{1/q}"),
        {"p": "q", "margin": "m", "swap": "d^{-}", "mining": r"\mathcal{T}"},
        MINED,
    ),
    "triplet_distance": Formula(
        (TRIPLET_HINGE,),
        {"distance": "d_{ap}", "margin": "m", "swap": "d^{-}", "mining": r"\mathcal{T}"},
        ("The distance is cosine (1 - s), Euclidean, squared Euclidean, or your own function.",
         *MINED),
    ),
    "n_pair": Formula(
        (r"L = \underset{c}{\operatorname{mean}}\;\log \sum_{c'} "
         r"e^{x_{a_c}^{\top} x_{p_{c'}} - x_{a_c}^{\top} x_{p_c}} + "
         r"\lambda\;\underset{i \in \mathcal{B}}{\operatorname{mean}}\,\lVert x_i \rVert^2",),
        {"l2": r"\lambda"},
        ("The first two images of each class c are its pair (a, p). The vectors are raw.",),
    ),
    "nt_xent": Formula(
        ("L = " + against_negatives(r"\frac{s_{ik} - s_{ij}}{t}"),), {"temperature": "t"}
    ),
    "tuplet_margin": Formula(
        ("L = " + against_negatives(r"\gamma\left(s_{ik} - \cos(\theta_{ij} - m)\right)"),),
        {"margin": "m", "scale": r"\gamma"},
        ("θ is the angle of the positive pair; m is in degrees.",),
    ),
    "angular": Formula(
        ("L = " + against_negatives(
            r"4\tan^2\!\alpha\,(x_i + x_j)^{\top} x_k - 2(1 + \tan^2\!\alpha)\,s_{ij}"),),
        {"alpha": r"\alpha"},
        ("α is in degrees.",),
    ),
    "batch_all_nca": nca("all triplets of the batch"),
    "n_pair_nca": Formula(
        (r"L = \underset{c}{\operatorname{mean}}\;\log \sum_{c'} "
         r"\exp\frac{s_{a_c p_{c'}} - s_{a_c p_c}}{t}",),
        {"temperature": "t"},
        ("The first two images of each class c are its pair (a, p).",),
    ),
    "semi_hard_negative_nca": nca(
        "every anchor with a random positive and the most similar negative that is less similar "
        "than it"
    ),
    "easy_positive_semi_hard_negative": nca(
        "every anchor with its most similar positive and the most similar negative that is less "
        "similar than that"
    ),
    "proxy_nca": Formula(
        (r"L = -\underset{i \in \mathcal{B}}{\operatorname{mean}}\;\log\frac{e^{-\lVert x_i - "
         r"w_{y_i} \rVert^2}}{\sum_{c \neq y_i} e^{-\lVert x_i - w_{c} \rVert^2}}",),
        {},
        ("The own proxy is not in the denominator, so the loss can be negative.",),
    ),
    "proxy_nca_pml": Formula(
        (r"L = -\underset{i \in \mathcal{B}}{\operatorname{mean}}\;\log\frac{e^{-\gamma\lVert x_i "
         r"- w_{y_i} \rVert^2}}{\sum_{c} e^{-\gamma\lVert x_i - w_{c} \rVert^2}}",),
        {"softmax_scale": r"\gamma"},
    ),
    "soft_triple": Formula(
        (cross_entropy(r"\alpha (S_{i y_i} - m)", r"\alpha S_{ic}")
         + r" + \frac{\tau}{C K (K-1)}\sum_{c}\sum_{k < l}"
         r"\sqrt{2 - 2\, w_{ck}^{\top} w_{cl}}",
         r"S_{ic} = \sum_{k=1}^{K} \frac{e^{s_{ick} / \gamma}}{\sum_l e^{s_{icl} / \gamma}}\, "
         r"s_{ick}"),
        {"margin": "m", "alpha": r"\alpha", "gamma": r"\gamma", "tau": r"\tau", "centers": "K"},
        ("Every class c has K centres w; C is the number of classes.",),
    ),
    "proxy_anchor": Formula(
        ("L = " + PULL + r" + \frac{1}{|W|}\sum_{w} \log\left(1 + \sum_{i:\, y_i \neq w} "
         r"e^{\alpha (s_{iw} + m)}\right)",),
        PROXY_SYMBOLS,
    ),
    "thesis_loss_1": Formula(
        ("L = " + PULL + r" + \frac{1}{|W|}\sum_{w} \log\left(1 + \sum_{v \neq w} "
         r"e^{\alpha (s_{wv} + m)}\right)",),
        PROXY_SYMBOLS,
        ("v and w are proxies: these are pushed apart, not the images.",),
    ),
    "thesis_loss_2": Formula(
        ("L = " + PULL + r" + \frac{1}{|W|}\sum_{w} \log\left(1 + \sum_{v \neq w} "
         r"e^{\alpha \left(\sum_{i \in \mathcal{B}} s_{wi}\, s_{iv} + m\right)}\right)",),
        PROXY_SYMBOLS,
        ("v and w are proxies, as similar as the batch's images make them.",),
    ),
    "thesis_loss_3": Formula(
        (
            r"L = L_1 + \frac{r}{|\mathcal{B}|}\sum_{i \in \mathcal{B}} \left[ \log\left(1 + "
            r"\sum_{j \neq i,\, y_j = y_i} e^{-\alpha (s_{ij} - m)}\right) + "
            r"\log\left(1 + \sum_{y_j \neq y_i} e^{\alpha (s_{ij} + m)}\right) \right]",
        ),
        PROXY_SYMBOLS | {"relations": "r"},
        ("L_1 is thesis_loss_1; i and j are images of the batch.",),
    ),
    "softmax": Formula(
        (cross_entropy(r"w_{y_i}^{\top} x_i", r"w_{c}^{\top} x_i"),), {}, ("The vectors are raw.",)
    ),
    "normalized_softmax": Formula(
        (cross_entropy("s_{i y_i} / t", "s_{ic} / t"),), {"temperature": "t"}
    ),
    "arcface": Formula(
        (cross_entropy(r"\gamma \cos(\theta_{i y_i} + m)", r"\gamma \cos\theta_{ic}"),),
        {"margin": "m", "scale": r"\gamma"},
        ("θ is the angle of an image and a class's weights; m is in degrees. Beyond 180 degrees "
         "the released code continues it by a line.",),
    ),
    "cosface": Formula(
        (cross_entropy(r"\gamma (s_{i y_i} - m)", r"\gamma s_{ic}"),),
        {"margin": "m", "scale": r"\gamma"},
    ),
    "sphereface": Formula(
        (cross_entropy(r"\lVert x_i \rVert\, \psi(\theta_{i y_i})",
                       r"\lVert x_i \rVert \cos\theta_{ic}"),
         r"\psi(\theta) = (-1)^k \cos(m\,\theta) - 2k, \quad k = "
         r"\left\lfloor m\,\theta / \pi \right\rfloor"),
        {"margin": "m"},
        ("The vectors are raw; θ is the angle of an image and a class's weights.",),
    ),
}  # fmt: skip
