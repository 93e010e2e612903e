"""Put a study's page into its own run in MLflow, and its answer into the description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from analysis.record.commands import resuming
from analysis.tracking.experiment import KIND, NOTE, QUESTION, SOURCE, SOURCE_TYPE
from analysis.tracking.store import TrackingError, is_missing, one_line, open_store, redact
from analysis.tracking.stored_studies import trial_runs
from analysis.tracking.write import KEY

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment, Run

STUDY = "study"  # kind and key of a study's own run


def keep_files(
    uri: str, study: str, files: Sequence[Path], *, below: Path, answer: Sequence[str] = ()
) -> None:
    """Log the page and its files as artifacts of the study's own run, replacing older ones.

    answer: sentences for the experiment's description.
    """
    try:
        if is_missing(uri):
            raise LookupError(f"it is gone; `{resuming(below)}` restores it")
        client = open_store(uri)
        experiment = client.get_experiment_by_name(study)
        if experiment is None:
            raise LookupError(f"it has no study '{study}'; `{resuming(below)}` makes it")
        run = study_run(client, experiment.experiment_id, study)
        if run.info.status != "FINISHED":  # before the files: a killed process leaves none alive
            client.set_terminated(run.info.run_id, "FINISHED")
        for file in files:
            folder = file.parent.relative_to(below).as_posix()
            client.log_artifact(run.info.run_id, str(file), None if folder == "." else folder)
        if answer:
            _describe(client, experiment, run, page=files[0].name, answer=answer)
    except Exception as error:
        raise TrackingError(
            f"MLflow at {redact(uri)} cannot keep the page: {one_line(error)}"
        ) from error


@dataclass(frozen=True)
class Links:
    """Hold where a server's own pages show a study: its address, and its runs by trial."""

    study: str = ""
    runs: Mapping[str, str] = field(default_factory=dict)


def links_of(uri: str, study: str) -> Links:
    """Return the links to a study that a server shows; empty ones if none does.

    A user's name and password in the address are left out.
    """
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https"):
        return Links()
    try:
        client = open_store(uri)
        experiment = client.get_experiment_by_name(study)
        if experiment is None:
            return Links()
        number = experiment.experiment_id
        runs = {run.data.tags[KEY]: run.info.run_id for run in trial_runs(client, number)}
    except Exception:  # whoever reads the page finds the study by its name
        return Links()
    host = f"{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
    return Links(f"{parts.scheme}://{host}/#/experiments/{number}", runs)


def study_run(client: MlflowClient, experiment: str, study: str) -> Run:
    """Return the study's own run, which is made when it is first wanted."""
    there = client.search_runs([experiment], "tags.kind = 'study'", max_results=1)
    tags = {"kind": STUDY, KEY: STUDY, "study": study}
    tags |= {SOURCE: f"fairtrial run {study}", SOURCE_TYPE: "LOCAL"}
    return there[0] if there else client.create_run(experiment, run_name="page", tags=tags)


def _describe(
    client: MlflowClient, experiment: Experiment, run: Run, *, page: str, answer: Sequence[str]
) -> None:
    """Write the answer first (MLflow shows one line), what was asked, and where the page is."""
    number = experiment.experiment_id
    link = f"#/experiments/{number}/runs/{run.info.run_id}/artifacts/{page}"
    parts = [
        "**Answer.** " + " ".join(answer),
        experiment.tags.get(QUESTION, ""),
        f"[The page]({link}) has intervals, figures and tables.",
    ]
    note = "\n\n".join(part for part in parts if part)
    for name, text in {**KIND, NOTE: note}.items():
        client.set_experiment_tag(number, name, text)
