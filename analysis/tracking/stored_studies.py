"""List the studies of an MLflow store, check them and delete them, by MLflow's public client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from analysis.tracking.store import (
    FILES,
    TrackingError,
    local,
    one_line,
    open_store,
    redact,
    remove,
)

if TYPE_CHECKING:
    from mlflow.entities import Experiment, Run
    from mlflow.tracking import MlflowClient

PAGE = 1000  # runs of one call


def studies(uri: str) -> list[str]:
    """Return the names of the studies in a store, newest first."""
    found = open_store(uri).search_experiments(order_by=["creation_time DESC"])
    return [experiment.name for experiment in found if experiment.name != "Default"]


def left_running(uri: str, study: str) -> bool:
    """Return whether the store shows one of the study's runs as running, or lacks the study."""
    with _one_sentence(uri):
        client = open_store(uri)
        found = client.get_experiment_by_name(study)
        running = "attributes.status = 'RUNNING'"
        return found is None or bool(
            client.search_runs([found.experiment_id], running, max_results=1)
        )


def delete_study(uri: str, study: str) -> None:
    """Delete the study's experiment and all its runs, and free its name."""
    with _one_sentence(uri):
        client = open_store(uri)
        if found := client.get_experiment_by_name(study):
            remove(client, found.experiment_id, study)


def moved_studies(uri: str) -> list[str]:
    """Return the studies of a SQLite store that was moved or copied together with their files.

    MLflow remembers absolute paths, so it looks for their files in the old place, and would write
    new ones there.
    """
    if not _database(uri).exists():
        return []
    with _one_sentence(uri):
        found = open_store(uri).search_experiments()
    return [each.name for each in found if _looks_elsewhere(uri, each)]


def has_moved(uri: str, study: str) -> bool:
    """Return whether the store looks for the files of this study in an old place."""
    if not _database(uri).exists():
        return False
    with _one_sentence(uri):
        found = open_store(uri).get_experiment_by_name(study)
    return found is not None and _looks_elsewhere(uri, found)


def forget_moved(uri: str, study: str) -> None:
    """Delete the study from its store if it has moved; a mirror then writes it from the record."""
    if has_moved(uri, study):
        delete_study(uri, study)


def _database(uri: str) -> Path:
    """Return the file of a SQLite store, or one that is not there for any other store."""
    return Path(uri.removeprefix("sqlite:///")).absolute()


def _looks_elsewhere(uri: str, experiment: Experiment) -> bool:
    name, location = str(experiment.name), str(experiment.artifact_location)
    files = local(location)
    if files is None or not location.endswith(f"/{FILES}/{quote(name)}"):
        return False  # kept by a server, or not by us
    return files.resolve() != (_database(uri).parent / FILES / name).resolve()


@contextmanager
def _one_sentence(uri: str) -> Iterator[None]:
    """Turn whatever MLflow raises into a TrackingError of one sentence."""
    try:
        yield
    except Exception as error:
        raise TrackingError(f"MLflow at {redact(uri)} cannot be used: {one_line(error)}") from error


def trial_runs(client: MlflowClient, experiment: str) -> Iterator[Run]:
    """Yield the runs of all trials."""
    token: str | None = None
    while token is None or token:
        page = client.search_runs(
            [experiment], "tags.kind = 'trial'", max_results=PAGE, page_token=token
        )
        yield from page
        token = page.token or ""
