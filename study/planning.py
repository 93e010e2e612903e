"""What a study would do, counted: its cells, trials, models and epochs, and the first settings of every search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from study.budget import expected_search, search_epochs
from study.config import StudyConfig
from study.strategies import STRATEGIES, Setting
from trainables.contract import Cell

PREVIEW = 3  # settings shown per cell


@dataclass(frozen=True)
class CellPlan:
    """One cell before it runs. Ranges: (if early stopping does its work, if it never stops anything)."""

    label: str
    rule: str
    search_trials: int
    final_trials: int  # with refits
    models: int  # that each of its trials trains; a refit trains one
    epochs: tuple[float, float]  # of trials: all models of a trial go through an epoch together
    model_epochs: tuple[float, float]
    first_settings: list[Setting]


def plan_cells(config: StudyConfig) -> list[CellPlan]:
    @cache
    def models(dataset: str, protocol: str) -> int:
        return len(config.splits(dataset, protocol))

    @cache
    def first_settings(loss: str, trials: int) -> list[Setting]:
        """The same in all cells of a loss; later ones depend on results."""
        published = config.published(loss)
        if not trials:
            return [published]
        strategy = STRATEGIES[config.strategy](config.space(loss), first=published, trials=trials, seed=config.seed)
        previews = [strategy.suggest(f"preview-{i}") for i in range(min(trials, PREVIEW))]
        return [setting for setting in previews if setting is not None]

    def plan(cell: Cell) -> CellPlan:
        search, final = config.trials(cell)
        count, refits = models(cell.dataset, cell.protocol), config.refits(cell) * len(config.final_kinds(cell)) * config.reproductions
        last = config.of(cell).epochs
        searched = expected_search(config, search), search * search_epochs(config)
        low, high = ((part + (final - refits) * last) * count + refits * last for part in searched)
        return CellPlan(
            label=config.label(cell),
            rule=config.protocol(cell.protocol).rule,
            search_trials=search,
            final_trials=final,
            models=count,
            epochs=(searched[0] + final * last, searched[1] + final * last),
            model_epochs=(low, high),
            first_settings=first_settings(cell.loss, search),
        )

    return [plan(cell) for cell in config.cells()]


def totals(config: StudyConfig, cells: Sequence[CellPlan]) -> dict[str, Any]:
    """Of the whole study, as `fairtrial plan --json` has it. epochs: [expected, at most]."""
    return {
        "name": config.name,
        "cells": len(cells),
        "search_trials": sum(cell.search_trials for cell in cells),
        "final_trials": sum(cell.final_trials for cell in cells),
        "baseline_trials": len(config.baseline_cells()),
        "epochs": [round(sum(cell.epochs[i] for cell in cells)) for i in (0, 1)],
        "model_epochs": [round(sum(cell.model_epochs[i] for cell in cells)) for i in (0, 1)],
        "rungs": config.rungs() if any(cell.search_trials for cell in cells) else [],
    }
