"""A study without training: recorded learning curves drive the real searcher and the real early stopping, thousands of trials a minute."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, count
from pathlib import Path
from typing import Any

from search_spaces import Range, Value
from study.config import StudyConfig
from study.search import SCORE, StudySearcher
from study.stopping import StopPerCell
from study.strategies import Setting, Space
from trainables.contract import WORST, TrialSpec

NEIGHBOURS = 4


@dataclass(frozen=True)
class Curves:
    """The recorded trials of one loss, and a rule for the settings between theirs.

    A setting's curve is the mean of those of the four nearest recorded settings, each weighted by 1 / distance squared; at a
    recorded setting it is the recorded one. Distance is Euclidean, every parameter measured from 0 to 1 along its search range (log
    ranges by order of magnitude), two different choices 1 apart. So nothing is better here than the best that was recorded.
    """

    space: Space
    settings: list[Setting]
    scores: list[list[float]]  # of each, epoch by epoch

    def at(self, setting: Mapping[str, Value]) -> list[float]:
        ordered = sorted((self._distance(setting, other), number) for number, other in enumerate(self.settings))
        nearest = ordered[:1] if ordered[0][0] == 0 else ordered[:NEIGHBOURS]
        weights = [1.0 if distance == 0 else distance**-2 for distance, _ in nearest]
        epochs = zip(*(self.scores[number] for _, number in nearest), strict=True)
        return [sum(w * score for w, score in zip(weights, scores, strict=True)) / sum(weights) for scores in epochs]

    def _distance(self, one: Mapping[str, Value], other: Mapping[str, Value]) -> float:
        return math.hypot(*(_apart(param.search, one[key], other[key]) for key, param in self.space.items()))


def _apart(domain: Any, one: Value, other: Value) -> float:
    if isinstance(domain, Range):
        return domain.place(float(one)) - domain.place(float(other))
    return float(one != other)


def read_curves(path: Path, config: StudyConfig) -> dict[str, Curves]:
    """By loss, the scores that the study selects by. A trial with fewer epochs than others diverged: its score is the worst throughout."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    length = max(len(row[config.select_metric].split()) for row in rows)
    found: dict[str, Curves] = {}
    for row in rows:
        curves = found.setdefault(row["loss"], Curves(config.space(row["loss"]), [], []))
        scores = [float(score) for score in row[config.select_metric].split()]
        curves.settings.append(json.loads(row["setting"]))
        curves.scores.append(scores if len(scores) == length else [WORST] * length)
    return found


class Trial:
    """What the schedulers see of a Tune trial, and how far it is."""

    def __init__(self, trial_id: str, config: dict[str, Any], curves: Mapping[str, Curves]) -> None:
        self.trial_id, self.config = trial_id, config
        self.spec = TrialSpec.from_dict(config["spec"])
        epochs = self.spec.training.epochs
        best = accumulate(curves[self.spec.cell.loss].at(self.spec.setting)[:epochs], max) if epochs else []  # as searchers see it
        self.scores, self.epoch = list(best), 0
        assert len(self.scores) == epochs, "the recorded trials are as long as those of the study"

    def is_finished(self) -> bool:
        return self.epoch >= len(self.scores)

    def step(self) -> dict[str, Any]:
        self.epoch = min(self.epoch + 1, len(self.scores))
        score = self.scores[self.epoch - 1] if self.scores else WORST
        chosen = self.scores.index(score) + 1 if self.scores else 0
        return {"epoch": self.epoch, SCORE: score, "done": self.is_finished(), "chosen_epoch": chosen}


@dataclass(frozen=True)
class Step:
    """One epoch of one trial, in the order in which they end."""

    cell: str
    trial: str
    setting: Mapping[str, Value]
    epoch: int
    score: float
    ended: bool


def simulate(config: StudyConfig, curves: Mapping[str, Curves], *, slots: int = 1) -> Iterator[Step]:
    """Tune's loop: free slots ask the searcher, every running trial trains an epoch in turn, early stopping judges each.

    Every epoch takes the same time, so the slots march in step.
    """
    searcher, stopping = StudySearcher(config), StopPerCell(config)
    numbers, running = count(), list[Trial]()
    while True:
        while len(running) < slots:
            trial_id = f"simulated-{next(numbers)}"
            given = searcher.suggest(trial_id)
            assert given != StudySearcher.FINISHED or not running, "Tune would not ask again"
            if not isinstance(given, dict):  # it waits, or all is done
                break
            running.append(Trial(trial_id, given, curves))
        if not running:
            assert given == StudySearcher.FINISHED, "a searcher waits for running trials only"
            return
        for trial in list(running):
            result = trial.step()
            stops = result["done"] or stopping.on_trial_result(None, trial, result) == StopPerCell.STOP
            if stops:
                stopping.on_trial_complete(None, trial, result)
                searcher.on_trial_complete(trial.trial_id, result | {"done": True})
                running.remove(trial)
            yield Step(str(trial.spec.cell), trial.config["trial"], trial.spec.setting, result["epoch"], result[SCORE], stops)
