"""Simulate a study without training: recorded learning curves drive the real searcher and early
stopping, thousands of trials a minute.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, count
from pathlib import Path
from typing import Any

from analysis.record.trial_id import TrialId
from search_spaces import Range, Value
from study.config.plan import StudyPlan
from study.search.early_stopping import EarlyStopping
from study.search.searcher import SCORE, StudySearcher
from study.strategies.strategy import Setting, Space
from trainables.contract import WORST, TrialSpec

NEIGHBOURS = 4


@dataclass(frozen=True)
class Curves:
    """Hold the recorded trials of one loss, and interpolate between their settings.

    A setting's curve is the mean of those of the four nearest recorded settings, each weighted by 1
    / distance squared; at a recorded setting it is the recorded one. Distance is Euclidean, every
    parameter measured from 0 to 1 along its search range (log ranges by order of magnitude), two
    different choices 1 apart. So nothing is better here than the best that was recorded.
    """

    space: Space
    settings: list[Setting]
    scores: list[list[float]]  # of each, epoch by epoch

    def at(self, setting: Mapping[str, Value]) -> list[float]:
        ordered = sorted(
            (self._distance(setting, other), number) for number, other in enumerate(self.settings)
        )
        nearest = ordered[:1] if ordered[0][0] == 0 else ordered[:NEIGHBOURS]
        weights = [1.0 if distance == 0 else distance**-2 for distance, _ in nearest]
        epochs = zip(*(self.scores[number] for _, number in nearest), strict=True)
        return [
            sum(w * score for w, score in zip(weights, scores, strict=True)) / sum(weights)
            for scores in epochs
        ]

    def _distance(self, one: Mapping[str, Value], other: Mapping[str, Value]) -> float:
        return math.hypot(
            *(_apart(param.search, one[key], other[key]) for key, param in self.space.items())
        )


def _apart(domain: Any, one: Value, other: Value) -> float:
    if isinstance(domain, Range):
        return domain.position(float(one)) - domain.position(float(other))
    return float(one != other)


def read_curves(path: Path, plan: StudyPlan) -> dict[str, Curves]:
    """Return by loss the recorded curves of the score that the study selects by.

    A trial with fewer epochs than others diverged: its score is the worst throughout.
    """
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    metric = plan.config.select_metric
    length = max(len(row[metric].split()) for row in rows)
    found: dict[str, Curves] = {}
    for row in rows:
        curves = found.setdefault(row["loss"], Curves(plan.space(row["loss"]), [], []))
        scores = [float(score) for score in row[metric].split()]
        curves.settings.append(json.loads(row["setting"]))
        curves.scores.append(scores if len(scores) == length else [WORST] * length)
    return found


class SimulatedTrial:
    """Hold what the schedulers see of a Tune trial, and how far it is."""

    def __init__(self, trial_id: str, config: dict[str, Any], curves: Mapping[str, Curves]) -> None:
        self.trial_id, self.config = trial_id, config
        spec: TrialSpec = config["spec"]
        epochs, self.epoch, self.scores = spec.training.epochs, 0, list[float]()
        if epochs:
            curve = curves[spec.cell.loss].at(spec.setting)[:epochs]
            self.scores = list(accumulate(curve, max))  # as searchers see it
        assert len(self.scores) == epochs, "the recorded trials are as long as those of the study"

    def is_finished(self) -> bool:
        return self.epoch >= len(self.scores)

    def step(self) -> dict[str, Any]:
        self.epoch = min(self.epoch + 1, len(self.scores))
        score = self.scores[self.epoch - 1] if self.scores else WORST
        chosen = self.scores.index(score) + 1 if self.scores else 0
        done = self.is_finished()
        return {"epoch": self.epoch, SCORE: score, "done": done, "chosen_epoch": chosen}


@dataclass(frozen=True)
class SimulatedEpoch:
    """Hold one epoch of one trial, in the order in which epochs end."""

    trial: TrialId
    setting: Mapping[str, Value]
    epoch: int
    score: float
    ended: bool


def simulate(
    plan: StudyPlan, curves: Mapping[str, Curves], *, slots: int = 1
) -> Iterator[SimulatedEpoch]:
    """Yield every epoch of a study, as Tune's loop would run it.

    Free slots ask the searcher, every running trial trains an epoch in turn, early stopping judges
    each. Every epoch takes the same time, so the slots march in step.
    """
    searcher, stopping = StudySearcher(plan), EarlyStopping(plan)
    numbers, running = count(), list[SimulatedTrial]()
    while True:
        while len(running) < slots:
            trial_id = f"simulated-{next(numbers)}"
            config = searcher.suggest(trial_id)
            assert config != StudySearcher.FINISHED or not running, "Tune would not ask again"
            if not isinstance(config, dict):  # it waits, or all is done
                break
            running.append(SimulatedTrial(trial_id, config, curves))
        if not running:
            assert config == StudySearcher.FINISHED, "a searcher waits for running trials only"
            return
        for trial in list(running):
            result = trial.step()
            stops = result["done"] or (
                stopping.on_trial_result(None, trial, result) == EarlyStopping.STOP
            )
            if stops:
                stopping.on_trial_complete(None, trial, result)
                searcher.on_trial_complete(trial.trial_id, result | {"done": True})
                running.remove(trial)
            setting = trial.config["spec"].setting
            identity = TrialId.parse(trial.config["trial"])
            yield SimulatedEpoch(identity, setting, result["epoch"], result[SCORE], stops)
