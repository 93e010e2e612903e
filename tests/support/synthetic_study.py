"""Make a study with every kind of final trial, in memory or in a real store.

Hits are small whole numbers, so that expected values can be added up by hand.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.record.events import encode
from analysis.record.frames import StudyRows
from analysis.record.kept_files import KEPT
from analysis.record.ledger import Ledger, LedgerReader
from analysis.record.specs import SPECS, digest_of, read_shared
from analysis.record.state import StudyState
from analysis.record.trial_id import TrialId
from analysis.tracking import Tracker
from analysis.tracking.write import ENDED, SPEC, STARTED
from tests.support.events import epoch_done, study_started, trial_ended, trial_started
from trainables.contract import QUERIES, Cell

CLASSES, PER_CLASS, SEEDS, EPOCHS = 6, 5, (1, 2), (1, 2, 3)
REPLICATES, SEEDS_EACH = (1, 2, 3), 10_000  # of replicated(), and seeds of each replicate
PEEKS, HONEST, LAST = "best-on-test", "selected-on-validation", "last-epoch"
RATIO, FOLDS = "fixed_validation:0.1", "k_fold:2"
HERE = ("sketches", "tiny", 16)  # dataset, backbone, embedding size
ELSEWHERE = (("sketches", "tiny", 32), ("sketches", "small", 16), ("drawings", "tiny", 16))
TRIED = 8  # search trials of every cell of large_study()
# Hits among the five queries of each class: protocol, role -> (fold, rule) -> hits. Seed 1 has one
# more, in class 0.
HITS: dict[tuple[str, str], dict[tuple[str, str], int]] = {
    ("default", "published"): {("0", PEEKS): 3, ("0", LAST): 2},
    ("default", "final"): {("0", PEEKS): 4, ("0", LAST): 3},
    (RATIO, "published"): {("0", HONEST): 1, ("0", LAST): 0},
    (RATIO, "final"): {("0", HONEST): 2, ("0", LAST): 1},
    (RATIO, "refit"): {("0", "refit"): 3},
    (FOLDS, "final"): {
        ("0", HONEST): 1,
        ("1", HONEST): 2,
        ("0", LAST): 0,
        ("1", LAST): 1,
        ("concatenated", HONEST): 4,
    },
}


def share(*hits: int) -> float:
    """Return the expected score over both seeds; hits: per class, a number for each model."""
    return sum(len(SEEDS) * CLASSES * each + 1 for each in hits) / (
        len(hits) * len(SEEDS) * CLASSES * PER_CLASS
    )


@dataclass(frozen=True)
class SyntheticTrial:
    """Hold one trial.

    queries: (fold, rule) -> hits of each class. axes: dataset, backbone, embedding size.
    """

    loss: str
    protocol: str
    role: str
    number: int
    queries: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    tuned: bool = True
    folds: int = 1
    split: str = "one"
    axes: tuple[str, str, int] = HERE
    chosen: float | None = None
    status: str = "FINISHED"
    end_metrics: dict[str, float] = field(default_factory=dict)
    trial_yaml: dict[str, Any] = field(default_factory=dict)
    replicate: int = 1

    @property
    def cell(self) -> str:
        return "/".join(
            [*(map(str, self.axes) if self.axes != HERE else ()), self.loss, self.protocol]
        )

    @property
    def key(self) -> str:
        return f"{self.cell}/{self.name}"

    @property
    def name(self) -> str:
        more = f"-replicate{self.replicate}" if self.replicate > 1 else ""
        return f"{self.role}-{self.number}{more}"

    @property
    def seed(self) -> int:
        return (self.replicate - 1) * SEEDS_EACH + (0 if self.role == "search" else self.number)

    @property
    def margin(self) -> float:
        """Return 0.1, the published value, or by default for tuned trials 0, the range's edge."""
        if self.chosen is not None:
            return self.chosen
        first = self.role == "search" and self.number == 0
        return 0.0 if self.tuned and not first else 0.1

    def tags(self) -> dict[str, Any]:
        peeks = self.protocol == "default"
        rule = "refit" if self.role.endswith("refit") else PEEKS if peeks else HONEST
        rule = "untrained" if self.protocol == "none" else rule
        axes = dict(zip(("dataset", "backbone", "embedding_size"), self.axes, strict=True))
        searching = self.role == "search"
        about = {
            "trial": self.name,
            "phase": "search" if searching else "final",
            "seed": self.seed,
        }
        about |= {
            "tuned": self.tuned,
            "split": self.split,
            "folds": self.folds,
            "rule": rule,
            "peeks": peeks,
        }
        return {
            **axes,
            "loss": self.loss,
            "protocol": self.protocol,
            "cell": self.cell,
            "label": self.loss,
            **about,
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        for (fold, rule), hits in self.queries.items():
            for label, query in product(range(CLASSES), range(PER_CLASS)):
                hit = float(query < hits[label])
                image = label * PER_CLASS + query
                yield {
                    "fold": fold,
                    "rule": rule,
                    "image": image,
                    "class": label,
                    "recall_at_1": hit,
                    "map_at_r": hit / 2,
                }

    def metrics(self, epoch: int) -> dict[str, float]:
        """Return the metrics of an epoch; a refit scores no select classes."""
        score = {} if self.role == "refit" else {"select/recall_at_1": 0.1 * epoch}
        return {"select/best": 0.1 * epoch, "seconds": 1.0, "train/loss": 1 / epoch, **score}

    @property
    def spec(self) -> dict[str, Any]:
        return self.trial_yaml or spec(self.protocol)

    @property
    def outcome(self) -> str:
        return self.status.lower()


def final(loss: str, protocol: str, role: str, seed: int, **changes: Any) -> SyntheticTrial:
    """Return a final trial with the hits of its protocol and role; more: hits to add."""
    more = changes.pop("more", 0)
    hits = {
        key: [count + more + (seed == 1 and label == 0) for label in range(CLASSES)]
        for key, count in HITS[protocol, role].items()
    }
    usual = {"tuned": role != "published", "folds": 2 if protocol == FOLDS else 1}
    return SyntheticTrial(loss, protocol, role, seed, hits, **usual | changes)


def everything() -> list[SyntheticTrial]:
    """Return the trials of two losses under default, under a ratio and under folds.

    Default has test feedback. The study has one replicate: one search and one split. The second
    loss has one hit less per class in everything but its refits, which have one more.
    """
    made = []
    for loss, less in (("triplet", 0), ("contrastive", -1)):
        for protocol, role in HITS:
            made += [
                final(loss, protocol, role, seed, more=1 if less and role == "refit" else less)
                for seed in SEEDS
            ]
        made += [
            SyntheticTrial(loss, protocol, "search", number)
            for protocol, number in product(("default", RATIO), (0, 1))
        ]
    return made


def large_study() -> StudyRows:
    """Return everything, and all that any table or figure is made of.

    It adds a third loss, the last everywhere; three more comparisons, where the second loss is
    first; searches of a grid; an audit; and what final trials measure beside recall.
    """
    made = [one for one in everything() if one.role != "search"]
    made += [
        final("margin", protocol, role, seed, more=-2)
        for (protocol, role), seed in product(HITS, SEEDS)
    ]
    for axes, protocol, (loss, ahead) in product(
        ELSEWHERE, ("default", RATIO), (("triplet", 0), ("contrastive", 1), ("margin", -2))
    ):
        made += [final(loss, protocol, "final", seed, more=ahead, axes=axes) for seed in SEEDS]
    losses = ("triplet", "contrastive", "margin")
    made += [
        SyntheticTrial(loss, protocol, "search", number)
        for loss, protocol, number in product(losses, ("default", RATIO), range(TRIED))
    ]
    return replace(_measured(made), name="more")


def _measured(made: list[SyntheticTrial]) -> StudyRows:
    """Return the trials' rows, with what a search of a grid, an audit and final trials measure."""
    rows = rows_of(made)
    extra = [
        _searched(one.number, one.replicate) if one.role == "search" else MEASURED for one in made
    ]
    trials = rows.trials.drop(columns=["setting", "select/best"]).join(pd.DataFrame(extra))
    setting = trials["setting"].where(trials["setting"].notna(), rows.trials["setting"])
    trials = trials.assign(setting=setting, **{"select/best": trials["select/best"].fillna(0.3)})
    return replace(rows, trials=trials)


def replicated(reproductions: int = 1) -> list[SyntheticTrial]:
    """Return all kinds of trials of three losses in three replicates.

    A replicate has its own split under a ratio, its own search and chosen settings, and one more
    hit in as many classes as its number says. Under folds all replicates have the same split. The
    second reproduction has one more hit in the last class.
    """
    losses, protocols = {"triplet": 0, "contrastive": -1, "margin": -2}, ("default", RATIO, FOLDS)
    kinds = [(HERE, *kind) for kind in HITS]
    kinds += [(axes, protocol, "final") for axes in ELSEWHERE for protocol in ("default", RATIO)]
    made = []
    for replicate, loss, (axes, protocol, role) in product(REPLICATES, losses, kinds):
        own = {"split": f"of replicate {replicate}"} if protocol == RATIO else {}
        chosen = 0.1 if role == "published" else 0.1 * (replicate - 1)
        for number in range(1, reproductions + 1):
            hits = {
                place: [
                    max(count + losses[loss], 0)
                    + (label < replicate)
                    + (number == 2 and label == CLASSES - 1)
                    for label in range(CLASSES)
                ]
                for place, count in HITS[protocol, role].items()
            }
            one = final(loss, protocol, role, number, replicate=replicate, axes=axes, **own)
            made.append(replace(one, queries=hits, chosen=chosen))
    made += [
        SyntheticTrial(loss, protocol, "search", number, replicate=replicate)
        for replicate, loss, protocol, number in product(
            REPLICATES, losses, protocols, range(TRIED)
        )
    ]
    return made


def replicated_study(reproductions: int = 1) -> StudyRows:
    """Return the rows of replicated(), with searches of a grid, an audit, and what final trials
    measure beside recall.
    """
    return replace(_measured(replicated(reproductions)), name="replicated")


# Of every final trial, at its chosen epoch and at its last.
MEASURED = {
    "test/recall_at_1": 0.4, "test/triplet_accuracy": 0.8,
    "test/positive_cosine": 0.7, "test/negative_cosine": 0.1,
    "test/precision_at_1": 0.5, "test/precision_at_5": 0.4, "test/precision_at_10": 0.3,
    "last/triplet_accuracy": 0.7, "fold0/chosen_epoch": 1.0, "fold1/chosen_epoch": 2.0,
}  # fmt: skip


def _searched(number: int, replicate: int = 1) -> dict[str, Any]:
    """Return a search trial of a grid: four margins by two smoothings.

    Only the margin matters, and on the test classes it matters the other way. The split of each
    further replicate is easier by a tenth.
    """
    margin = number % 4
    return {
        "setting": {"margin": 0.1 * margin, "smooth": float(number // 4)},
        "select/best": 0.2 + 0.1 * replicate + 0.1 * margin,
        "audit/select/recall_at_1": 0.3 + 0.1 * margin,
        "audit/select/map_at_r": 0.1 * margin,
        "audit/recall_at_1": 0.6 - 0.1 * margin,
    }


def rows_of(made: list[SyntheticTrial]) -> StudyRows:
    """Return the trials as the frames of a study."""
    trials = [
        {
            **one.tags(),
            "run_id": one.key,
            "status": one.status,
            "start": i,
            "end": i + 1,
            "role": one.role,
            "number": one.number,
            "replicate": one.replicate,
            "round": 1,
            "outcome": one.outcome,
        }
        | {
            "setting": {"margin": one.margin},
            "chosen_epoch": 1.5 if one.folds > 1 else 2.0,
            "select/best": 0.3,
            **one.end_metrics,
        }
        for i, one in enumerate(made)
    ]
    curves = [
        {"run_id": one.key, "metric": name, "epoch": epoch, "value": value}
        for one, epoch in product(made, EPOCHS)
        for name, value in one.metrics(epoch).items()
    ]
    queries = [{**row, "run_id": one.key} for one in made for row in one.rows()]
    specs = {one.cell: one.spec for one in made}
    return StudyRows(
        "made", pd.DataFrame(trials), pd.DataFrame(curves), pd.DataFrame(queries), specs
    )


def spec(protocol: str) -> dict[str, Any]:
    """Return the part of a trial.yaml that matters: 20 train classes, some of them held out."""
    held = {"default": 0, RATIO: 2, FOLDS: 10}.get(protocol, 5)
    split = {
        "train": list(range(20 - held)),
        "select": list(range(20 - held, 20)) or list(range(20, 26)),
        "test": list(range(20, 26)),
    }
    training = {
        "batch_size": 20,
        "images_per_class": 5,
        "batches": None,
        "memory": 0,
        "epochs": 3,
        "optimizer": "adamw",
        "learning_rate": 0.001,
        "select_metric": "recall_at_1",
    }
    model, transform = (
        {"pooling": "gap", "weights": "none", "freeze_bn": False},
        {"image_size": 28, "crop": "resized", "flip": True},
    )
    return {
        "splits": [split] * (2 if protocol == FOLDS else 1),
        "model": model,
        "transform": transform,
        "training": training,
    }


def empty() -> StudyRows:
    """Return a study without trials."""
    curves = pd.DataFrame(columns=["run_id", "metric", "epoch", "value"])
    return StudyRows(
        "empty", pd.DataFrame(), curves, pd.DataFrame(columns=["run_id", "fold", "rule", "class"])
    )


def one_row() -> StudyRows:
    """Return a study of a single final trial."""
    return rows_of([final("triplet", RATIO, "final", 1)])


def partly_failed(rows: StudyRows | None = None) -> StudyRows:
    """Return these rows, or everything, with failures.

    Some final trials failed, a search trial never ended, and one loss finished nothing under folds.
    """
    rows = rows or rows_of(everything())
    lost = rows.trials["run_id"].isin([f"triplet/{RATIO}/final-1", "contrastive/default/final-1"])
    lost |= (rows.trials["loss"] == "contrastive") & (rows.trials["protocol"] == FOLDS)
    open_ = rows.trials["run_id"] == f"triplet/{RATIO}/search-1"
    trials = rows.trials.astype({"end": float})
    trials.loc[lost, ["status", "outcome"]] = ["FAILED", "failed"]
    trials.loc[open_, ["status", "outcome", "end", "select/best"]] = [
        "KILLED",
        None,
        float("nan"),
        float("nan"),
    ]
    gone = set(trials.loc[lost | open_, "run_id"])
    curves, queries = (
        rows.curves[~rows.curves["run_id"].isin(gone)],
        rows.queries[~rows.queries["run_id"].isin(gone)],
    )
    return StudyRows("failed", trials, curves, queries, rows.specs)


def write_study(folder: Path, made: list[SyntheticTrial], name: str = "made") -> Path:
    """Write the trials as a driver records them, and return the study's folder."""
    home = folder / name
    home.mkdir(parents=True)
    ledger = Ledger(home)
    about = dict.fromkeys({one.axes[0] for one in made}, "f")
    ledger.append(study_started(config={"name": name}, data=about, total=len(made)))
    for one in made:
        _write_trial(home, ledger, one)
    ledger.close()
    return home


def _write_trial(home: Path, ledger: Ledger, one: SyntheticTrial) -> None:
    tags = one.tags()
    dataset, backbone, size = one.axes
    cell = Cell(dataset, backbone, size, one.loss, one.protocol)
    trial = TrialId(cell, one.role, one.number, replicate=one.replicate)
    text = json.dumps(_with_split(one))
    specs = home / SPECS
    specs.mkdir(exist_ok=True)
    (specs / f"{digest_of(text)}.json").write_text(text)
    about = {key: tags[key] for key in ("label", "seed", "tuned", "rule")}
    setting, epochs = {"loss.margin": one.margin}, EPOCHS[-1]
    spec = digest_of(text)
    ledger.append(trial_started(trial, **about, setting=setting, epochs=epochs, spec=spec))
    for epoch in EPOCHS:
        last = one.end_metrics if epoch == epochs else {}
        metrics = one.metrics(epoch) | last
        ledger.append(epoch_done(trial, epoch, score=0.1 * epoch, metrics=metrics))
    if one.queries:
        write_queries(home / KEPT / trial.folder / QUERIES, one)
    outcome = "failed" if one.status == "FAILED" else "finished"
    ledger.append(trial_ended(trial, outcome=outcome, epoch=epochs, score=0.3))


def _with_split(one: SyntheticTrial) -> dict[str, Any]:
    """Return the spec, with class lists that differ where the trials' splits do."""
    spec = dict(one.spec)
    if one.split != "one":
        mark = 1000 + sum(map(ord, one.split))
        spec["splits"] = [{**split, "train": [*split["train"], mark]} for split in spec["splits"]]
    return spec


def write_queries(path: Path, one: SyntheticTrial) -> Path:
    path.parent.mkdir(parents=True)
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, ["fold", "rule", "image", "class", "recall_at_1", "map_at_r"])
        table.writeheader()
        table.writerows(one.rows())
    return path


def write_mlflow(home: Path) -> str:
    """Export a study's record to an MLflow store beside it, and return the store's address."""
    uri = f"sqlite:///{home.parent / 'mlflow.db'}"
    tracker = Tracker(uri, home.name, artifacts=home.parent / "artifacts" / home.name)
    state = StudyState(LedgerReader(home).read())
    assert state.identity is not None
    for cell in state.cells:
        tracker.start_cell(str(cell), params={}, tags={"cell": str(cell)}, files={})
    for key, trial in state.trials.items():
        cell, ended = trial.id.cell, trial.ended
        assert ended is not None
        tags = {"cell": str(cell), "trial": trial.id.name, "dataset": cell.dataset}
        tags |= {"data": state.identity.data[cell.dataset], STARTED: encode(trial.started).decode()}
        tags |= {"git": trial.commit, "versions": trial.versions}
        spec, at = {SPEC: read_shared(home, trial.started.spec)}, trial.started.at
        tracker.start_trial(key, cell=str(cell), name=key, params={}, tags=tags, files=spec, at=at)
        points = [(k, v, row.epoch, row.at) for row in trial.rows for k, v in row.metrics.items()]
        kept = home / KEPT / trial.id.folder
        tracker.end(
            key,
            "FINISHED" if trial.succeeded else "FAILED",
            points=points,
            tags={ENDED: encode(ended).decode()},
            files=sorted(kept.iterdir()) if kept.exists() else [],
            at=ended.at,
        )
    return uri
