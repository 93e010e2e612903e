"""How well k-means finds the classes again: normalised mutual information and the pairwise F1."""

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import normalized_mutual_info_score
from sklearn.metrics.cluster import pair_confusion_matrix
from torch import Tensor

Labels = NDArray[np.int64]


def cluster(unit: Tensor, count: int) -> Labels:
    """scikit-learn's k-means from one k-means++ start that is always the same.

    In double precision, because its threads add up a centre in whichever order they end.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # equal embeddings make fewer clusters, and the score says so
        found: Labels = KMeans(count, n_init=1, random_state=0).fit_predict(unit.double().cpu().numpy())
    return found


def nmi(labels: Labels, found: Labels) -> float:
    return float(normalized_mutual_info_score(labels, found))


def f1(labels: Labels, found: Labels) -> float:
    """Of pairs: two images in one cluster are right if they are of one class (Song et al., CVPR 2016)."""
    (_, wrong), (missed, right) = pair_confusion_matrix(labels, found).tolist()
    return float(2 * right / max(1, 2 * right + wrong + missed))


CLUSTERING: dict[str, Callable[[Labels, Labels], float]] = {"nmi": nmi, "f1": f1}
