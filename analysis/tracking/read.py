"""A study read back as frames: trials, curves, test queries, and what each cell was given."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.tracking.raw import RawRun, read_raw
from analysis.tracking.rows import SPEC, StudyRows, read_spec
from analysis.tracking.store import TrackingError, local, open_store, redact
from search_spaces import Value
from search_spaces.training import TRAINED

if TYPE_CHECKING:
    from mlflow import MlflowClient

QUERIES = "queries.csv"
SETTINGS = ("loss.", TRAINED)  # params with these prefixes are the trial's setting; loss. goes without saying

Fetch = Callable[[str, str], Path | None]


def read_study(uri: str, study: str) -> StudyRows:
    """Everything that tables, figures and the page are made of."""
    try:
        client = open_store(uri)
        raw = read_raw(client, uri, study)
    except Exception as error:
        raise TrackingError(f"MLflow at {redact(uri)} cannot be read: {' '.join(redact(str(error)).split())}") from error
    trials = pd.DataFrame([_trial_row(run) for run in raw.runs])
    if len(trials):
        trials = trials.sort_values(["start", "trial"], ignore_index=True)
    fetch = _fetcher(client, raw.runs)
    return StudyRows(study, trials, raw.curves, _queries(fetch, raw.runs), _specs(fetch, raw.runs), fetch)


def _fetcher(client: MlflowClient, runs: list[RawRun]) -> Fetch:
    """Files of a local store are read where they are; others are downloaded once, to a folder that goes with this program."""
    places = {run.run_id: local(run.artifacts) for run in runs}
    folder: list[tempfile.TemporaryDirectory[str]] = []

    def fetch(run_id: str, name: str) -> Path | None:
        if place := places[run_id]:
            return path if (path := place / name).exists() else None
        if not folder:
            folder.append(tempfile.TemporaryDirectory())
        target = Path(folder[0].name, run_id)
        if (target / name).exists():
            return target / name
        if name not in {file.path for file in client.list_artifacts(run_id)}:
            return None
        target.mkdir(exist_ok=True)
        return Path(client.download_artifacts(run_id, name, str(target)))

    return fetch


def _queries(fetch: Fetch, runs: list[RawRun]) -> pd.DataFrame:
    parts = []
    for run in runs:
        if run.tags["phase"] == "final" and run.status == "FINISHED":
            file = fetch(run.run_id, QUERIES)
            if file is None:
                raise TrackingError(f"A finished final trial leaves {QUERIES}, but run {run.run_id} has none; its store is not whole.")
            parts.append(_with_rule(pd.read_csv(file, dtype={"fold": str}), run.tags["rule"]).assign(run_id=run.run_id))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["run_id", "fold", "rule", "class"])


def _with_rule(queries: pd.DataFrame, rule: str) -> pd.DataFrame:
    """Studies from before 0.4 had one model and one rule, and did not say so in every row."""
    return queries.assign(fold=queries.get("fold", "0"), rule=queries.get("rule", rule))


def _specs(fetch: Fetch, runs: list[RawRun]) -> dict[str, dict[str, Any]]:
    """One spec for each cell: of a final trial of the loss's own number if there is one, else of any."""
    found: dict[str, dict[str, Any]] = {}
    order = ("final-", "search-", "published-", "refit-", "published_refit-")
    for run in sorted(runs, key=lambda run: next((i for i, role in enumerate(order) if run.tags["trial"].startswith(role)), len(order))):
        if run.tags["cell"] not in found and (file := fetch(run.run_id, SPEC)):
            found[run.tags["cell"]] = read_spec(file)
    return found


def _trial_row(run: RawRun) -> dict[str, Any]:
    tags = {k: v for k, v in run.tags.items() if not k.startswith("mlflow.")}
    info = {"run_id": run.run_id, "status": run.status, "start": run.start, "end": run.end}
    setting = {k.removeprefix(SETTINGS[0]): _value(v) for k, v in run.params.items() if k.startswith(SETTINGS)}
    row = {**tags, **info, "setting": setting, **run.metrics}
    row |= {"seed": int(tags["seed"]), "peeks": tags["peeks"] == "True", "embedding_size": int(tags["embedding_size"])}
    row |= {"tuned": tags["tuned"] == "True"} if "tuned" in tags else {}
    return row | {"role": tags["trial"].partition("-")[0], "folds": int(tags.get("folds", 1))}


def _value(text: str) -> Value:
    """A param as it was before MLflow made it a text."""
    if text in ("True", "False"):
        return text == "True"
    try:
        return float(text)
    except ValueError:
        return text
