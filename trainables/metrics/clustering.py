"""Measure how well k-means recovers the classes: normalised mutual information and F1 of pairs."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import normalized_mutual_info_score
from sklearn.metrics.cluster import pair_confusion_matrix
from torch import Tensor

from trainables.metrics.k_means import k_means

ClassLabels = NDArray[np.int64]


def cluster(unit: Tensor, count: int) -> ClassLabels:
    """Return each row's cluster, by k-means from one fixed start."""
    found: ClassLabels = k_means(unit, count).cpu().numpy()
    return found


def nmi(labels: ClassLabels, found: ClassLabels) -> float:
    """Return the normalised mutual information of classes and clusters."""
    return float(normalized_mutual_info_score(labels, found))


def f1(labels: ClassLabels, found: ClassLabels) -> float:
    """Return the F1 of pairs: two images of a cluster should share a class (Song et al. 2016)."""
    (_, wrong), (missed, right) = pair_confusion_matrix(labels, found).tolist()
    return float(2 * right / max(1, 2 * right + wrong + missed))


CLUSTERING: dict[str, Callable[[ClassLabels, ClassLabels], float]] = {"nmi": nmi, "f1": f1}
