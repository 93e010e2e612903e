"""Exact retrieval metrics in bounded memory: self excluded by index, ties broken against the query."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from search_spaces import pick

if TYPE_CHECKING:
    from torch import Tensor

BLOCK_BYTES = 64 * 2**20  # of one block of similarities
SLACK = 16  # units of rounding at a cosine of 1 within which two similarities are a tie


@dataclass(frozen=True)
class Retrieval:
    """One value per scored query and metric, and their means."""

    means: dict[str, float]
    queries: dict[str, Tensor]
    scored: Tensor  # rows of the queries that have a match
    lone: int


def retrieval(embeddings: Tensor, labels: Tensor, metrics: tuple[str, ...]) -> Retrieval:
    """Every row is a query against all other rows; a query without a match is counted as lone and not scored."""
    import torch
    from torch.nn import functional as F

    unit = F.normalize(embeddings)
    members, matches = _members(labels)
    rows = torch.nonzero(matches > 0).flatten()
    depth = max([int(matches.max()), *(_k(name) for name in metrics)])
    block = max(1, BLOCK_BYTES // (unit.element_size() * max(1, len(unit))))
    parts: dict[str, list[Tensor]] = {name: [] for name in metrics}
    for chunk in torch.split(rows, block):
        ranks = _ranks_of_matches(unit, chunk, members=members[labels[chunk]], depth=depth)
        for name in metrics:
            parts[name].append(_score(name, ranks, matches[chunk]))
    queries = {name: torch.cat(values) if values else torch.empty(0) for name, values in parts.items()}
    means = {name: float(values.double().mean()) if len(values) else 0.0 for name, values in queries.items()}
    return Retrieval(means, queries, rows, lone=len(labels) - len(rows))


def _members(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Row numbers of each label, padded with -1; and for each row how many others share its label."""
    import torch

    counts = torch.bincount(labels)
    order = labels.argsort(stable=True)
    members = torch.full((len(counts), int(counts.max())), -1, device=labels.device)
    starts = counts.cumsum(0) - counts
    members[labels[order], torch.arange(len(labels), device=labels.device) - starts[labels[order]]] = order
    return members, counts[labels] - 1


def _ranks_of_matches(unit: Tensor, rows: Tensor, *, members: Tensor, depth: int) -> Tensor:
    """For each query the places (from 0) of its matches in the full list, nearest first.

    The place of the i-th match is i plus the number of others at least as similar: a tie counts against the query.
    One matrix product gives equal vectors similarities that differ by rounding, so a tie is anything within SLACK.
    Places beyond depth are only known to be beyond.
    """
    import torch

    similarity = unit[rows] @ unit.T
    absent = (members < 0) | (members == rows[:, None])
    matched = similarity.gather(1, members.clamp(min=0)).masked_fill_(absent, -torch.inf)
    matched = matched.sort(dim=1, descending=True).values
    # The padding must not hide row 0, so it points at the query itself.
    similarity.scatter_(1, torch.where(members < 0, rows[:, None], members), -torch.inf)
    others = similarity.topk(min(depth, similarity.shape[1]), dim=1).values
    ahead = torch.searchsorted(-others, SLACK * torch.finfo(unit.dtype).eps - matched, right=True)
    ranks = ahead + torch.arange(matched.shape[1], device=rows.device)
    return ranks.masked_fill_(matched == -torch.inf, torch.iinfo(ranks.dtype).max)


def _score(name: str, ranks: Tensor, matches: Tensor) -> Tensor:
    import torch

    if name.startswith("recall_at_"):
        return (ranks[:, 0] < _k(name)).float()
    if name.startswith("precision_at_"):
        return (ranks < _k(name)).sum(dim=1) / _k(name)
    within = ranks < matches[:, None]
    if name == "r_precision":
        return within.sum(dim=1) / matches
    hits = torch.arange(1, ranks.shape[1] + 1, device=ranks.device)
    return (within * (hits / (ranks.double() + 1))).sum(dim=1).float() / matches


def _k(name: str) -> int:
    found = re.search(r"_at_(\d+)$", name)
    return int(found.group(1)) if found else 0


METRICS: dict[str, str] = {
    "recall_at_K": "share of queries with a match among their K nearest; any K, as in recall_at_1",
    "precision_at_K": "share of matches among the K nearest; any K",
    "r_precision": "share of matches among the R nearest, R being the number of matches that exist",
    "map_at_r": "mean over the first R places of the precision there, counted where a match stands",
}


def check_metric(name: str) -> str:
    """The name itself, or a ValueError with the near one."""
    if name.endswith("_at_K"):
        raise ValueError(f"{name} needs a number in the place of K, as in {name[:-1]}1.")
    if not re.fullmatch(r"(recall|precision)_at_[1-9]\d*", name):
        pick(METRICS, name, "metric")
    return name
