"""A study whose ledger is written by hand, without a trial being trained, and the mirror that follows it into a real store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from study.config import StudyConfig
from study.cursor import cursor
from study.ledger import LEDGER, Ledger
from study.mirror import Mirror
from study.resume import identity
from study.search import Given
from study.storage import config_yaml, keep, leaves, trial_folder
from tests.support.invariants import check_ledger, check_mlflow
from trainables.artifacts import write


class Written:
    """A study of two final trials and a search trial, written by hand; in three parts."""

    def __init__(self, config: StudyConfig) -> None:
        self.config, self.folder = config, Path(config.studies) / config.name
        self.folder.mkdir(parents=True)
        (self.folder / "config.yaml").write_text(config_yaml(config))
        self.ledger = Ledger(self.folder / LEDGER)
        cell = config.cells()[1]
        search = Given("search-0", config.spec(cell, "search", 0, config.published("triplet")))
        self.trials = [search, *(Given(f"final-{seed}", config.spec(cell, "final", seed, search.spec.setting)) for seed in (1, 2))]

    def begin(self) -> None:
        self.ledger.note("study", **identity(self.config, {}), total=3)

    def trial(self, number: int, *, epochs: int = 3, ends: bool = True) -> None:
        given = self.trials[number]
        self.ledger.note("trial", **given.event())
        for epoch in range(1, epochs + 1):
            metrics = {"select/recall_at_1": 0.1 * epoch, "seconds": 1.0}
            self.ledger.note("row", key=given.key, epoch=epoch, score=0.1 * epoch, metrics=metrics)
        if ends:
            self.end(number, epochs)

    def end(self, number: int, epochs: int) -> None:
        given = self.trials[number]
        self._leave(given, epochs)
        metrics = {"test/recall_at_1": 0.1 * number, "chosen_epoch": 2.0}
        self.ledger.note("end", key=given.key, outcome="finished", epoch=epochs, score=0.3, metrics=metrics, nodes=["n"])

    def _leave(self, given: Given, epochs: int) -> None:
        path = self.folder / "ray" / "1" / trial_folder(given.key) / "checkpoint_000000"
        path.mkdir(parents=True)
        queries = {given.spec.rule: {"image": [1], "class": [1], "recall_at_1": [1.0], "map_at_r": [0.1 * given.spec.seed]}}
        fold = {"weights": {}, "queries": queries, "embeddings": None}
        artifacts = {"folds": {0: fold} if given.spec.phase == "final" else {}, "concatenated": {}}
        write(path, {"state": {"rows": [{}] * epochs}, "artifacts": artifacts})
        if names := leaves(given.name, self.config):
            keep(self.folder, given.key, names)

    def mirror(self, *, resumed: bool = False) -> Mirror:
        mirror = Mirror(self.config, self.folder, self.ledger, resumed=resumed)
        mirror.wait_until_ready()
        return mirror

    def check(self, *, finished: bool) -> None:
        check_mlflow(self.folder, check_ledger(self.folder), finished=finished)
        assert cursor(self.folder) == (self.folder / LEDGER).stat().st_size


def everything(written: Written) -> None:
    for number in range(3):
        written.trial(number)
    written.ledger.note("finished")


def at_once(studies: list[Written], followed: list[Mirror]) -> None:
    with ThreadPoolExecutor() as pool:
        list(pool.map(everything, studies))
    for mirror in followed:
        mirror.close()
    for each in studies:
        each.check(finished=True)
