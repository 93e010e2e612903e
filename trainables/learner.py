"""The one training function: fits in lock step, the best epoch kept, the test classes read once at the end."""

import copy
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, TypeVar

import numpy as np
import torch
from torch.nn import functional as F

from trainables.contract import LAST, WORST, EpochRow, FinalRow, Rule, TrialSpec, hold
from trainables.datasets.pixels import Dataset
from trainables.fit import EMBEDDING, POOLED, Fit
from trainables.images import Images
from trainables.metrics.retrieval import Retrieval, feature_of, retrieval
from trainables.team import ALONE, Team

Part = TypeVar("Part")
Reading = tuple[Images, Retrieval]


@dataclass(frozen=True)
class FoldEpoch:
    """What one epoch of one split gave."""

    loss: float
    scores: Mapping[str, float]
    diagnostics: Mapping[str, float]
    out_of_memory: bool = False


class Learner:
    """epoch() until a row says done; then, for a final trial, read_test() and artifacts().

    With several splits every epoch trains and scores each of them once and reports the mean. A team trains a single split together,
    as DDP; several splits are dealt out, and each rank trains its own without a word to the others until the epoch is over.
    """

    def __init__(self, spec: TrialSpec, data: Dataset, team: Team = ALONE) -> None:
        self.spec, self.team = spec, team
        together = len(spec.splits) == 1
        mine = [0] if together else range(team.rank, len(spec.splits), team.world)
        self.fits = {i: Fit(spec, spec.splits[i], data, fold=i, team=team if together else ALONE) for i in mine}
        self.keeps = self.fits.keys() if not (together and team.rank) else ()  # the splits whose results this rank hands out
        self.rows: list[EpochRow] = []
        self.best = [(-1.0, 0) for _ in spec.splits]  # score and epoch of every split, also of those that others train
        self.weights = {i: self._snapshot(fit) for i, fit in self.fits.items()}  # of each best epoch
        self.chooses = all(split.select for split in spec.splits)  # else nothing is held out, and the last epoch is the one
        self.readings: dict[int, dict[Rule, Reading]] = {}
        self.kept: dict[int, dict[str, np.ndarray[Any, Any]]] = {}  # embeddings of splits
        self.joined: Reading | None = None  # of several models as one

    @property
    def done(self) -> bool:
        return len(self.rows) >= self.spec.training.epochs or (bool(self.rows) and self.rows[-1].done)

    def epoch(self) -> EpochRow:
        """Train every split for one epoch and score its select classes. A trial that got lost on the way ends with the worst score."""
        started, number = time.perf_counter(), len(self.rows) + 1
        folds = self._of_all({i: self._train(fit, number) for i, fit in self.fits.items()})
        exhausted = any(fold.out_of_memory for fold in folds)
        diverged = not exhausted and not all(math.isfinite(fold.loss) for fold in folds)
        lost = exhausted or diverged
        scores = [{} if lost else dict(fold.scores) for fold in folds]
        if not lost:
            self._keep_best(scores, number)
        row = EpochRow(
            epoch=number,
            loss=None if lost else fmean(fold.loss for fold in folds),
            select={} if lost else {name: fmean(fold[name] for fold in scores) for name in scores[0]},
            folds=tuple(scores),
            best=WORST if lost else max([r.best for r in self.rows] + [self._selection(scores)]),
            best_epochs=tuple(epoch for _, epoch in self.best),
            seconds=time.perf_counter() - started,
            done=lost or number >= self.spec.training.epochs,
            diverged=diverged,
            out_of_memory=exhausted,
            train={} if lost else _means_of_numbers([fold.diagnostics for fold in folds]),
        )
        self.rows.append(row)
        return row

    def _train(self, fit: Fit, number: int) -> FoldEpoch:
        try:
            loss = fit.train_epoch(number)
            scores = fit.score(fit.select).means if self.chooses and math.isfinite(loss) else {}
            return FoldEpoch(loss, scores, fit.diagnostics)
        except torch.OutOfMemoryError:  # of a GPU: this setting needs more than there is
            if self.spec.phase != "search" or fit.team.world > 1:  # the other ranks wait for this one: their group ends the trial
                raise
            return FoldEpoch(math.nan, {}, {}, out_of_memory=True)

    def read_test(self) -> FinalRow:
        """Score the test classes with each split's best epoch."""
        hold(self.spec.phase == "final", "search trials never read test classes")
        hold(self.done, "test classes are read at the end")
        hold(not self.readings, "test classes are read once")
        units = {i: self._read(i, fit) for i, fit in self.fits.items()}
        if len(self.spec.splits) > 1:
            self._join(self._of_all(units))
        found = self._of_all(
            {i: {rule: (r.means, len(r.scored), r.lone) for rule, (_, r) in part.items()} for i, part in self.readings.items()}
        )
        chosen = [part[self.spec.rule] for part in found]
        return FinalRow(
            epochs=tuple(epoch for _, epoch in self.best),
            test=_means_of_numbers([means for means, _, _ in chosen]),
            queries=sum(scored for _, scored, _ in chosen),
            lone_queries=sum(lone for _, _, lone in chosen),
            last=_means_of_numbers([part[LAST][0] for part in found]) if self.spec.leaves.last else {},
            concatenated=self.joined[1].means if self.joined else {},
        )

    def _read(self, i: int, fit: Fit) -> torch.Tensor:
        """Score one split's test classes at its chosen epoch, and at its last one if asked; the unit embeddings of the chosen one."""
        images, last = fit.images(fit.split.test), self._snapshot(fit)
        self.readings[i] = {LAST: (images, fit.score(images))} if self.spec.leaves.last else {}
        fit.network.load_state_dict(self.weights[i])
        features = fit.embed(images, fit.measured())
        self.readings[i][self.spec.rule] = images, fit.rate(images, features)
        if self.spec.leaves.embeddings:
            self.kept[i] = self._embeddings(fit)
        fit.network.load_state_dict(last)  # a state that is saved after this is still the last epoch's
        return F.normalize(features[EMBEDDING]).cpu() if len(self.spec.splits) > 1 else features[EMBEDDING][:0]

    def _join(self, units: Sequence[torch.Tensor]) -> None:
        """Several models as one, as in the reality check: normalise, concatenate, normalise."""
        if self.team.rank:
            return
        fit = self.fits[0]
        images = fit.images(fit.split.test)
        names = tuple(name for name in self.spec.training.metrics if feature_of(name)[0] == EMBEDDING)
        labels = torch.from_numpy(np.unique(images.labels, return_inverse=True)[1])
        together = F.normalize(torch.cat(list(units), dim=1))
        self.joined = images, retrieval(together, labels, names, gallery_classes=len(fit.split.select) or None)

    def _embeddings(self, fit: Fit) -> dict[str, np.ndarray[Any, Any]]:
        """Of all images that the split names, in both places, in half precision: for maps, not for scores."""
        images = fit.images(tuple(sorted({*fit.split.train, *fit.split.select, *fit.split.test})))
        features = fit.embed(images, {EMBEDDING, POOLED})
        return {"image": images.ids, "class": images.labels} | {name: part.cpu().half().numpy() for name, part in features.items()}

    def artifacts(self) -> dict[str, Any]:
        """By split: the chosen weights, one value per test query in every column, embeddings. Of the splits that this rank hands out."""
        folds = {
            i: {
                "weights": _on_cpu(self.weights[i]),
                "queries": {rule: self._queries(*reading) for rule, reading in self.readings[i].items()},
                "embeddings": self.kept.get(i),
            }
            for i in self.keeps
        }
        return {"folds": folds, "concatenated": {self.spec.rule: self._queries(*self.joined)} if self.joined else {}}

    def _queries(self, images: Images, result: Retrieval) -> dict[str, Any]:
        rows = result.scored.cpu().numpy()
        names = [name for name in self.spec.training.metrics if name in result.queries]
        columns = {name: result.queries[name].tolist() for name in names}
        return {"image": images.ids[rows].tolist(), "class": images.labels[rows].tolist(), **columns}

    def state(self) -> dict[str, Any]:
        """Tensors and plain types only, so that it loads with weights_only=True. Of the splits that this rank hands out."""
        folds = {i: _on_cpu({"fit": self.fits[i].state(), "weights": self.weights[i]}) for i in self.keeps}
        return {"folds": folds, "best": self.best, "rows": [asdict(row) for row in self.rows]}

    def load(self, state: dict[str, Any]) -> None:
        """A state with all splits, whatever number of ranks made it; with none of a trial that ended before its first epoch did."""
        for i, fit in self.fits.items() if state["folds"] else ():
            fit.load(state["folds"][i]["fit"])
            self.weights[i] = state["folds"][i]["weights"]
        self.best = [(score, epoch) for score, epoch in state["best"]]
        self.rows = [EpochRow(**row) for row in state["rows"]]

    def _of_all(self, mine: dict[int, Part]) -> list[Part]:
        """Every split's part, in order. Of a split that all train together the first rank's word counts, so that no two disagree."""
        parts: dict[int, Part] = {}
        for part in reversed(self.team.everyone(mine)):
            parts |= part
        return [parts[i] for i in range(len(self.spec.splits))]

    def _selection(self, folds: Sequence[Mapping[str, float]]) -> float:
        if not self.chooses:
            return WORST
        return fmean(fold[self.spec.training.select_metric] for fold in folds)

    def _keep_best(self, folds: Sequence[Mapping[str, float]], epoch: int) -> None:
        for i, fold in enumerate(folds):
            score = fold[self.spec.training.select_metric] if self.chooses else WORST
            if score > self.best[i][0] or not self.chooses:
                self.best[i] = (score, epoch)
                if i in self.fits:
                    self.weights[i] = self._snapshot(self.fits[i])

    @staticmethod
    def _snapshot(fit: Fit) -> dict[str, torch.Tensor]:
        return copy.deepcopy(fit.network.state_dict())


def _means_of_numbers(folds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean over the splits of what is a number in all of them."""
    means = {name: fmean(fold.get(name, math.nan) for fold in folds) for name in folds[0]}
    return {name: value for name, value in means.items() if math.isfinite(value)}


def _on_cpu(part: Any) -> Any:
    """The same with every tensor where any process can read it."""
    if isinstance(part, torch.Tensor):
        return part.cpu()
    if isinstance(part, dict):
        return {key: _on_cpu(value) for key, value in part.items()}
    return [_on_cpu(value) for value in part] if isinstance(part, list) else part
