"""The store itself: opened, listed, and spoken of without passwords."""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

if TYPE_CHECKING:
    from mlflow import MlflowClient

FILES = "mlartifacts"  # in a studies folder: what the runs of a store without a server have, a folder for each study


def open_store(uri: str) -> MlflowClient:
    """A client; a fresh SQLite store is made here, which takes some seconds."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")  # two lines for every trial that ends
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    import logging

    from mlflow import MlflowClient

    logging.getLogger("mlflow").setLevel(logging.WARNING)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    if uri.startswith("sqlite:///"):
        _come_home(Path(uri.removeprefix("sqlite:///")))
    return MlflowClient(uri)


def _come_home(database: Path) -> None:
    """MLflow notes whole paths. Those of a store that was moved with its files are put right, so that all find them, MLflow's pages too."""
    if not database.exists():
        return
    with closing(sqlite3.connect(database, timeout=60)) as store, store:
        if not store.execute("SELECT 1 FROM sqlite_master WHERE name = 'runs'").fetchone():
            return
        for number, name, old in store.execute("SELECT experiment_id, name, artifact_location FROM experiments").fetchall():
            here = database.absolute().parent / FILES / name
            if (old or "").endswith(f"/{FILES}/{quote(name)}") and old != here.as_uri() and here.exists():
                store.execute("UPDATE experiments SET artifact_location = ? WHERE experiment_id = ?", (here.as_uri(), number))
                moved = "UPDATE runs SET artifact_uri = ? || substr(artifact_uri, ?) WHERE experiment_id = ? AND instr(artifact_uri, ?) = 1"
                store.execute(moved, (here.as_uri(), len(old) + 1, number, f"{old}/"))


def local(uri: str) -> Path | None:
    """The folder behind an address of files, if it is one."""
    parts = urlsplit(uri)
    return Path(unquote(parts.path)) if parts.scheme in ("", "file") else None


class TrackingError(ConnectionError):
    """MLflow cannot be used, or lost something: one sentence for people."""


def redact(text: str) -> str:
    """Without the user and password that an address may carry, before its host or behind it."""
    return re.sub(r"([?&]\w*(?:user|pass|pwd|token|secret)\w*=)[^&\s]+", r"\1…", re.sub(r"://\S*@", "://…@", text))


def delete_study(uri: str, study: str) -> None:
    """Its experiment and all runs. MLflow only hides them and keeps the name, which is given free here."""
    try:
        client = open_store(uri)
        if found := client.get_experiment_by_name(study):
            client.rename_experiment(found.experiment_id, f"{study} (deleted {found.experiment_id})")
            client.delete_experiment(found.experiment_id)
    except Exception as error:
        raise TrackingError(f"MLflow at {redact(uri)} cannot be used: {' '.join(redact(str(error)).split())}") from error


def studies(uri: str) -> list[str]:
    """Names of the studies in a store, newest first."""
    found = open_store(uri).search_experiments(order_by=["creation_time DESC"])
    return [experiment.name for experiment in found if experiment.name != "Default"]
