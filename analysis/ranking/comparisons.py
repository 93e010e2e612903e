"""Find where losses are compared: one dataset, backbone, embedding size and honest protocol, with
the default setup and the baselines.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from analysis.ranking.readings import VALIDATION
from trainables.contract import CLOSED_SET, PCA, PIXELS, UNTRAINED, is_closed_set

COMPARISON_KEYS = ["dataset", "backbone", "embedding_size"]


@dataclass(frozen=True)
class Comparison:
    """Name the trials whose losses are compared.

    protocol: the honest one; empty if only the default setup was run. several: the study has other
    honest protocols with the same dataset, backbone and embedding size.
    """

    dataset: str
    backbone: str
    embedding_size: int
    protocol: str
    several: bool

    @property
    def title(self) -> str:
        """Return the dataset, backbone and size, and the protocol where there are several."""
        protocol = self.protocol if self.several else ""
        return title(self.dataset, self.backbone, self.embedding_size, protocol)

    @property
    def setup(self) -> str:
        """Return the setup that ranks losses here."""
        return CLOSED_SET if is_closed_set(self.protocol) else VALIDATION

    def trained(self, trials: pd.DataFrame) -> pd.DataFrame:
        """Return trials of this protocol and of the default setup, which joins each honest
        protocol.
        """
        own = trials["peeks"] | (trials["protocol"] == self.protocol)
        return trials[self._shares_keys(trials) & _is_trained(trials) & own]

    def untrained(self, trials: pd.DataFrame) -> pd.DataFrame:
        """Return the baselines: this network without training, and raw pixels."""
        pixels = (trials["dataset"] == self.dataset) & (trials["backbone"] == PIXELS)
        return trials[(self._shares_keys(trials) | pixels) & ~_is_trained(trials)]

    def wider(self, trials: pd.DataFrame) -> pd.DataFrame:
        """Return the PCA with as many dimensions as the fold models have together; often none."""
        own = self.trained(trials)
        folds = own.loc[~own["peeks"].astype(bool), "folds"]
        size = self.embedding_size * (int(folds.max()) if len(folds) else 1)
        here = (trials["dataset"] == self.dataset) & (trials["backbone"] == self.backbone)
        wide = here & (trials["loss"] == PCA) & (trials["embedding_size"] == size)
        return trials[wide] if size > self.embedding_size else trials.iloc[:0]

    def _shares_keys(self, trials: pd.DataFrame) -> pd.Series[bool]:
        size = trials["embedding_size"] == self.embedding_size
        return (trials["dataset"] == self.dataset) & (trials["backbone"] == self.backbone) & size


def title(dataset: str, backbone: str, size: int, protocol: str = "") -> str:
    """Return the name of a comparison in words."""
    return f"{dataset}, {backbone}, {size} dimensions{f', {protocol}' if protocol else ''}"


def comparisons(trials: pd.DataFrame) -> list[Comparison]:
    """Return every comparison of a study.

    Different honest protocols answer different questions, so each has its own comparison and
    nothing is averaged over them.
    """
    if trials.empty:
        return []
    trained = trials[_is_trained(trials)]
    found = []
    keys = trained[COMPARISON_KEYS].drop_duplicates()
    for dataset, backbone, size in keys.itertuples(index=False):
        mine = trained[(trained[COMPARISON_KEYS] == [dataset, backbone, size]).all(axis=1)]
        honest = sorted(mine.loc[~mine["peeks"], "protocol"].unique(), key=_in_order)
        found += [
            Comparison(str(dataset), str(backbone), int(size), name, len(honest) > 1)
            for name in honest or [""]
        ]
    return found


def _is_trained(trials: pd.DataFrame) -> pd.Series[bool]:
    return trials["rule"] != UNTRAINED


def _in_order(protocol: str) -> tuple[str, float]:
    """Sort fixed_validation:0.1 before fixed_validation:0.3, and k_fold:4 before k_fold:10."""
    name, _, number = protocol.partition(":")
    return name, float(number or 0)
