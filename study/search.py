"""The searcher that serves all cells, so that no slot idles while any cell has work."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ray.tune.search import Searcher

from study.config import StudyConfig
from study.strategies import STRATEGIES, Setting, Strategy
from trainables.contract import WORST, Cell, FinalKind, TrialSpec

SCORE = "score"


@dataclass(frozen=True)
class Given:
    """A trial that was handed out. Its key names it for good: in the ledger, in MLflow, in the folder of its checkpoints."""

    name: str  # search-3, final-1
    spec: TrialSpec
    extended: bool = False  # belongs to what a study grew by after test classes had been read

    @property
    def key(self) -> str:
        return f"{self.spec.cell}/{self.name}"

    def event(self) -> dict[str, Any]:
        """What the ledger tells of it: enough to make it again."""
        spec = self.spec
        about = {"key": self.key, "cell": asdict(spec.cell), "name": self.name, "seed": spec.seed, "setting": dict(spec.setting)}
        return about | {"tuned": spec.tuned, "epochs": spec.training.epochs, "extended": self.extended}


@dataclass
class CellSearch:
    """Where one cell stands: what it may still start, what runs, and what it found."""

    cell: Cell
    strategy: Strategy
    to_search: int
    to_finish: list[tuple[FinalKind, int]]  # final trials not started yet, with their seeds
    best: tuple[float, int, Setting]  # selection score, minus the trial's number, setting: of equals the earlier wins
    searching: dict[str, tuple[int, Setting]] = field(default_factory=dict)  # key -> number, setting
    refits: list[Given] = field(default_factory=list)  # of final trials that have ended
    finishing: dict[str, Given] = field(default_factory=dict)  # final trials that a refit will follow
    tried: int = 0
    waiting: bool = False  # its strategy has nothing to suggest until a running trial completes
    settled: Setting | None = None  # what its final trials train with
    rounds: int = 1  # of final trials; a search that grew and found better makes another

    @property
    def search_over(self) -> bool:
        return not self.to_search and not self.searching


class StudySearcher(Searcher):
    """One Tune Searcher in front of one strategy per cell; losses never compete for budget.

    What it hands out depends on nothing but the config and the order of trials given and ended: replay() of a ledger
    brings it to where it was. note: told of every new trial before anyone else.
    """

    def __init__(
        self,
        config: StudyConfig,
        slots: Callable[[], int] = lambda: sys.maxsize,
        note: Callable[[Given], None] = lambda given: None,
    ) -> None:
        super().__init__(metric=SCORE, mode="max")
        self.config, self.slots, self.note = config, slots, note
        self.stopping = False  # nothing new is handed out
        self.halts: Callable[[], bool] = lambda: False  # the same, asked for
        self.running: dict[str, Given] = {}  # by key: handed out and not ended
        self.interrupted: list[Given] = []  # of them those that an earlier driver left, and nobody runs yet
        self.starts: dict[str, str] = {}  # key -> a checkpoint that an interrupted trial goes on from
        self.keys: dict[str, str] = {}  # Tune's name of a trial -> ours
        self.baselines: list[TrialSpec] = list(config.baseline_specs())
        self.cells = {str(cell): self._open(cell) for cell in config.cells()}
        self.owner: dict[str, str] = {}  # key of a search trial -> cell
        self.skipped = 0  # refits of final trials that failed
        self.read_test = False  # a trial that holds test classes was handed out
        self.budgets: dict[str, int] = {}  # cell -> search trials before the study grew
        self.seeds: frozenset[int] = frozenset()  # final seeds before it grew

    def _open(self, cell: Cell) -> CellSearch:
        config, published = self.config, self.config.published(cell.loss)
        name = config.strategy if config.searched(cell) else "fixed"
        strategy = STRATEGIES[name](config.space(cell.loss), first=published, trials=config.search_trials, seed=config.seed)
        return CellSearch(
            cell,
            strategy,
            to_search=config.trials(cell)[0],
            to_finish=[(kind, seed) for seed in config.final_seeds() for kind in config.final_kinds(cell)],
            best=(WORST, 0, published),  # which no trial that got lost is better than
        )

    @property
    def over(self) -> bool:
        """Nothing is left to do, and nothing runs."""
        return not (self.running or self.baselines or any(cell.to_search or self._owes(cell) for cell in self.cells.values()))

    def _owes(self, cell: CellSearch) -> bool:
        return bool(cell.to_finish or cell.refits or cell.finishing or self._better_found(cell))

    def load(self) -> tuple[int, int]:
        """How many trials run, and how many more could now, as far as is known before they are drawn."""
        if self.stopping or self.halts():
            return len(self.running), 0
        cells = self.cells.values()
        ready = sum(cell.to_search for cell in cells if not cell.waiting) + sum(len(cell.refits) for cell in cells)
        ready += sum(len(cell.to_finish) for cell in cells if cell.search_over) + len(self.baselines)
        return len(self.running) - len(self.interrupted), ready + len(self.interrupted)

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """The next trial; None while there is no slot for it, or all that is left waits for what runs.

        A trial is not drawn before its slot is there: by then the searcher knows more.
        """
        if self.stopping or self.halts():
            return str(Searcher.FINISHED)
        if len(self.running) - len(self.interrupted) >= self.slots():
            return None
        if self.interrupted:
            return self._hand_out(trial_id, self.interrupted.pop(0))
        if given := self._draw():
            self.note(given)
            return self._hand_out(trial_id, given)
        return str(Searcher.FINISHED) if self.over else None  # Tune never asks again, and what runs may leave more to do

    def _hand_out(self, trial_id: str, given: Given) -> dict[str, Any]:
        self.keys[trial_id] = given.key
        about = {"key": given.key, "cell": str(given.spec.cell), "trial": given.name, "spec": given.spec.as_dict()}
        return about | ({"start": self.starts[given.key]} if given.key in self.starts else {})

    def _draw(self) -> Given | None:
        given = self._search_trial() or self._final_trial()
        if given:
            self.running[given.key] = given
            self.read_test = self.read_test or given.spec.phase == "final" or given.spec.peeks
        return given

    def _search_trial(self) -> Given | None:
        """From the cell with the fewest running: a searcher learns most when its trials come one after the other."""
        ready = [cell for cell in self.cells.values() if cell.to_search and not cell.waiting]
        for cell in sorted(ready, key=lambda cell: (len(cell.searching), cell.tried)):
            name = f"search-{cell.tried}"
            setting = cell.strategy.suggest(f"{cell.cell}/{name}")
            if setting is not None:
                return self._start(name, cell, setting)
            assert cell.searching, "a strategy waits for its own running trials only"
            cell.waiting = True
        return None

    def _start(self, name: str, cell: CellSearch, setting: Setting) -> Given:
        space = self.config.space(cell.cell.loss)
        assert setting.keys() == space.keys(), "a setting has every key"
        assert all(setting[key] in param.search for key, param in space.items()), f"a setting lies in its ranges: {setting}"
        extended = cell.tried >= self._budget(cell)
        given = Given(name, self.config.spec(cell.cell, "search", self.config.seed, setting), extended)
        cell.searching[given.key] = cell.tried, setting
        cell.to_search -= 1
        cell.tried += 1
        self.owner[given.key] = str(cell.cell)
        return given

    def _final_trial(self) -> Given | None:
        for cell in self.cells.values():
            if cell.refits:
                return cell.refits.pop(0)
            if self._better_found(cell):
                cell.rounds += 1
                others = [each for each in cell.to_finish if each[0] != "final"]
                cell.to_finish = [*(("final", seed) for seed in self.config.final_seeds()), *others]
            if cell.to_finish and cell.search_over:
                return self._finish(cell, *cell.to_finish.pop(0))
        if not self.baselines:
            return None
        spec = self.baselines.pop(0)
        return Given(f"final-{spec.seed}", spec, self._is_new(spec.seed))

    def _better_found(self, cell: CellSearch) -> bool:
        """The search grew after its final trials and chose another setting: they are made again with that."""
        return cell.search_over and cell.settled is not None and cell.settled != cell.best[2]

    def _finish(self, cell: CellSearch, kind: FinalKind, seed: int) -> Given:
        searched = kind == "final" and self.config.searched(cell.cell)
        setting = cell.best[2] if searched else self.config.published(cell.cell.loss)
        if searched:
            cell.settled = setting
        tuned = searched and cell.best[0] > WORST  # else no search trial had a score, and nothing was chosen
        round_ = f"-round{cell.rounds}" if kind == "final" and cell.rounds > 1 else ""
        spec = self.config.spec(cell.cell, "final", seed, setting, tuned=tuned)
        grew = searched and cell.tried > self._budget(cell)  # what it trains with was chosen among more
        given = Given(f"{kind}-{seed}{round_}", spec, self._is_new(seed) or grew)
        if self.config.refits(cell.cell):
            cell.finishing[given.key] = given
        return given

    def _budget(self, cell: CellSearch) -> int:
        """Of search trials, before the study grew."""
        return self.budgets.get(str(cell.cell), sys.maxsize)

    def _is_new(self, seed: int) -> bool:
        return bool(self.seeds) and seed not in self.seeds

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        key = self.keys.pop(trial_id, None)
        if key and (error or (result and result.get("done"))):  # else it was cut off, and goes on when the study does
            self.complete(key, None if error else result)

    def complete(self, key: str, result: Mapping[str, Any] | None) -> None:
        """A trial has ended, None: without a result. result: its score, and of a final trial the chosen epoch."""
        self.running.pop(key)
        self._follow(key, result)
        name = self.owner.pop(key, None)
        if name is None:
            return
        cell = self.cells[name]
        number, setting = cell.searching.pop(key)
        cell.waiting = False
        score = float(result[SCORE]) if result else None
        cell.strategy.complete(key, score)
        if score is not None and (score, -number) > cell.best[:2]:
            cell.best = (score, -number, setting)

    def _follow(self, key: str, result: Mapping[str, Any] | None) -> None:
        """A final trial has ended: its refit trains for as many epochs as it chose, on the average of its folds."""
        for cell in self.cells.values():
            final = cell.finishing.pop(key, None)
            if final and result:
                spec = self.config.refit_spec(final.spec, max(1, round(result["chosen_epoch"])))
                name = final.name.replace("final-", "refit-").replace("published-", "published_refit-")
                cell.refits.append(Given(name, spec, final.extended))
            elif final:
                self.skipped += 1

    def grow(self, config: StudyConfig) -> None:
        """More search trials, more final seeds; what comes of it after test classes were read is marked."""
        old, self.config = self.config, config
        added = [seed for seed in config.final_seeds() if seed not in old.final_seeds()]
        for cell in self.cells.values():
            cell.to_search += config.trials(cell.cell)[0] - old.trials(cell.cell)[0]
            cell.to_finish += [(kind, seed) for seed in added for kind in config.final_kinds(cell.cell)]
        self.baselines += [spec for spec in config.baseline_specs() if (spec.cell, spec.seed) not in old.baseline_cells()]
        if self.read_test:
            self.seeds = self.seeds or frozenset(old.final_seeds())
            for cell in self.cells.values():
                self.budgets.setdefault(str(cell.cell), old.trials(cell.cell)[0])

    def replay(self, event: Mapping[str, Any]) -> Given:
        """Draw the trial that the ledger tells of. ValueError: this code would have drawn another one."""
        given = self._draw()
        drawn = {key: value for key, value in given.event().items() if key != "extended"} if given else {}
        if given is None or drawn != {key: event[key] for key in drawn}:
            got = "nothing" if given is None else f"{given.key} with {dict(given.spec.setting)}"
            raise ValueError(
                f"A study goes on with the code that began it, but where its ledger has {event['key']} with {event['setting']}, "
                f"this code gives {got}; install the versions that the ledger's first line names."
            )
        given = replace(given, extended=event["extended"])
        for held in (self.running, *(cell.finishing for cell in self.cells.values())):
            if given.key in held:
                held[given.key] = given
        return given
