"""Simulate how often intervals hold: coverage, family-wise error and power of the shipped code.

A simulated study has equal losses, so every pair that it tells apart is an error. Its scores add up
class effects, effects of each loss in each class, replicate effects that all losses share, those of
each loss, and a residual; `analysis.statistics` gets them as it gets a real study's. The sizes of
these effects come from a finished study (its folder is the only argument), else from runs of the
quickstart.

    uv run python benchmarks/coverage.py [FOLDER] [--studies 2000]
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from analysis import read_study
from analysis.ranking.pairs import components_of
from analysis.statistics import (
    QUICKSTART,
    Components,
    Floats,
    Sample,
    estimates,
    pairs,
)

LOSSES, REPLICATES = (4, 10), (3, 5, 10)
GAP = 0.03  # power: the share of pairs that differ by so much and are told apart
BATCH = 250  # studies at a time, so that 10 losses x 10 replicates x 100 classes stay small


@dataclass(frozen=True)
class Simulated:
    """Hold shares of simulated studies, of their numbers or of their pairs of losses."""

    numbers: float  # intervals of a loss's number that hold
    pairs: float  # intervals of a pair's difference that hold, each for itself
    worst: float  # of the pair whose intervals hold least often
    error: float  # studies that tell some equal losses apart
    power: float


def scenarios(own: Components) -> dict[str, Components]:
    """Return the components as they are, and what may be different elsewhere."""
    size = float(np.sqrt(np.mean(np.square(own.replicates))))
    few = np.linspace(1, 4, len(own.weights))
    return {
        "as measured": own,
        "equal losses": replace(own, replicates=(size,)),
        "unequal losses": replace(own, replicates=(size / 3, size / 2, size, 2 * size)),
        "shared effects": replace(own, replicates=(size / 2,), shared=1.5 * size),
        "unequal and shared": replace(
            own, replicates=(size / 3, size / 2, size, 2 * size), shared=1.5 * size
        ),
        "calm replicates": replace(own, replicates=(size / 5,)),
        "unequal classes": replace(own, weights=tuple(few / few.sum())),
    }


def simulate(
    components: Components,
    losses: int,
    replicates: int,
    *,
    studies: int,
    rng: np.random.Generator,
) -> Simulated:
    """Return how the intervals of this many studies of equal losses hold."""
    sizes = [min(BATCH, studies - start) for start in range(0, studies, BATCH)]
    parts = [_judge(draw(components, losses, replicates, studies=size, rng=rng)) for size in sizes]
    numbers, held, error, power = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Simulated(
        float(numbers.mean()),
        float(held.mean()),
        float(held.mean(axis=0).min()),
        float(error.mean()),
        float(power.mean()),
    )


def draw(
    components: Components,
    losses: int,
    replicates: int,
    *,
    studies: int,
    rng: np.random.Generator,
) -> dict[str, Sample]:
    """Return the samples of equal losses, whose true mean is zero, in several studies at once."""
    weights = np.array(components.weights)
    classes = len(weights)
    # A class's residual is that of a mean over its queries.
    residual = components.residual / np.sqrt(weights * classes)
    easy = components.classes * rng.normal(size=(studies, 1, classes))
    lucky = components.shared * rng.normal(size=(studies, replicates, 1))
    found = {}
    for number in range(losses):
        own = components.replicates[number % len(components.replicates)]
        means = (
            easy
            + lucky
            + components.loss_in_class * rng.normal(size=(studies, 1, classes))
            + own * rng.normal(size=(studies, replicates, 1))
            + residual * rng.normal(size=(studies, replicates, classes))
        )
        found[f"loss {number}"] = Sample(means, weights, tuple(range(replicates)))
    return found


def _judge(samples: Mapping[str, Sample]) -> tuple[Floats, Floats, Floats, Floats]:
    """Return by study: numbers that hold, pairs that hold, whether any errs, pairs with power."""
    numbers, gaps = list(estimates(samples).values()), list(pairs(samples).values())
    together = [gap.reach(among=len(samples)) for gap in gaps]
    apart = np.stack([abs(g.value) > reach for g, reach in zip(gaps, together, strict=True)], 1)
    power = np.stack([g.value + GAP > reach for g, reach in zip(gaps, together, strict=True)], 1)
    return (
        np.stack([abs(one.value) <= one.reach() for one in numbers], 1).astype(float),
        np.stack([abs(gap.value) <= gap.reach() for gap in gaps], 1).astype(float),
        apart.any(axis=1).astype(float),
        power.astype(float),
    )


def main() -> None:
    """Print the components and a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="a finished study")
    parser.add_argument("--studies", type=int, default=1000, help="simulated for each row")
    options = parser.parse_args()
    own = components_of(read_study(options.folder)) if options.folder else QUICKSTART
    rng = np.random.default_rng(0)
    print(_sentence(own))
    print()
    print("| scenario | losses | replicates | numbers | pairs | worst pair | error | power |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, components in scenarios(own).items():
        for losses in LOSSES:
            for replicates in REPLICATES:
                found = simulate(components, losses, replicates, studies=options.studies, rng=rng)
                shares = (found.numbers, found.pairs, found.worst, found.error, found.power)
                texts = " | ".join(f"{share:.3f}" for share in shares)
                print(f"| {name} | {losses} | {replicates} | {texts} |", flush=True)


def _sentence(own: Components) -> str:
    replicates = ", ".join(f"{100 * each:.1f}" for each in own.replicates)
    return (
        f"Standard deviations in points of Recall@1: replicates of each loss {replicates}; "
        f"replicates, shared {100 * own.shared:.1f}; {len(own.weights)} test classes "
        f"{100 * own.classes:.1f}; loss in class {100 * own.loss_in_class:.1f}; "
        f"residual {100 * own.residual:.1f}."
    )


if __name__ == "__main__":
    main()
