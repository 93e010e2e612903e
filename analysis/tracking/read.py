"""A study read back as frames: trials, curves, test queries."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.tracking.store import TrackingError, open_store, redact
from search_spaces import Value
from search_spaces.training import TRAINED

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

QUERIES = "queries.csv"
CURVES = ("select/", "seconds")  # metrics whose every epoch is read back
SETTINGS = ("loss.", TRAINED)  # params with these prefixes are the trial's setting; loss. goes without saying


@dataclass(frozen=True)
class StudyRows:
    """A study as frames. trials: one row per trial (what it was, its setting, how it ended, its last metrics);
    curves: one row per trial, epoch and metric; queries: one row per final trial, model (fold), rule and test query.
    A trial's role is search, final, published or refit.
    """

    name: str
    trials: pd.DataFrame
    curves: pd.DataFrame
    queries: pd.DataFrame

    @property
    def finals(self) -> pd.DataFrame:
        """Final trials that finished; of those made again after a search had grown, the last."""
        if self.trials.empty:
            return self.trials
        found = self.trials[(self.trials["phase"] == "final") & (self.trials["status"] == "FINISHED")]
        return found.drop_duplicates(["cell", "role", "seed"], keep="last")


def read_study(uri: str, study: str) -> StudyRows:
    """Everything that tables, figures and the page are made of."""
    try:
        client = open_store(uri)
        runs = _runs(client, study)
    except Exception as error:
        raise TrackingError(f"MLflow at {redact(uri)} cannot be read: {' '.join(redact(str(error)).split())}") from error
    trials = pd.DataFrame([_trial_row(run) for run in runs])
    if len(trials):
        trials = trials.sort_values(["start", "trial"], ignore_index=True)
    return StudyRows(study, trials, _curves(client, runs), _queries(client, runs))


def _curves(client: MlflowClient, runs: list[Run]) -> pd.DataFrame:
    rows = [
        {"run_id": run.info.run_id, "metric": name, "epoch": point.step, "value": point.value}
        for run in runs
        for name in run.data.metrics
        if name.startswith(CURVES)
        for point in client.get_metric_history(run.info.run_id, name)
    ]
    return pd.DataFrame(rows, columns=["run_id", "metric", "epoch", "value"])


def _queries(client: MlflowClient, runs: list[Run]) -> pd.DataFrame:
    parts = []
    with tempfile.TemporaryDirectory() as folder:
        for run in runs:
            if run.data.tags["phase"] == "final" and run.info.status == "FINISHED":
                (target := Path(folder, run.info.run_id)).mkdir()
                file = client.download_artifacts(run.info.run_id, QUERIES, str(target))
                parts.append(_with_rule(pd.read_csv(file, dtype={"fold": str}), run.data.tags["rule"]).assign(run_id=run.info.run_id))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["run_id", "fold", "rule", "class"])


def _with_rule(queries: pd.DataFrame, rule: str) -> pd.DataFrame:
    """Studies from before 0.4 had one model and one rule, and did not say so in every row."""
    return queries.assign(fold=queries.get("fold", "0"), rule=queries.get("rule", rule))


def _runs(client: MlflowClient, study: str) -> list[Run]:
    experiment = client.get_experiment_by_name(study)
    if experiment is None:
        raise LookupError(f"it has no study '{study}'")
    runs: list[Run] = []
    token: str | None = None
    while token is None or token:
        page = client.search_runs([experiment.experiment_id], "tags.kind = 'trial'", max_results=5000, page_token=token)
        runs += page
        token = page.token or ""
    return runs


def _trial_row(run: Run) -> dict[str, Any]:
    tags = {k: v for k, v in run.data.tags.items() if not k.startswith("mlflow.")}
    info = {"run_id": run.info.run_id, "status": run.info.status, "start": run.info.start_time, "end": run.info.end_time}
    setting = {k.removeprefix(SETTINGS[0]): _value(v) for k, v in run.data.params.items() if k.startswith(SETTINGS)}
    row = {**tags, **info, "setting": setting, **run.data.metrics}
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
