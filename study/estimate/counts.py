"""Count what a study would do: cells, trials, models and epochs, and the first settings of every
search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from study.config.budget import expected_search, search_epochs
from study.config.plan import StudyPlan
from study.config.protocols import find_protocol
from study.strategies.catalogue import STRATEGIES
from study.strategies.strategy import Setting
from trainables.contract import Cell

PREVIEW = 3  # settings shown per cell


@dataclass(frozen=True)
class CellCounts:
    """Count one cell before it runs. Ranges: (expected with early stopping, if it never stops
    anything).
    """

    label: str
    rule: str
    search_trials: int
    final_trials: int  # with refits
    models: int  # per trial; a refit trains one
    epochs: tuple[float, float]  # of trials: all models of a trial train an epoch together
    model_epochs: tuple[float, float]


def count_cells(plan: StudyPlan) -> list[CellCounts]:
    """Return the counts of every cell, in the order of plan.cells."""
    config = plan.config

    @cache
    def models(dataset: str, protocol: str) -> int:
        return len(plan.splits(dataset, protocol))

    def count(cell: Cell) -> CellCounts:
        search, final = plan.trials(cell)
        each = models(cell.dataset, cell.protocol)
        finals = config.searches * config.reproductions
        refits = plan.refits(cell) * len(plan.final_kinds(cell)) * finals
        last = plan.for_cell(cell).epochs
        one = expected_search(config, plan.search_trials(cell), races=plan.races(cell))
        expected = config.searches * one
        searched = expected, search * search_epochs(config)
        low, high = ((part + (final - refits) * last) * each + refits * last for part in searched)
        return CellCounts(
            label=plan.label(cell),
            rule=find_protocol(cell.protocol).rule,
            search_trials=search,
            final_trials=final,
            models=each,
            epochs=(searched[0] + final * last, searched[1] + final * last),
            model_epochs=(low, high),
        )

    return [count(cell) for cell in plan.cells]


def totals(plan: StudyPlan, cells: Sequence[CellCounts]) -> dict[str, Any]:
    """Return the sums as `fairtrial plan --json` prints them. epochs: [expected, at most]."""
    return {
        "name": plan.config.name,
        "cells": len(cells),
        "search_trials": sum(cell.search_trials for cell in cells),
        "final_trials": sum(cell.final_trials for cell in cells),
        "baseline_trials": len(plan.baseline_cells()),
        "epochs": [round(sum(cell.epochs[i] for cell in cells)) for i in (0, 1)],
        "model_epochs": [round(sum(cell.model_epochs[i] for cell in cells)) for i in (0, 1)],
        "rungs": plan.rungs if any(cell.search_trials for cell in cells) else [],
    }


def first_settings(plan: StudyPlan, loss: str) -> list[Setting]:
    """Return the settings with which every search of a loss begins; later ones depend on results.

    The first is the published one. Proposing them imports the libraries that search.
    """
    published = plan.published(loss)
    trials = max(plan.search_trials(cell) for cell in plan.cells if cell.loss == loss)
    if not trials:
        return [published]
    strategy = STRATEGIES[plan.config.strategy](
        plan.space(loss), first=published, trials=trials, seed=plan.config.seed
    )
    previews = [strategy.suggest(f"preview-{i}") for i in range(min(trials, PREVIEW))]
    return [setting for setting in previews if setting is not None]
