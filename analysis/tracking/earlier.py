"""Find earlier trials in an MLflow store: those that finished, newest first, with their config."""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.tracking.store import TrackingError, one_line, open_store, redact
from analysis.tracking.write import PARENT
from trainables.contract import Cell

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

TRIALS, STUDIES = 1000, 5  # the newest ones, at most this many
# Outcomes of trials whose last epoch is complete.
WHOLE = ("finished", "stopped early", "out of patience")
FOUND = "tags.kind = 'trial' AND attributes.status = 'FINISHED' AND metrics.seconds > 0"


@dataclass(frozen=True)
class Earlier:
    """Hold one trial: its study, its cell, and the seconds of its last epoch."""

    study: str
    cell: Cell
    seconds: float


def earlier_trials(uri: str, *, backbones: Collection[str]) -> tuple[list[Earlier], dict[str, str]]:
    """Return trials with one of these backbones, and by study its config as YAML.

    One query finds them all. Raise TrackingError if the store cannot be read.
    """
    try:
        client = open_store(uri)
        names = {
            each.experiment_id: each.name for each in client.search_experiments(max_results=TRIALS)
        }
        runs = client.search_runs(
            list(names),
            _filter(backbones),
            max_results=TRIALS,
            order_by=["attributes.start_time DESC"],
        )
    except Exception as error:
        raise TrackingError(f"MLflow at {redact(uri)} cannot be read: {one_line(error)}") from error
    found: list[Earlier] = []
    configs: dict[str, str] = {}
    for run in runs:
        study = names[run.info.experiment_id]
        if (
            run.data.tags.get("backbone") not in backbones
            or run.data.tags.get("outcome") not in WHOLE
        ):
            continue
        if study not in configs and len(configs) < STUDIES:
            configs[study] = stored_config(client, run)
        if configs.get(study):
            found.append(Earlier(study, _cell(run), run.data.metrics["seconds"]))
    return found, {study: text for study, text in configs.items() if text}


def _filter(backbones: Collection[str]) -> str:
    """Return the query; it names the backbone only if there is one, because tags know no lists."""
    (only, *others) = backbones
    return FOUND if others else f"{FOUND} AND tags.backbone = '{only}'"


def stored_config(client: MlflowClient, run: Run) -> str:
    """Return the config of this trial's study, as its cell has it; empty if there is none."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return Path(
                client.download_artifacts(run.data.tags[PARENT], "config.yaml", folder)
            ).read_text()
        except Exception:
            return ""


def _cell(run: Run) -> Cell:
    tags = run.data.tags
    return Cell(
        tags["dataset"],
        tags["backbone"],
        int(tags["embedding_size"]),
        tags["loss"],
        tags["protocol"],
    )
