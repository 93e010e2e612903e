"""Hand out the trials of all cells, so that no slot idles while any cell has work."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

from ray.tune.search import Searcher

from analysis.record.events import TrialStarted
from analysis.record.trial_id import TrialId
from study.config.plan import StudyPlan
from study.search.cell_search import CellSearch, TrialAssignment
from study.strategies.catalogue import STRATEGIES
from study.strategies.strategy import Setting
from trainables.contract import Cell, FinalKind, TrialSpec
from trainables.outputs.checkpoints import Saving

SCORE = "score"
Place = tuple[Cell, int]  # a cell in one replicate


class StudySearcher(Searcher):
    """Serve Tune from one strategy per cell and replicate; losses never compete for budget.

    What it hands out depends on nothing but the plan and the order in which trials start and end:
    replay() of a record brings it to where it was.
    """

    def __init__(self, plan: StudyPlan) -> None:
        super().__init__(metric=SCORE, mode="max")
        self.plan = plan
        self.running: dict[TrialId, TrialAssignment] = {}  # handed out and not ended
        self.interrupted: list[TrialAssignment] = []  # of those, the ones that do not run yet
        self.trials: dict[str, TrialId] = {}  # by Tune's name
        self.baselines: list[TrialSpec] = list(plan.baseline_specs())
        self.cells = {
            (cell, replicate): self._open(cell, replicate)
            for cell in plan.cells
            for replicate in plan.replicates
        }
        self.read_test = False  # a trial that holds test classes was handed out
        self.budgets: dict[Place, int] = {}  # search trials before the study grew
        self.seeds: frozenset[int] = frozenset()  # final seeds before it grew
        self.serve()

    def serve(
        self,
        *,
        slots: Callable[[], int] = lambda: sys.maxsize,
        assigned: Callable[[TrialAssignment], None] = lambda assignment: None,
        halts: Callable[[], bool] = lambda: False,
        saving: Callable[[TrialId], Saving | None] = lambda trial: None,
    ) -> None:
        """Begin to hand out trials.

        slots: returns how many may run. assigned: hears about every new trial first. halts: returns
        whether nothing new may start. saving: returns where a trial is saved and continues.
        """
        self.slots, self.assigned, self.halts, self.saving = slots, assigned, halts, saving

    def _open(self, cell: Cell, replicate: int) -> CellSearch:
        plan, config, published = self.plan, self.plan.config, self.plan.published(cell.loss)
        name = config.strategy if plan.searched(cell) else "fixed"
        strategy = STRATEGIES[name](
            plan.space(cell.loss),
            first=published,
            trials=config.search_trials,
            seed=plan.search_seed(replicate),
        )
        finals = [
            (kind, seed) for seed in plan.final_seeds(replicate) for kind in plan.final_kinds(cell)
        ]
        return CellSearch(
            cell,
            replicate,
            strategy,
            plan.search_trials(cell),
            finals,
            published=published,
            finalists=plan.finalists(cell),
            finalist_splits=config.finalist_splits,
        )

    @property
    def over(self) -> bool:
        """Return whether nothing is left to do, and nothing runs."""
        return not (self.running or self.baselines or any(c.has_work for c in self.cells.values()))

    def load(self) -> tuple[int, int]:
        """Return how many trials run, and how many more could, as far as is known now."""
        if self.halts():
            return len(self.running), 0
        cells = self.cells.values()
        ready = len(self.baselines) + len(self.interrupted)
        ready += sum(cell.to_search for cell in cells if not cell.waiting)
        ready += sum(len(cell.to_race()) + len(cell.refits) for cell in cells)
        ready += sum(len(cell.to_finish) for cell in cells if cell.search_over)
        return len(self.running) - len(self.interrupted), ready

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return the next trial, or None if no slot is free or all waits for what runs.

        A trial is not drawn before its slot is there: by then the searcher knows more.
        """
        if self.halts():
            return str(Searcher.FINISHED)
        if len(self.running) - len(self.interrupted) >= self.slots():
            return None
        if self.interrupted:
            return self._hand_out(trial_id, self.interrupted.pop(0))
        if assignment := self._draw():
            self.assigned(assignment)
            return self._hand_out(trial_id, assignment)
        # Once it hears FINISHED, Tune never asks again, and what runs may leave more to do.
        return str(Searcher.FINISHED) if self.over else None

    def _hand_out(self, trial_id: str, assignment: TrialAssignment) -> dict[str, Any]:
        self.trials[trial_id] = assignment.trial
        saving = self.saving(assignment.trial)
        # As text: a worker that unpickles it needs no package but search_spaces and trainables.
        return {"trial": str(assignment.trial), "spec": assignment.spec, "saving": saving}

    def _draw(self) -> TrialAssignment | None:
        drawn = self._search_trial() or self._finalist() or self._final_trial()
        if drawn:
            self.running[drawn.trial] = drawn
            self.read_test = self.read_test or drawn.spec.phase == "final" or drawn.spec.peeks
        return drawn

    def _search_trial(self) -> TrialAssignment | None:
        """Draw from the cell with the fewest running.

        A strategy learns most when its trials come one after the other.
        """
        ready = [cell for cell in self.cells.values() if cell.to_search and not cell.waiting]
        for cell in sorted(ready, key=lambda cell: (len(cell.searching), cell.tried)):
            trial = TrialId(cell.cell, "search", cell.tried, replicate=cell.replicate)
            setting = cell.strategy.suggest(str(trial))
            if setting is not None:
                return self._start(trial, cell, setting)
            assert cell.searching, "a strategy waits for its own running trials only"
            cell.waiting = True
        return None

    def _start(self, trial: TrialId, cell: CellSearch, setting: Setting) -> TrialAssignment:
        space = self.plan.space(cell.cell.loss)
        assert setting.keys() == space.keys(), "a setting has every key"
        assert all(setting[key] in param.search for key, param in space.items()), (
            f"a setting lies in its ranges: {setting}"
        )
        seed = self.plan.search_seed(cell.replicate)
        spec = self.plan.spec(cell.cell, "search", seed, setting)
        extended = cell.tried >= self._budget(cell)
        cell.settings[trial] = setting
        cell.searching.add(trial)
        cell.to_search -= 1
        return TrialAssignment(trial, spec, extended)

    def _finalist(self) -> TrialAssignment | None:
        """Try the best settings of a finished search again, each on splits of its own."""
        for cell in self.cells.values():
            if races := cell.to_race():
                name, replicate = cell.cell, cell.replicate
                trial = TrialId(name, "finalist", len(cell.races), replicate=replicate)
                first, split = cell.racing[trial] = races[0]
                cell.races[first, split] = None
                setting = cell.settings[first]
                spec = self.plan.finalist_spec(name, replicate, setting, split=split)
                return TrialAssignment(trial, spec, cell.tried > self._budget(cell))
        return None

    def _final_trial(self) -> TrialAssignment | None:
        for cell in self.cells.values():
            if cell.refits:
                return cell.refits.pop(0)
            if cell.found_better:  # its final trials run again
                cell.rounds += 1
                others = [each for each in cell.to_finish if each[0] != "final"]
                seeds = self.plan.final_seeds(cell.replicate)
                cell.to_finish = [*(("final", seed) for seed in seeds), *others]
            if cell.to_finish and cell.search_over:
                return self._finish(cell, *cell.to_finish.pop(0))
        if not self.baselines:
            return None
        spec = self.baselines.pop(0)
        trial = self.plan.trial_id(spec.cell, "final", spec.seed)
        return TrialAssignment(trial, spec, self._is_new(spec.seed))

    def _finish(self, cell: CellSearch, kind: FinalKind, seed: int) -> TrialAssignment:
        searched = kind == "final" and self.plan.searched(cell.cell)
        setting = cell.chosen if searched else cell.published
        if searched:
            cell.settled = setting
        tuned = searched and cell.best is not None  # else nothing was chosen
        spec = self.plan.spec(cell.cell, "final", seed, setting, tuned=tuned)
        # After growth its setting was chosen among more.
        grew = searched and cell.tried > self._budget(cell)
        turn = cell.rounds if kind == "final" else 1
        trial = self.plan.trial_id(cell.cell, kind, seed, round=turn)
        assignment = TrialAssignment(trial, spec, self._is_new(seed) or grew)
        if self.plan.refits(cell.cell):
            cell.refit_later[trial] = assignment
        return assignment

    def _budget(self, cell: CellSearch) -> int:
        """Return the search trials of a cell and replicate before the study grew."""
        return self.budgets.get((cell.cell, cell.replicate), sys.maxsize)

    def _is_new(self, seed: int) -> bool:
        return bool(self.seeds) and seed not in self.seeds

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        trial = self.trials.pop(trial_id, None)
        if trial and error:
            self.complete(trial, score=None)
        elif trial and result and result.get("done"):  # else it was cut off: it will be resumed
            self.complete(trial, score=result[SCORE], chosen_epoch=result.get("chosen_epoch"))

    def complete(
        self, trial: TrialId, *, score: float | None, chosen_epoch: float | None = None
    ) -> None:
        """Take in how a trial ended. score: None if it failed. chosen_epoch: a final trial's."""
        self.running.pop(trial)
        cell = self.cells.get((trial.cell, trial.replicate))
        if cell is None:  # a baseline
            return
        if trial in cell.searching:
            cell.complete(trial, score)
        elif trial in cell.racing:
            cell.complete_race(trial, score)
        elif final := cell.refit_later.pop(trial, None):
            self._refit(cell, final, chosen_epoch if score is not None else None)

    def _refit(self, cell: CellSearch, final: TrialAssignment, epoch: float | None) -> None:
        """Train on all train classes for as many epochs as the final trial chose.

        epoch: the mean over its folds; None if the trial failed and chose nothing.
        """
        if epoch is None:
            return
        spec = self.plan.refit_spec(final.spec, max(1, round(epoch)))
        cell.refits.append(TrialAssignment(final.trial.refit(), spec, final.extended))

    def grow(self, plan: StudyPlan) -> None:
        """Add replicates, search trials and final seeds; mark what comes after test classes were
        read.
        """
        old, self.plan = self.plan, plan
        before = {place: old.search_trials(place[0]) for place in self.cells}
        for (name, replicate), cell in self.cells.items():
            cell.to_search += plan.search_trials(name) - old.search_trials(name)
            cell.finalists = plan.finalists(name)
            seeds = plan.final_seeds(replicate)[old.config.reproductions :]
            cell.to_finish += [(kind, seed) for seed in seeds for kind in plan.final_kinds(name)]
        for place in product(plan.cells, plan.replicates[old.config.searches :]):
            self.cells[place], before[place] = self._open(*place), 0
        scored = old.baseline_cells()
        new = [spec for spec in plan.baseline_specs() if (spec.cell, spec.seed) not in scored]
        self.baselines += new
        if self.read_test:
            self.seeds = self.seeds or frozenset(old.all_final_seeds())
            self.budgets = before | self.budgets

    def replay(self, started: TrialStarted) -> None:
        """Draw the trial that the record has. Raise ValueError if this code draws another."""
        drawn = self._draw()
        if drawn is None or not _is_same(drawn, started):
            got = f"{drawn.trial} with {dict(drawn.spec.setting)}" if drawn else "nothing"
            raise ValueError(
                f"A study must be resumed with the code that began it, but where its record has "
                f"{started.trial} with {started.setting}, this code draws {got}; install the "
                "versions that the ledger's first line names."
            )
        drawn = replace(drawn, extended=started.extended)
        self.running[drawn.trial] = drawn
        cell = self.cells.get((drawn.trial.cell, drawn.trial.replicate))
        if cell and drawn.trial in cell.refit_later:
            cell.refit_later[drawn.trial] = drawn

    def take_up(self, trial: TrialId) -> None:
        """Hand out a trial again that an earlier driver left."""
        self.interrupted.append(self.running[trial])


def _is_same(drawn: TrialAssignment, started: TrialStarted) -> bool:
    spec = drawn.spec
    return (
        str(drawn.trial),
        spec.seed,
        dict(spec.setting),
        spec.tuned,
        spec.training.epochs,
    ) == (started.trial, started.seed, started.setting, started.tuned, started.epochs)
