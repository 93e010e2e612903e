"""The searcher that serves all cells, so that no slot idles while any cell has work."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ray import cloudpickle
from ray.tune.search import Searcher

from study.config import StudyConfig
from study.strategies import STRATEGIES, Setting, Strategy
from trainables.contract import Cell, FinalKind, TrialSpec

SCORE = "score"
Labelled = tuple[str, TrialSpec]


@dataclass
class CellSearch:
    """Where one cell stands: what it may still start, what runs, and what it found."""

    cell: Cell
    strategy: Strategy
    to_search: int
    to_finish: list[tuple[FinalKind, int]]  # final trials not started yet, with their seeds
    best: tuple[float, int, Setting]  # selection score, minus the trial's number, setting: of equals the earlier wins
    searching: dict[str, tuple[int, Setting]] = field(default_factory=dict)  # trial id -> number, setting
    refits: list[TrialSpec] = field(default_factory=list)  # of final trials that have ended
    finishing: dict[str, TrialSpec] = field(default_factory=dict)  # final trials that a refit will follow
    tried: int = 0
    waiting: bool = False  # its strategy has nothing to suggest until a running trial completes

    @property
    def search_over(self) -> bool:
        return not self.to_search and not self.searching


class StudySearcher(Searcher):
    """One Tune Searcher in front of one strategy per cell; losses never compete for budget."""

    def __init__(self, config: StudyConfig, slots: Callable[[], int] = lambda: sys.maxsize) -> None:
        super().__init__(metric=SCORE, mode="max")
        self.config, self.slots = config, slots
        self.running: set[str] = set()  # trials that were handed out and have not ended
        self.baselines: list[TrialSpec] = list(config.baseline_specs())
        self.cells = {str(cell): self._open(cell) for cell in config.cells()}
        self.owner: dict[str, str] = {}  # search trial id -> cell
        self.skipped = 0  # refits of final trials that failed

    def _open(self, cell: Cell) -> CellSearch:
        config, published = self.config, self.config.published(cell.loss)
        name = config.strategy if config.searched(cell) else "fixed"
        strategy = STRATEGIES[name](config.space(cell.loss), first=published, trials=config.search_trials, seed=config.seed)
        return CellSearch(
            cell,
            strategy,
            to_search=config.trials(cell)[0],
            to_finish=[(kind, seed) for seed in config.final_seeds() for kind in config.final_kinds(cell)],
            best=(-1.0, 0, published),
        )

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """The next trial; None while there is no slot for it, or all that is left waits for a search to end.

        A trial is not drawn before its slot is there: by then the searcher knows more.
        """
        if len(self.running) >= self.slots():
            return None
        found = self._search_trial(trial_id) or self._final_trial(trial_id)
        if found:
            self.running.add(trial_id)
            label, spec = found
            return {"cell": str(spec.cell), "trial": label, "spec": spec.as_dict()}
        waiting = any(cell.to_finish or cell.refits or cell.finishing for cell in self.cells.values())
        return None if waiting else Searcher.FINISHED

    def _search_trial(self, trial_id: str) -> Labelled | None:
        """From the cell with the fewest running: a searcher learns most when its trials come one after the other."""
        ready = [cell for cell in self.cells.values() if cell.to_search and not cell.waiting]
        for cell in sorted(ready, key=lambda cell: (len(cell.searching), cell.tried)):
            setting = cell.strategy.suggest(trial_id)
            if setting is not None:
                return self._start(trial_id, cell, setting)
            assert cell.searching, "a strategy waits for its own running trials only"
            cell.waiting = True
        return None

    def _start(self, trial_id: str, cell: CellSearch, setting: Setting) -> Labelled:
        space = self.config.space(cell.cell.loss)
        assert setting.keys() == space.keys(), "a setting has every key"
        assert all(setting[key] in param.search for key, param in space.items()), f"a setting lies in its ranges: {setting}"
        cell.searching[trial_id] = cell.tried, setting
        cell.to_search -= 1
        cell.tried += 1
        self.owner[trial_id] = str(cell.cell)
        return f"search-{cell.tried - 1}", self.config.spec(cell.cell, "search", self.config.seed, setting)

    def _final_trial(self, trial_id: str) -> Labelled | None:
        for cell in self.cells.values():
            if cell.refits:
                spec = cell.refits.pop(0)
                return f"refit-{spec.seed}", spec
            if cell.to_finish and cell.search_over:
                return self._finish(trial_id, cell, *cell.to_finish.pop(0))
        if not self.baselines:
            return None
        spec = self.baselines.pop(0)
        return f"final-{spec.seed}", spec

    def _finish(self, trial_id: str, cell: CellSearch, kind: FinalKind, seed: int) -> Labelled:
        tuned = kind == "final" and self.config.searched(cell.cell)
        setting = cell.best[2] if tuned else self.config.published(cell.cell.loss)
        spec = self.config.spec(cell.cell, "final", seed, setting, tuned=tuned)
        if kind == "final" and self.config.refits(cell.cell):
            cell.finishing[trial_id] = spec
        return f"{kind}-{seed}", spec

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        self.running.discard(trial_id)
        self._follow(trial_id, None if error or not result else result)
        name = self.owner.pop(trial_id, None)
        if name is None:
            return
        cell = self.cells[name]
        number, setting = cell.searching.pop(trial_id)
        cell.waiting = False
        score = None if error or not result else float(result[SCORE])
        cell.strategy.complete(trial_id, score)
        if score is not None and (score, -number) > cell.best[:2]:
            cell.best = (score, -number, setting)

    def _follow(self, trial_id: str, result: dict[str, Any] | None) -> None:
        """A final trial has ended: its refit trains for as many epochs as it chose, on the average of its folds."""
        for cell in self.cells.values():
            final = cell.finishing.pop(trial_id, None)
            if final and result:
                cell.refits.append(self.config.refit_spec(final, max(1, round(result["chosen_epoch"]))))
            elif final:
                self.skipped += 1

    def save(self, checkpoint_path: str) -> None:
        with open(checkpoint_path, "wb") as file:
            cloudpickle.dump({name: value for name, value in self.__dict__.items() if name != "slots"}, file)

    def restore(self, checkpoint_path: str) -> None:
        with open(checkpoint_path, "rb") as file:
            self.__dict__.update(cloudpickle.load(file))
