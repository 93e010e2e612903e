"""Hold the progress of one cell's search, and the trials that are handed out."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from statistics import fmean

from analysis.record.trial_id import TrialId
from study.strategies.strategy import Setting, Strategy
from trainables.contract import WORST, Cell, FinalKind, TrialSpec

Race = tuple[TrialId, int]  # a search trial whose setting is tried again, and the further split


@dataclass(frozen=True)
class TrialAssignment:
    """Hold a trial that was handed out.

    extended: it belongs to what a study grew by after test classes had been read.
    """

    trial: TrialId
    spec: TrialSpec
    extended: bool = False


@dataclass
class CellSearch:
    """Hold what one cell may still start, what runs, and what it found."""

    cell: Cell
    replicate: int
    strategy: Strategy
    to_search: int
    to_finish: list[tuple[FinalKind, int]]  # final trials not started yet, with their seeds
    published: Setting
    finalists: int = 0  # settings that are tried again on further splits
    finalist_splits: int = 0
    settings: dict[TrialId, Setting] = field(default_factory=dict)  # of all search trials
    searching: set[TrialId] = field(default_factory=set)
    scores: dict[TrialId, float] = field(default_factory=dict)  # of search trials that had one
    races: dict[Race, float | None] = field(default_factory=dict)  # scores of finalists
    racing: dict[TrialId, Race] = field(default_factory=dict)  # finalists that run
    refits: list[TrialAssignment] = field(default_factory=list)  # of final trials that have ended
    refit_later: dict[TrialId, TrialAssignment] = field(default_factory=dict)
    waiting: bool = False  # its strategy has nothing to suggest until a running trial completes
    settled: Setting | None = None  # what its final trials train with
    rounds: int = 1  # of final trials; a search that grew and found better makes another

    @property
    def tried(self) -> int:
        """Return how many search trials have started."""
        return len(self.settings)

    @property
    def best(self) -> TrialId | None:
        """Return the search trial with the best mean score over its splits; of equals the earlier.

        Once finalists have been tried again, it is one of them.
        """
        ahead = self._leaders(self.finalists) if self.races else self._leaders(1)
        return max(ahead, key=lambda trial: (self._mean(trial), -trial.number), default=None)

    def _leaders(self, count: int) -> list[TrialId]:
        """Return the best search trials; one that diverged or got lost is none."""
        found = [trial for trial, score in self.scores.items() if score > WORST]
        return sorted(found, key=lambda trial: (-self.scores[trial], trial.number))[:count]

    def _mean(self, trial: TrialId) -> float:
        """Return its mean score over its own split and the further ones that no finalist lacks."""
        lost = {split for (_, split), score in self.races.items() if score is None}
        again = [
            score
            for (other, split), score in self.races.items()
            if other == trial and split not in lost and score is not None
        ]
        return fmean([self.scores[trial], *again])

    def to_race(self) -> list[Race]:
        """Return the finalists that may start now: none before every search trial has ended."""
        if not self.finalists or self.to_search or self.searching:
            return []
        every = product(self._leaders(self.finalists), range(1, self.finalist_splits + 1))
        return [race for race in every if race not in self.races]

    @property
    def chosen(self) -> Setting:
        """Return the best setting so far; the published one if no trial had a score."""
        return self.settings[self.best] if self.best else self.published

    @property
    def search_over(self) -> bool:
        return not (self.to_search or self.searching or self.racing or self.to_race())

    @property
    def found_better(self) -> bool:
        """Return whether the search grew after its final trials and chose another setting."""
        return self.search_over and self.settled is not None and self.settled != self.chosen

    @property
    def has_work(self) -> bool:
        """Return whether it may still start trials, now or after those that run."""
        return bool(
            self.to_search
            or self.to_race()
            or self.to_finish
            or self.refits
            or self.refit_later
            or self.found_better
        )

    def complete(self, trial: TrialId, score: float | None) -> None:
        """Pass the strategy the score of a search trial, or None if it has none."""
        self.searching.remove(trial)
        self.waiting = False
        self.strategy.complete(str(trial), score)
        if score is not None:
            self.scores[trial] = score

    def complete_race(self, trial: TrialId, score: float | None) -> None:
        """Take in how a finalist did on a further split; None: nothing can be said."""
        self.races[self.racing.pop(trial)] = score
