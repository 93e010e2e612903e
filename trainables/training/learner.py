"""Train a trial: its fits in lock step; keep the best epoch; read the test classes once."""

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
from trainables.distributed.gpu_memory import lacks_memory
from trainables.distributed.team import ALONE, Team
from trainables.inputs.features import FeatureRows, Features
from trainables.inputs.images import Images
from trainables.metrics.retrieval import LOSS_VALUE, Retrieval, feature_of, score_retrieval
from trainables.training.fit import EMBEDDING, Fit

Part = TypeVar("Part")
ScoredImages = tuple[Images | FeatureRows, Retrieval]


@dataclass(frozen=True)
class FoldEpoch:
    """Hold what one epoch of one split produced."""

    loss: float
    scores: Mapping[str, float]
    diagnostics: Mapping[str, float]
    out_of_memory: bool = False


class Learner:
    """Train one trial: epoch() until done; for a final trial then read_test() and artifacts().

    With several splits, every epoch trains and scores each of them once and reports the mean. A
    team trains a single split together, by DDP. Several splits are divided among the ranks, and
    each rank trains its own without the others until the epoch is over.
    """

    def __init__(self, spec: TrialSpec, data: Dataset | Features, team: Team = ALONE) -> None:
        self.spec, self.team = spec, team
        together = len(spec.splits) == 1
        self.fits = {
            i: Fit(spec, spec.splits[i], data, fold=i, team=team if together else ALONE)
            for i in team.own_splits(len(spec.splits))
        }
        # The splits whose results this rank returns.
        self.returned = self.fits.keys() if not (together and team.rank) else ()
        self.rows: list[EpochRow] = []
        # Best score and its epoch, of every split, also of those that other ranks train.
        self.best = [(-1.0, 0) for _ in spec.splits]
        self.weights = {i: self._snapshot(fit) for i, fit in self.fits.items()}  # of best epochs
        # Otherwise nothing is held out, and the last epoch is the chosen one.
        self.selects = all(split.select for split in spec.splits)
        self.readings: dict[int, dict[Rule, ScoredImages]] = {}
        self.embeddings: dict[int, dict[str, np.ndarray[Any, Any]]] = {}  # by split
        self.joined: ScoredImages | None = None  # of several models as one

    @property
    def done(self) -> bool:
        """Return whether all epochs are over, or the trial has ended early."""
        ended = bool(self.rows) and self.rows[-1].done
        return ended or len(self.rows) >= self.spec.training.epochs

    def epoch(self) -> EpochRow:
        """Train every split for one epoch and score its select classes.

        A trial that diverges or runs out of memory ends with the worst score.
        """
        started, number = time.perf_counter(), len(self.rows) + 1
        folds = self._of_all({i: self._train(fit, number) for i, fit in self.fits.items()})
        exhausted = any(fold.out_of_memory for fold in folds)
        diverged = not exhausted and not all(math.isfinite(fold.loss) for fold in folds)
        failed = exhausted or diverged
        scores = [{} if failed else dict(fold.scores) for fold in folds]
        if not failed:
            self._keep_best(scores, number)
        best = WORST if failed else max([r.best for r in self.rows] + [self._selection(scores)])
        last = number >= self.spec.training.epochs
        waited = not (failed or last) and self._has_waited(best)
        row = EpochRow(
            epoch=number,
            loss=None if failed else fmean(fold.loss for fold in folds),
            select={name: fmean(fold[name] for fold in scores) for name in scores[0]},
            folds=tuple(scores),
            best=best,
            best_epochs=tuple(epoch for _, epoch in self.best),
            seconds=time.perf_counter() - started,
            done=failed or waited or last,
            diverged=diverged,
            out_of_memory=exhausted,
            out_of_patience=waited,
            train={} if failed else _means_of_numbers([fold.diagnostics for fold in folds]),
        )
        self.rows.append(row)
        return row

    def _train(self, fit: Fit, number: int) -> FoldEpoch:
        try:
            loss = fit.train_epoch(number)
            scores = fit.score(fit.select).means if self.selects and math.isfinite(loss) else {}
            return FoldEpoch(loss, scores, fit.diagnostics)
        except RuntimeError as error:
            # If other ranks wait for this one, their group ends the trial.
            if self.spec.phase != "search" or fit.team.world > 1 or not lacks_memory(error):
                raise
            return FoldEpoch(math.nan, {}, {}, out_of_memory=True)

    def _has_waited(self, best: float) -> bool:
        """Return whether the selection score has not grown for as long as patience allows.

        Epochs of the warm-up do not count: the backbone has not learned yet.
        """
        training = self.spec.training
        if training.patience is None or not self.selects:
            return False
        learned = self.rows[training.warm_up :]
        return len(learned) >= training.patience and best <= learned[-training.patience].best

    def read_test(self) -> FinalRow:
        """Score the test classes with each split's best epoch."""
        hold(self.spec.phase == "final", "search trials never read test classes")
        hold(self.done, "test classes are read at the end")
        hold(not self.readings, "test classes are read once")
        units = {i: self._read(i, fit) for i, fit in self.fits.items()}
        if len(self.spec.splits) > 1:
            self._join(self._of_all(units))
        found = self._of_all(
            {
                i: {rule: (r.means, len(r.scored), r.lone) for rule, (_, r) in part.items()}
                for i, part in self.readings.items()
            }
        )
        chosen = [part[self.spec.rule] for part in found]
        return FinalRow(
            epochs=tuple(epoch for _, epoch in self.best),
            test=_means_of_numbers([means for means, _, _ in chosen]),
            queries=sum(scored for _, scored, _ in chosen),
            lone_queries=sum(lone for _, _, lone in chosen),
            last=_means_of_numbers([part[LAST][0] for part in found])
            if self.spec.outputs.last
            else {},
            concatenated=self.joined[1].means if self.joined else {},
        )

    def _read(self, i: int, fit: Fit) -> torch.Tensor:
        """Score one split's test classes at its chosen epoch, and at its last one if asked.

        Return the unit embeddings of the chosen epoch, or none if there is only one split.
        """
        images, last = fit.images(fit.split.test), self._snapshot(fit)
        self.readings[i] = {LAST: (images, fit.score(images))} if self.spec.outputs.last else {}
        fit.network.load_state_dict(self.weights[i])
        keeps = self.spec.outputs.embeddings
        features = fit.embed(images, fit.measured() | (fit.layers() if keeps else set()))
        self.readings[i][self.spec.rule] = images, fit.rate(images, features)
        if keeps:
            self.embeddings[i] = _embed_all(fit, images, features)
        fit.network.load_state_dict(last)  # so that state() still returns the last epoch
        if len(self.spec.splits) == 1:
            return features[EMBEDDING][:0]
        return F.normalize(features[EMBEDDING]).cpu()

    def _join(self, units: Sequence[torch.Tensor]) -> None:
        """Score several models as one, as the reality check does.

        Their vectors are normalised, concatenated and normalised again.
        """
        if self.team.rank:
            return
        fit = self.fits[0]
        images = fit.images(fit.split.test)
        names = tuple(
            name
            for name in self.spec.training.metrics
            if feature_of(name)[0] == EMBEDDING and name != LOSS_VALUE
        )
        labels = torch.from_numpy(np.unique(images.labels, return_inverse=True)[1]).to(fit.device)
        together = F.normalize(torch.cat([unit.to(fit.device) for unit in units], dim=1))
        self.joined = (
            images,
            score_retrieval(together, labels, names, gallery_classes=len(fit.split.select) or None),
        )

    def artifacts(self) -> dict[str, Any]:
        """Return chosen weights, scores of each test query and embeddings of this rank's splits."""
        folds = {
            i: {
                "weights": _on_cpu(self.weights[i]),
                "queries": {
                    rule: self._queries(*reading) for rule, reading in self.readings[i].items()
                },
                "embeddings": self.embeddings.get(i),
            }
            for i in self.returned
        }
        return {
            "folds": folds,
            "concatenated": {self.spec.rule: self._queries(*self.joined)} if self.joined else {},
        }

    def _queries(self, images: Images | FeatureRows, result: Retrieval) -> dict[str, Any]:
        rows = result.scored.cpu().numpy()
        names = [name for name in self.spec.training.metrics if name in result.queries]
        columns = {name: result.queries[name].tolist() for name in names}
        return {
            "image": images.ids[rows].tolist(),
            "class": images.labels[rows].tolist(),
            **columns,
        }

    def state(self) -> dict[str, Any]:
        """Return the state of this rank's splits, for load().

        It holds tensors and plain types only, so that it loads with weights_only=True.
        """
        folds = {
            i: _on_cpu({"fit": self.fits[i].state(), "weights": self.weights[i]})
            for i in self.returned
        }
        return {"folds": folds, "best": self.best, "rows": [asdict(row) for row in self.rows]}

    def load(self, state: dict[str, Any]) -> None:
        """Continue from a state with all splits, saved by any number of ranks.

        A trial that ended within its first epoch has a state without splits.
        """
        for i, fit in self.fits.items() if state["folds"] else ():
            fit.load(state["folds"][i]["fit"])
            self.weights[i] = state["folds"][i]["weights"]
        self.best = [(score, epoch) for score, epoch in state["best"]]
        self.rows = [EpochRow.from_dict(row) for row in state["rows"]]

    def _of_all(self, mine: dict[int, Part]) -> list[Part]:
        """Return every split's part, in order.

        Of a split that all ranks train together, take the first rank's part, so that all agree.
        """
        parts: dict[int, Part] = {}
        for part in reversed(self.team.gather_objects(mine)):
            parts |= part
        return [parts[i] for i in range(len(self.spec.splits))]

    def _selection(self, folds: Sequence[Mapping[str, float]]) -> float:
        if not self.selects:
            return WORST
        return fmean(fold[self.spec.training.select_metric] for fold in folds)

    def _keep_best(self, folds: Sequence[Mapping[str, float]], epoch: int) -> None:
        for i, fold in enumerate(folds):
            score = fold[self.spec.training.select_metric] if self.selects else WORST
            if score > self.best[i][0] or not self.selects:
                self.best[i] = (score, epoch)
                if i in self.fits:
                    self.weights[i] = self._snapshot(self.fits[i])

    @staticmethod
    def _snapshot(fit: Fit) -> dict[str, torch.Tensor]:
        return copy.deepcopy(fit.network.state_dict())


def _embed_all(
    fit: Fit, test: Images | FeatureRows, scored: Mapping[str, torch.Tensor]
) -> dict[str, np.ndarray[Any, Any]]:
    """Return the features of all images of the split in float32, in file order.

    scored: the features of the test images, kept as they were scored, so that they give the
    recorded scores again.
    """
    others = fit.images(tuple(sorted({*fit.split.train, *fit.split.select} - {*fit.split.test})))
    both = [images for images in (test, others) if len(images)]
    parts = [scored if images is test else fit.embed(images, fit.layers()) for images in both]
    ids = np.concatenate([images.ids for images in both])
    labels, order = np.concatenate([images.labels for images in both]), np.argsort(ids)
    return {"image": ids[order], "class": labels[order]} | {
        name: torch.cat([part[name].cpu() for part in parts]).float().numpy()[order]
        for name in sorted(fit.layers())
    }


def _means_of_numbers(folds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean over the splits of every value that is finite in all of them."""
    means = {name: fmean(fold.get(name, math.nan) for fold in folds) for name in folds[0]}
    return {name: value for name, value in means.items() if math.isfinite(value)}


def _on_cpu(part: Any) -> Any:
    """Return the same with every tensor on the CPU, where any process can read it."""
    if isinstance(part, torch.Tensor):
        return part.cpu()
    if isinstance(part, dict):
        return {key: _on_cpu(value) for key, value in part.items()}
    return [_on_cpu(value) for value in part] if isinstance(part, list) else part
