"""A made study with every kind of final trial, in memory or in a real store: small whole numbers of hits, so that hands can add them."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from analysis.tracking import StudyRows, Tracker
from analysis.tracking.write import Status

CLASSES, PER_CLASS, SEEDS, EPOCHS = 6, 5, (1, 2), (1, 2, 3)
PEEKS, HONEST, LAST = "best-on-test", "selected-on-validation", "last-epoch"
RATIO, FOLDS = "fixed_validation:0.1", "k_fold:2"
HERE = ("sketches", "tiny", 16)  # dataset, backbone, embedding size
ELSEWHERE = (("sketches", "tiny", 32), ("sketches", "small", 16), ("drawings", "tiny", 16))
TRIED = 8  # search trials of every cell of more()
# Of five queries of each class so many hit: protocol, role -> (fold, rule) -> hits. Seed 1 hits once more, in class 0.
HITS: dict[tuple[str, str], dict[tuple[str, str], int]] = {
    ("default", "published"): {("0", PEEKS): 3, ("0", LAST): 2},
    ("default", "final"): {("0", PEEKS): 4, ("0", LAST): 3},
    (RATIO, "published"): {("0", HONEST): 1, ("0", LAST): 0},
    (RATIO, "final"): {("0", HONEST): 2, ("0", LAST): 1},
    (RATIO, "refit"): {("0", "refit"): 3},
    (FOLDS, "final"): {("0", HONEST): 1, ("1", HONEST): 2, ("0", LAST): 0, ("1", LAST): 1, ("concatenated", HONEST): 4},
}


def share(*hits: int) -> float:
    """The mean over two seeds and as many models as there are numbers."""
    return sum(len(SEEDS) * CLASSES * each + 1 for each in hits) / (len(hits) * len(SEEDS) * CLASSES * PER_CLASS)


@dataclass(frozen=True)
class Made:
    """One trial. queries: (fold, rule) -> hits of each class; also: tags, left: metrics at its end, given: its trial.yaml."""

    loss: str
    protocol: str
    role: str
    number: int
    queries: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    tuned: bool = True
    folds: int = 1
    split: str = "one"
    where: tuple[str, str, int] = HERE
    chosen: float | None = None
    status: Status = "FINISHED"
    also: dict[str, Any] = field(default_factory=dict)
    left: dict[str, float] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)

    @property
    def cell(self) -> str:
        return "/".join([*(map(str, self.where) if self.where != HERE else ()), self.loss, self.protocol])

    @property
    def key(self) -> str:
        return f"{self.cell}/{self.role}-{self.number}"

    @property
    def margin(self) -> float:
        """0.1 is published, and a search chose 0, the edge of its range, if nothing else is said."""
        if self.chosen is not None:
            return self.chosen
        return 0.0 if self.tuned and self.key[-8:] != "search-0" else 0.1

    def tags(self) -> dict[str, Any]:
        peeks = self.protocol == "default"
        rule = "refit" if self.role.endswith("refit") else PEEKS if peeks else HONEST
        place = dict(zip(("dataset", "backbone", "embedding_size"), self.where, strict=True))
        searching = self.role == "search"
        about = {
            "trial": f"{self.role}-{self.number}",
            "phase": "search" if searching else "final",
            "seed": 0 if searching else self.number,
        }
        about |= {"tuned": self.tuned, "split": self.split, "folds": self.folds, "rule": rule, "peeks": peeks}
        return {**place, "loss": self.loss, "protocol": self.protocol, "cell": self.cell, "label": self.loss, **about, **self.also}

    def rows(self) -> Iterator[dict[str, Any]]:
        for (fold, rule), hits in self.queries.items():
            for label, query in product(range(CLASSES), range(PER_CLASS)):
                hit = float(query < hits[label])
                image = label * PER_CLASS + query
                yield {"fold": fold, "rule": rule, "image": image, "class": label, "recall_at_1": hit, "map_at_r": hit / 2}

    def metrics(self, epoch: int) -> dict[str, float]:
        """A refit scores no select classes."""
        score = {} if self.role == "refit" else {"select/recall_at_1": 0.1 * epoch}
        return {"select/best": 0.1 * epoch, "seconds": 1.0, "train/loss": 1 / epoch, **score}

    @property
    def spec(self) -> dict[str, Any]:
        return self.given or spec(self.protocol)

    @property
    def outcome(self) -> str:
        return self.status.lower()


def final(loss: str, protocol: str, role: str, seed: int, **changes: Any) -> Made:
    more = changes.pop("more", 0)
    hits = {place: [count + more + (seed == 1 and label == 0) for label in range(CLASSES)] for place, count in HITS[protocol, role].items()}
    resplit = {"split": f"of seed {seed}"} if protocol == RATIO else {}
    usual = {"tuned": role != "published", "folds": 2 if protocol == FOLDS else 1, **resplit}
    return Made(loss, protocol, role, seed, hits, **usual | changes)


def everything() -> list[Made]:
    """Two losses under default with test feedback, under a ratio with a split for every seed, and under folds.

    The second loss has one hit less per class in everything but its refits, which have one more.
    """
    made = []
    for loss, less in (("triplet", 0), ("contrastive", -1)):
        for protocol, role in HITS:
            made += [final(loss, protocol, role, seed, more=1 if less and role == "refit" else less) for seed in SEEDS]
        made += [Made(loss, protocol, "search", number) for protocol, number in product(("default", RATIO), (0, 1))]
    return made


def more() -> StudyRows:
    """Everything, and all that any table or figure is made of: a third loss, the last everywhere; three more places, where the second
    is first; searches of a grid; an audit; what final trials measure beside recall.
    """
    made = [one for one in everything() if one.role != "search"]
    made += [final("margin", protocol, role, seed, more=-2) for (protocol, role), seed in product(HITS, SEEDS)]
    for where, protocol, (loss, ahead) in product(ELSEWHERE, ("default", RATIO), (("triplet", 0), ("contrastive", 1), ("margin", -2))):
        made += [final(loss, protocol, "final", seed, more=ahead, where=where) for seed in SEEDS]
    losses = ("triplet", "contrastive", "margin")
    made += [Made(loss, protocol, "search", number) for loss, protocol, number in product(losses, ("default", RATIO), range(TRIED))]
    rows = rows_of(made)
    extra = [_searched(one.number) if one.role == "search" else MEASURED for one in made]
    trials = rows.trials.drop(columns=["setting", "select/best"]).join(pd.DataFrame(extra))
    setting = trials["setting"].where(trials["setting"].notna(), rows.trials["setting"])
    trials = trials.assign(setting=setting, **{"select/best": trials["select/best"].fillna(0.3)})
    return replace(rows, name="more", trials=trials)


# Of every final trial, at its chosen epoch and at its last.
MEASURED = {
    "test/recall_at_1": 0.4, "test/triplet_accuracy": 0.8, "test/positive_cosine": 0.7, "test/negative_cosine": 0.1,
    "test/precision_at_1": 0.5, "test/precision_at_5": 0.4, "test/precision_at_10": 0.3, "last/triplet_accuracy": 0.7,
    "fold0/chosen_epoch": 1.0, "fold1/chosen_epoch": 2.0,
}  # fmt: skip


def _searched(number: int) -> dict[str, Any]:
    """Four margins by two smoothings; only the margin matters, and on the test classes it matters the other way."""
    margin = number % 4
    return {
        "setting": {"margin": 0.1 * margin, "smooth": float(number // 4)}, "select/best": 0.3 + 0.1 * margin,
        "audit/select/recall_at_1": 0.3 + 0.1 * margin, "audit/select/map_at_r": 0.1 * margin, "audit/recall_at_1": 0.6 - 0.1 * margin,
    }  # fmt: skip


def rows_of(made: list[Made]) -> StudyRows:
    trials = [
        {**one.tags(), "run_id": one.key, "status": one.status, "start": i, "end": i + 1, "role": one.role, "outcome": one.outcome}
        | {"setting": {"margin": one.margin}, "chosen_epoch": 1.5 if one.folds > 1 else 2.0, "select/best": 0.3, **one.left}
        for i, one in enumerate(made)
    ]
    curves = [
        {"run_id": one.key, "metric": name, "epoch": epoch, "value": value}
        for one, epoch in product(made, EPOCHS)
        for name, value in one.metrics(epoch).items()
    ]
    queries = [{**row, "run_id": one.key} for one in made for row in one.rows()]
    specs = {one.cell: one.spec for one in made}
    return StudyRows("made", pd.DataFrame(trials), pd.DataFrame(curves), pd.DataFrame(queries), specs)


def spec(protocol: str) -> dict[str, Any]:
    """What matters of a trial.yaml: 20 train classes, of which some are held out."""
    held = {"default": 0, RATIO: 2, FOLDS: 10}.get(protocol, 5)
    split = {"train": list(range(20 - held)), "select": list(range(20 - held, 20)) or list(range(20, 26)), "test": list(range(20, 26))}
    training = {
        "batch_size": 20,
        "images_per_class": 5,
        "batches": None,
        "memory": 0,
        "epochs": 3,
        "optimizer": "adamw",
        "learning_rate": 0.001,
    }
    design, look = {"pooling": "gap", "weights": "none", "freeze_bn": False}, {"image_size": 28, "crop": "resized", "flip": True}
    return {"splits": [split] * (2 if protocol == FOLDS else 1), "design": design, "look": look, "training": training}


def empty() -> StudyRows:
    curves = pd.DataFrame(columns=["run_id", "metric", "epoch", "value"])
    return StudyRows("empty", pd.DataFrame(), curves, pd.DataFrame(columns=["run_id", "fold", "rule", "class"]))


def one_row() -> StudyRows:
    """A single final trial."""
    return rows_of([final("triplet", RATIO, "final", 1)])


def partly_failed(rows: StudyRows | None = None) -> StudyRows:
    """Of these rows, or of everything: some final trials failed, one search never ended, one loss has nothing finished under folds."""
    rows = rows or rows_of(everything())
    lost = rows.trials["run_id"].isin([f"triplet/{RATIO}/final-1", "contrastive/default/final-1"])
    lost |= (rows.trials["loss"] == "contrastive") & (rows.trials["protocol"] == FOLDS)
    open_ = rows.trials["run_id"] == f"triplet/{RATIO}/search-1"
    trials = rows.trials.astype({"end": float})
    trials.loc[lost, ["status", "outcome"]] = ["FAILED", "failed"]
    trials.loc[open_, ["status", "outcome", "end", "select/best"]] = ["KILLED", None, float("nan"), float("nan")]
    gone = set(trials.loc[lost | open_, "run_id"])
    curves, queries = rows.curves[~rows.curves["run_id"].isin(gone)], rows.queries[~rows.queries["run_id"].isin(gone)]
    return StudyRows("failed", trials, curves, queries, rows.specs)


def store(folder: Path, made: list[Made], name: str = "made") -> str:
    """The same study written as a real one is; the store's address."""
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    tracker = Tracker(uri, name, artifacts=folder / "artifacts")
    cells = {str(one.tags()["cell"]): one.tags() for one in made}
    for cell, tags in cells.items():
        tracker.start_cell(cell, params={}, tags=tags, files={})
    for one in made:
        tags = one.tags()
        params, files = {"loss.margin": one.margin}, {"trial.yaml": yaml.safe_dump(one.spec)}
        tracker.start_trial(one.key, cell=str(tags["cell"]), name=one.key, params=params, tags=tags, files=files)
        for epoch in EPOCHS:
            tracker.log(one.key, one.metrics(epoch), step=epoch)
        tracker.log(one.key, one.left, step=EPOCHS[-1])
        tracker.end(one.key, one.status, tags={"outcome": one.outcome}, files=[_file(folder / name, one)] if one.queries else [])
    return uri


def _file(folder: Path, one: Made) -> Path:
    target = folder / "left" / one.key.replace("/", "-")
    target.mkdir(parents=True)
    with (target / "queries.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, ["fold", "rule", "image", "class", "recall_at_1", "map_at_r"])
        table.writeheader()
        table.writerows(one.rows())
    return target / "queries.csv"
