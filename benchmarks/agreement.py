"""Show whether finished studies agree: which pairs of losses each of them tells apart.

Studies of the same losses with other seeds and splits should never contradict each other: of the
pairs that one tells apart, another one may show no difference, but never the opposite. Losses are
compared by the validation setup, as in the studies' own rankings.

    uv run python benchmarks/agreement.py FOLDER FOLDER ...
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from analysis import read_study
from analysis.ranking.pairs import setup_losses
from analysis.ranking.readings import VALIDATION
from analysis.record.frames import StudyRows
from analysis.statistics import Sample, ahead_of, all_intervals

METRIC = "recall_at_1"
FIRST, SECOND, NEITHER, UNKNOWN = ">", "<", "=", "?"
Comparison = tuple[str, str, int, str]  # dataset, backbone, embedding size and protocol
Samples = dict[str, Sample]
Signs = dict[tuple[str, str], list[str]]  # by pair of losses: a sign of every study


def samples_of(rows: StudyRows) -> dict[Comparison, Samples]:
    """Return by comparison the samples of all losses under the validation setup."""
    return {
        (each.dataset, each.backbone, each.embedding_size, each.protocol): {
            loss: one.samples[METRIC] for loss, one in each.losses.items()
        }
        for each in setup_losses(rows, METRIC)
        if each.setup == VALIDATION and each.losses
    }


def agreement(studies: Sequence[Samples]) -> Signs:
    """Return what each study shows of every pair, the pairs in the order of the losses' means."""
    means: dict[str, list[float]] = {}
    for study in studies:
        for loss, one in study.items():
            means.setdefault(loss, []).append(float(one.mean()))
    order = sorted(means, key=lambda loss: -float(np.mean(means[loss])))
    ahead = [set(ahead_of(all_intervals(study))) for study in studies]
    return {
        (one, other): [
            _sign(one, other, shown) if {one, other} <= study.keys() else UNKNOWN
            for study, shown in zip(studies, ahead, strict=True)
        ]
        for one, other in combinations(order, 2)
    }


def _sign(one: str, other: str, shown: set[tuple[str, str]]) -> str:
    if (one, other) in shown:
        return FIRST
    return SECOND if (other, one) in shown else NEITHER


def contradicted(signs: Signs) -> list[tuple[str, str]]:
    """Return the pairs that one study tells apart in one direction and another in the other."""
    return [pair for pair, found in signs.items() if {FIRST, SECOND} <= {*found}]


def lines(signs: Signs) -> list[str]:
    """Return a Markdown table, and a sentence that says what to conclude."""
    studies = len(next(iter(signs.values()), []))
    apart = [
        sum(found[study] in (FIRST, SECOND) for found in signs.values()) for study in range(studies)
    ]
    opposite = contradicted(signs)
    verdict = (
        f"CONTRADICTED: {'; '.join(', '.join(pair) for pair in opposite)}."
        if opposite
        else "No pair is told apart in opposite directions."
    )
    return [
        f"| pair | {' | '.join(f'study {number}' for number in range(1, studies + 1))} |",
        f"| --- |{' --- |' * studies}",
        *(f"| {', '.join(pair)} | {' | '.join(found)} |" for pair, found in signs.items()),
        "",
        f"Of {len(signs)} pairs the studies tell {', '.join(map(str, apart))} apart. {verdict}",
    ]


def main() -> None:
    """Print a table for every comparison that any of the studies has."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, help="finished studies")
    folders = parser.parse_args().folders
    found = [samples_of(read_study(folder)) for folder in folders]
    for number, folder in enumerate(folders, start=1):
        print(f"study {number}: {folder}")
    for comparison in dict.fromkeys(each for study in found for each in study):
        print(f"\n{', '.join(map(str, comparison))}\n")
        print("\n".join(lines(agreement([study.get(comparison, {}) for study in found]))))


if __name__ == "__main__":
    main()
