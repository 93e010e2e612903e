"""The store itself: opened, listed, and spoken of without passwords."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlflow import MlflowClient


def open_store(uri: str) -> MlflowClient:
    """A client; a fresh SQLite store is made here, which takes some seconds."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    import logging

    from mlflow import MlflowClient

    logging.getLogger("mlflow").setLevel(logging.WARNING)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    return MlflowClient(uri)


class TrackingError(ConnectionError):
    """MLflow cannot be used, or lost something: one sentence for people."""


def redact(text: str) -> str:
    """Without the user and password that an address may carry."""
    return re.sub(r"://[^/@\s]+@", "://…@", text)


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
