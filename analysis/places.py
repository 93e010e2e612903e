"""Where losses are compared: one dataset, backbone, embedding size and honest protocol, joined by the default setup and the baselines."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from trainables.contract import PIXELS, UNTRAINED

AXES = ["dataset", "backbone", "embedding_size"]


@dataclass(frozen=True)
class Place:
    """protocol: the honest one, empty if only the default setup was run; several: the study has other honest ones here, too."""

    dataset: str
    backbone: str
    embedding_size: int
    protocol: str
    several: bool

    @property
    def title(self) -> str:
        return title(self.dataset, self.backbone, self.embedding_size, self.protocol if self.several else "")

    def trained(self, trials: pd.DataFrame) -> pd.DataFrame:
        """Trials of this protocol and of the default setup, which is held against each honest protocol."""
        return trials[self._here(trials) & _is_trained(trials) & (trials["peeks"] | (trials["protocol"] == self.protocol))]

    def untrained(self, trials: pd.DataFrame) -> pd.DataFrame:
        """The baselines: this network as it stands, and raw pixels."""
        pixels = (trials["dataset"] == self.dataset) & (trials["backbone"] == PIXELS)
        return trials[(self._here(trials) | pixels) & ~_is_trained(trials)]

    def _here(self, trials: pd.DataFrame) -> pd.Series[bool]:
        same = trials["embedding_size"] == self.embedding_size
        return (trials["dataset"] == self.dataset) & (trials["backbone"] == self.backbone) & same


def title(dataset: str, backbone: str, size: int, protocol: str = "") -> str:
    return f"{dataset}, {backbone}, {size} dimensions{f', {protocol}' if protocol else ''}"


def places(trials: pd.DataFrame) -> list[Place]:
    """Different honest protocols answer different questions, so each is a place of its own and nothing is averaged over them."""
    if trials.empty:
        return []
    trained = trials[_is_trained(trials)]
    found = []
    for dataset, backbone, size in trained[AXES].drop_duplicates().itertuples(index=False):
        here = trained[(trained[AXES] == [dataset, backbone, size]).all(axis=1)]
        honest = sorted(here.loc[~here["peeks"], "protocol"].unique(), key=_in_order)
        found += [Place(str(dataset), str(backbone), int(size), name, len(honest) > 1) for name in honest or [""]]
    return found


def _is_trained(trials: pd.DataFrame) -> pd.Series[bool]:
    return trials["rule"] != UNTRAINED


def _in_order(protocol: str) -> tuple[str, float]:
    """fixed_validation:0.1 before fixed_validation:0.3, k_fold:4 before k_fold:10."""
    name, _, number = protocol.partition(":")
    return name, float(number or 0)
