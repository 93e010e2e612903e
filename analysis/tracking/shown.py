"""Say what MLflow shows of a study, its cells and its trials: names, descriptions, tags."""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from analysis.ranking.notes import listed
from analysis.record.events import EpochDone
from analysis.record.state import StudyState, TrialState, versions_text
from analysis.record.trial_id import TrialId
from analysis.tracking.experiment import (
    CHOSEN,
    COMMIT,
    NOTE,
    SOURCE,
    SOURCE_TYPE,
    USER,
    DatasetInput,
)
from analysis.tracking.write import Point
from trainables.contract import NOT_TRAINED, PEEKING, Cell, DatasetRef
from trainables.datasets.indexing import index

Config = Mapping[str, Any]  # of a study, as its record has it
BETWEEN = " · "  # the parts of a name
AXES = ("dataset", "backbone", "embedding_size")  # part of a name if the study has several
ROLES = {
    "search": "Search trial",
    "finalist": "Finalist on a further split",
    "final": "Final trial",
    "published": "Final trial with the published setting",
    "refit": "Refit on all train classes",
    "published_refit": "Refit of the published setting on all train classes",
}


def cell_name(config: Config, cell: Cell) -> str:
    """Return the name of a cell's run, the loss first: lists cut names off at their end."""
    if cell.loss in NOT_TRAINED:
        parts = [cell.backbone, cell.loss]
        return BETWEEN.join(parts + [cell.dataset] * (len(config["dataset"]) > 1))
    axes = [str(getattr(cell, axis)) for axis in AXES if len(config[axis]) > 1]
    return BETWEEN.join([cell.loss, *axes, cell.protocol])


def trial_name(config: Config, trial: TrialId) -> str:
    """Return a trial's name, as in proxy_anchor · fixed_validation · replicate 2 · search 3."""
    several = config["searches"] > 1 or trial.replicate > 1
    return BETWEEN.join(
        [
            cell_name(config, trial.cell),
            *([f"replicate {trial.replicate}"] if several else []),
            f"{trial.role.replace('_', ' ')} {trial.number}",
            *([f"round {trial.round}"] if trial.round > 1 else []),
        ]
    )


def question(config: Config) -> str:
    """Return what the study asks, as a part of its experiment's description."""
    losses, where = config["losses"], f"on {_listed(config, 'dataset')}"
    where += f" with {_listed(config, 'backbone')}"
    what = f"How good is {losses[0]} {where}?"
    if losses[1:]:
        what = f"Which of {len(losses)} losses is better {where}: {_listed(config, 'losses')}?"
    return (
        f"**Question.** {what} Protocols: {_listed(config, 'protocols')}; "
        f"{config['searches']} replicates of search and final trials."
    )


def _listed(config: Config, key: str) -> str:
    return listed([str(value) for value in config[key]])


def answer_so_far(state: StudyState) -> str:
    """Return how far the study is, until its answer is known."""
    if state.finished:
        return f"Finished. `fairtrial report {state.config['name']}` writes the answer here."
    grown = " It has grown since its last answer." if state.drivers > 1 else ""
    return f"The study is running, or was interrupted: no answer yet.{grown}"


def params(config: Config, cell: Cell) -> dict[str, Any]:
    """Return what tells the cells of this study apart."""
    same = [axis for axis in AXES if len(config[axis]) == 1]
    return {name: value for name, value in asdict(cell).items() if name not in same}


def dataset_input(ref: DatasetRef) -> DatasetInput:
    """Return a dataset as MLflow lists it."""
    found = index(ref)
    return DatasetInput(
        name=Path(ref.root).stem if ref.root else ref.dataset,
        digest=found.fingerprint,
        source=str(found.root),
        profile={
            "classes": len(found.names),
            "images": len(found.labels),
            "train classes": len(found.train),
            "test classes": len(found.test),
        },
    )


def tags(state: StudyState, cell: Cell, *, label: str, rule: str) -> dict[str, Any]:
    """Return the tags that all runs of a cell have."""
    identity, name = state.identity, state.config["name"]
    assert identity is not None
    known = state.commit not in ("", "unknown")
    return {
        "study": name,
        "cell": str(cell),
        "label": label,
        "rule": rule,
        "peeks": rule == PEEKING,
        **asdict(cell),
        "data": identity.data[cell.dataset],
        "git": state.commit,
        "versions": versions_text(state.code),
        USER: _user(),
        SOURCE: f"fairtrial run {name}",
        SOURCE_TYPE: "LOCAL",
        **({COMMIT: state.commit} if known else {}),
    }


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without a user list
        return "unknown"


def describe_cell(config: Config, cell: Cell, rule: str) -> dict[str, str]:
    """Return the description of a cell's run."""
    about = f"All trials of **{cell_name(config, cell)}** on {cell.dataset}; its test scores are"
    return {NOTE: f"{about} the means of its final trials. {_chosen_by(rule)}"}


def describe_trial(trial: TrialState) -> dict[str, str]:
    """Return the description of a trial's run: what it is, its setting, how it ended."""
    started, ended = trial.started, trial.ended
    setting = ", ".join(f"{name} = {_short(value)}" for name, value in started.setting.items())
    parts = [
        f"{ROLES[trial.id.role]} {trial.id.number} of replicate {trial.id.replicate}, "
        f"seed {started.seed}.",
        f"Setting: {setting}{' (chosen by the search)' if started.tuned else ''}." * bool(setting),
        _chosen_by(started.rule),
    ]
    if ended:
        chosen = f", epoch {ended.chosen_epoch:g} chosen" if ended.chosen_epoch is not None else ""
        parts.append(f"{ended.outcome.capitalize()} after {ended.epoch} epochs{chosen}.")
    return {NOTE: " ".join(part for part in parts if part)}


def ended_tags(trial: TrialState) -> dict[str, Any]:
    """Return the tags of a trial that has ended: how, where, and its description."""
    ended = trial.ended
    assert ended is not None
    tags: dict[str, Any] = {"outcome": ended.outcome, "epochs": ended.epoch}
    tags |= {"nodes": " ".join(ended.nodes)} | describe_trial(trial)
    tags |= {"devices": ", ".join(sorted(ended.devices))} if ended.devices else {}
    return tags | ({"error": ended.error} if ended.error else {})


def _chosen_by(rule: str) -> str:
    if rule == PEEKING:
        return "Its epoch is chosen on the test classes, so its test scores do not rank."
    return f"Rule: {rule}."


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def chosen_points(rows: Sequence[EpochDone]) -> Iterator[Point]:
    """Yield the selection scores of the chosen epoch, at its step; of every fold if it has them."""
    epochs = {row.epoch: row for row in rows}
    last = rows[-1].metrics if rows else {}
    for name, epoch in last.items():
        fold, _, key = name.rpartition("/")
        row = epochs.get(round(epoch))
        if key != "chosen_epoch" or row is None or epoch != row.epoch:
            continue
        prefix = f"{fold}/select/" if fold else "select/"
        for metric, value in row.metrics.items():
            if metric.startswith(prefix) and metric != f"{prefix}best":
                short = metric.removeprefix(prefix)
                marker = f"{CHOSEN}{fold}/{short}" if fold else f"{CHOSEN}{short}"
                yield marker, value, row.epoch, row.at


def final_means(trials: Sequence[TrialState]) -> list[Point]:
    """Return the mean test scores of a cell's final trials, as of the last of them."""
    last = {
        trial.started.seed: trial.ended
        for trial in trials
        if trial.id.role == "final" and trial.succeeded
    }
    ends = [ended for ended in last.values() if ended]
    names = [name for name in ends[0].metrics if name.startswith("test/")] if ends else []
    at = max((ended.at for ended in ends), default=0)
    return [
        (name, fmean(end.metrics[name] for end in ends if name in end.metrics), len(ends), at)
        for name in names
    ]
