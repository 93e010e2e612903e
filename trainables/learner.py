"""The one training function: fits in lock step, the best epoch kept, the test classes read once at the end."""

import copy
import csv
import math
import time
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch

from trainables.contract import EpochRow, FinalRow, TrialSpec
from trainables.datasets.pixels import Dataset
from trainables.fit import Fit
from trainables.images import Images
from trainables.metrics.retrieval import Retrieval

WORST = 0.0  # what a diverged trial reports: NaN would be invisible to the searcher


class Learner:
    """epoch() until a row says done; then, for a final trial, read_test() and save_artifacts().

    With several splits every epoch trains and scores each of them once and reports the mean.
    """

    def __init__(self, spec: TrialSpec, data: Dataset, *, rank: int = 0, world: int = 1) -> None:
        self.spec = spec
        self.fits = [Fit(spec, split, data, fold=i, rank=rank, world=world) for i, split in enumerate(spec.splits)]
        self.rows: list[EpochRow] = []
        self.best = [(-1.0, 0, self._snapshot(fit)) for fit in self.fits]  # score, epoch, weights
        self.readings: list[tuple[Images, Retrieval]] = []

    @property
    def done(self) -> bool:
        return len(self.rows) >= self.spec.training.epochs or (bool(self.rows) and self.rows[-1].done)

    def epoch(self) -> EpochRow:
        """Train every split for one epoch and score its select classes. A search trial whose setting needs too much memory ends."""
        started = time.perf_counter()
        try:
            row = self._epoch()
        except torch.OutOfMemoryError:  # on a GPU; where several ranks train together, the others would wait for ever
            if self.spec.phase != "search" or self.fits[0].world > 1:
                raise
            best_epoch, seconds = self.best[0][1], time.perf_counter() - started
            row = EpochRow(len(self.rows) + 1, None, {}, (), WORST, best_epoch, seconds, done=True, out_of_memory=True)
        self.rows.append(row)
        return row

    def _epoch(self) -> EpochRow:
        started, number = time.perf_counter(), len(self.rows) + 1
        losses = [fit.train_epoch(number) for fit in self.fits]
        diverged = not np.isfinite(losses).all()
        folds = [{} if diverged else fit.score(fit.select).means for fit in self.fits]
        if not diverged:
            self._keep_best(folds, number)
        return EpochRow(
            epoch=number,
            loss=None if diverged else fmean(losses),
            select={} if diverged else {name: fmean(fold[name] for fold in folds) for name in folds[0]},
            folds=tuple(folds),
            best=WORST if diverged else max([r.best for r in self.rows] + [self._selection(folds)]),
            best_epoch=self.best[0][1],
            seconds=time.perf_counter() - started,
            done=diverged or number >= self.spec.training.epochs,
            diverged=diverged,
            train={} if diverged else self._diagnostics(),
        )

    def read_test(self) -> FinalRow:
        """Score the test classes with each split's best epoch."""
        assert self.spec.phase == "final", "search trials never read test classes"
        assert self.done, "test classes are read at the end"
        assert not self.readings, "test classes are read once"
        for fit, (_, _, weights) in zip(self.fits, self.best, strict=True):
            fit.network.load_state_dict(weights)
            images = fit.images(fit.split.test)
            self.readings.append((images, fit.score(images)))
        results = [result for _, result in self.readings]
        return FinalRow(
            epoch=self.best[0][1],
            test={name: fmean(result.means[name] for result in results) for name in results[0].means},
            queries=sum(len(result.scored) for result in results),
            lone_queries=sum(result.lone for result in results),
        )

    def save_artifacts(self, folder: Path) -> None:
        """best.pt: the chosen weights of every split; queries.csv: one row per test query."""
        torch.save([weights for _, _, weights in self.best], folder / "best.pt")
        with (folder / "queries.csv").open("w", newline="") as file:
            table = csv.writer(file)
            names = [name for name in self.spec.training.metrics if name in self.readings[0][1].queries]
            table.writerow(["fold", "image", "class", *names])
            for fold, (images, result) in enumerate(self.readings):
                rows = result.scored.cpu().numpy()
                columns = [result.queries[name].tolist() for name in names]
                table.writerows(zip([fold] * len(rows), images.ids[rows], images.labels[rows], *columns, strict=True))

    def state(self) -> dict[str, Any]:
        """Tensors and plain types only, so that it loads with weights_only=True."""
        return {
            "fits": [fit.state() for fit in self.fits],
            "best": self.best,
            "rows": [asdict(row) for row in self.rows],
        }

    def load(self, state: dict[str, Any]) -> None:
        for fit, saved in zip(self.fits, state["fits"], strict=True):
            fit.load(saved)
        self.best = [tuple(best) for best in state["best"]]
        self.rows = [EpochRow(**row) for row in state["rows"]]

    def _diagnostics(self) -> dict[str, float]:
        """The mean over the splits of what is a number in all of them."""
        names = self.fits[0].diagnostics
        means = {name: fmean(fit.diagnostics.get(name, math.nan) for fit in self.fits) for name in names}
        return {name: value for name, value in means.items() if math.isfinite(value)}

    def _selection(self, folds: list[dict[str, float]]) -> float:
        return fmean(fold[self.spec.training.select_metric] for fold in folds)

    def _keep_best(self, folds: list[dict[str, float]], epoch: int) -> None:
        for i, (fit, fold) in enumerate(zip(self.fits, folds, strict=True)):
            score = fold[self.spec.training.select_metric]
            if score > self.best[i][0]:
                self.best[i] = (score, epoch, self._snapshot(fit))

    @staticmethod
    def _snapshot(fit: Fit) -> dict[str, torch.Tensor]:
        return copy.deepcopy(fit.network.state_dict())
