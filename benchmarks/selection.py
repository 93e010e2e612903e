"""Measure how well a validation metric chooses settings, and how early it can.

Recorded trials (benchmarks/replicates.csv: the same settings of three losses in several replicates,
each with its own split and initial weights) say for each metric:

- signal / noise: the variance of the settings' own scores, by that of what a replicate adds to one
  of them beyond what it adds to all; of the best epoch's score, which is what a search compares.
- optimism: how much the best epoch of a replicate stands out there more than in the other
  replicates, by the sd of the settings' own scores, since metrics differ in scale.
- prediction: the rank correlation over settings of the best score until an epoch in one replicate
  with the Recall@1 that the other replicates end with; by epoch.
- regret: what the setting with the best score in one replicate lacks to the best one, in points of
  the Recall@1 that the other replicates end with.
- raced: the same if the best three are tried again in two other replicates and the best mean is
  chosen, as `finalists` does; `alone` is the regret of the search alone in the same replicates.

The many settings of benchmarks/curves.csv say how the score until an epoch predicts the last one of
the same trial.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from record_curves import CURVES, LOSSES, METRICS, read_replicates, study
from scipy.stats import spearmanr

Scores = NDArray[np.float64]  # (settings, replicates, epochs)
ROW = "{:<18}{:<13}" + "{:>10}" * 6


def signal_and_noise(scores: Scores) -> tuple[float, float]:
    """Return the sd between settings, and that of one trial around its setting and replicate."""
    best = scores.max(2)
    settings, replicates = best.shape
    rest = best - best.mean(0) - best.mean(1, keepdims=True) + best.mean()
    noise = (rest**2).sum() / ((settings - 1) * (replicates - 1))
    between = replicates * best.mean(1).var(ddof=1)
    return float(np.sqrt(max(0.0, between - noise) / replicates)), float(np.sqrt(noise))


def optimism(scores: Scores) -> float:
    """Return how much higher a trial's best epoch is there than in the other replicates."""
    level = scores - scores.mean(2, keepdims=True)
    settings, replicates, _ = scores.shape
    found = []
    for i in range(settings):
        for r in range(replicates):
            epoch = level[i, r].argmax()
            others = np.delete(level[i, :, epoch], r).mean()
            found.append(level[i, r, epoch] - others)
    return float(np.mean(found))


def ends_without(
    recall: Scores, selected: Scores, replicate: int | list[int]
) -> NDArray[np.float64]:
    """Return each setting's Recall@1 at its chosen epochs, over the other replicates."""
    epochs = selected.argmax(2)[..., None]
    ends = np.take_along_axis(recall, epochs, 2)[..., 0]
    return np.delete(ends, replicate, 1).mean(1)


def prediction(scores: Scores, recall: Scores, epoch: int) -> float:
    """Return the mean rank correlation of the score until an epoch with other replicates' end."""
    return float(
        np.mean(
            [
                spearmanr(scores[:, r, :epoch].max(1), ends_without(recall, scores, r)).statistic
                for r in range(scores.shape[1])
            ]
        )
    )


def regret(scores: Scores, recall: Scores) -> float:
    """Return the mean regret of the setting that a replicate chooses, in points."""
    found = []
    for r in range(scores.shape[1]):
        ends = ends_without(recall, scores, r)
        found.append(ends.max() - ends[scores[:, r].max(1).argmax()])
    return 100 * float(np.mean(found))


def raced(scores: Scores, recall: Scores, *, finalists: int, splits: int) -> tuple[float, float]:
    """Return the mean regrets of the search alone and of a race, in points.

    Every replicate is the search's once with every choice of further ones; the replicates that are
    left say how good a setting is.
    """
    replicates = range(scores.shape[1])
    best, alone, race = scores.max(2), [], []
    for first in replicates:
        for further in combinations([r for r in replicates if r != first], splits):
            ends = ends_without(recall, scores, [first, *further])
            leaders = best[:, first].argsort()[::-1][:finalists]
            means = best[leaders][:, [first, *further]].mean(1)
            alone.append(ends.max() - ends[leaders[0]])
            race.append(ends.max() - ends[leaders[means.argmax()]])
    return 100 * float(np.mean(alone)), 100 * float(np.mean(race))


def within_trials(metric: str, loss: str, epochs: Sequence[int]) -> list[float]:
    """Return how the best score until each epoch predicts a trial's last best: rank correlations.

    Trials that diverged are left out.
    """
    with CURVES.open(newline="") as file:
        rows = [row[metric].split() for row in csv.DictReader(file) if row["loss"] == loss]
    length = max(map(len, rows))
    curves = np.array([[float(score) for score in row] for row in rows if len(row) == length])
    last = curves.max(1)
    return [float(spearmanr(curves[:, :epoch].max(1), last).statistic) for epoch in epochs]


def main() -> None:
    length = study().epochs
    early = (2, length // 4, length // 2)
    recalls = read_replicates("recall_at_1")
    settings, replicates, _ = recalls[LOSSES[0]].shape
    print(f"{settings} settings of each loss in {replicates} replicates, {length} epochs")
    at = [f"by {epoch}" for epoch in early]
    print(ROW.format("loss", "metric", "signal/n.", "optimism", *at, "regret"))
    for loss in LOSSES:
        for metric in METRICS:
            scores, recall = read_replicates(metric)[loss], recalls[loss]
            signal, noise = signal_and_noise(scores)
            numbers = [
                (signal / noise) ** 2,
                optimism(scores) / signal,
                *(prediction(scores, recall, epoch) for epoch in early),
                regret(scores, recall),
            ]
            print(ROW.format(loss, metric, *(f"{number:.2f}" for number in numbers)))
    print("\nregret of the search alone, and of its best three in two further replicates")
    print(ROW.format("loss", "metric", "alone", "raced", "", "", "", ""))
    for loss in LOSSES:
        for metric in METRICS:
            scores, recall = read_replicates(metric)[loss], recalls[loss]
            numbers = [f"{each:.2f}" for each in raced(scores, recall, finalists=3, splits=2)]
            print(ROW.format(loss, metric, *numbers, "", "", "", ""))
    print("\nrank correlation of the best score until an epoch with the last, of the same trials")
    print(ROW.format("loss", "metric", *at, "", "", ""))
    for loss in LOSSES:
        for metric in METRICS:
            numbers = [f"{number:.2f}" for number in within_trials(metric, loss, early)]
            print(ROW.format(loss, metric, *numbers, "", "", ""))


if __name__ == "__main__":
    main()
