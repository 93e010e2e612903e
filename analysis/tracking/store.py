"""Open an MLflow store, and hide passwords in what is printed."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from mlflow import MlflowClient

# in a studies folder: files of the runs of a store without a server, one folder per study
FILES = "mlartifacts"


def open_store(uri: str) -> MlflowClient:
    """Return a client of the store; creating a fresh SQLite store takes some seconds."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("DO_NOT_TRACK", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    os.environ.setdefault(
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true"
    )  # two lines for every trial that ends
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    import logging

    import mlflow  # noqa: F401  # first: it sets its own levels when it is imported

    logging.getLogger("mlflow").setLevel(logging.WARNING)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    return _client(uri)


def _client(uri: str) -> MlflowClient:
    from mlflow import MlflowClient

    return MlflowClient(uri)


def local(uri: str) -> Path | None:
    """Return the folder that a file address names, or None for any other address."""
    parts = urlsplit(uri)
    return Path(unquote(parts.path)) if parts.scheme in ("", "file") else None


class TrackingError(ConnectionError):
    """Report in one sentence that MLflow cannot be used, or lost something."""


def is_missing(uri: str) -> bool:
    """Return whether this is a SQLite file that does not exist, which opening it would create."""
    return uri.startswith("sqlite:///") and not Path(uri.removeprefix("sqlite:///")).exists()


def redact(text: str) -> str:
    """Return the text without the users and passwords that its addresses contain."""
    return re.sub(
        r"([?&]\w*(?:user|pass|pwd|token|secret)\w*=)[^&\s]+",
        r"\1…",
        re.sub(r"://\S*@", "://…@", text),
    )


def close_to_others(uri: str) -> None:
    """Let nobody but its owner read a SQLite store: it holds configs, paths and scores."""
    file = Path(uri.removeprefix("sqlite:///"))
    with suppress(OSError):  # another user's: then it is theirs to close
        if uri.startswith("sqlite:///") and file.stat().st_mode & 0o077:
            file.chmod(0o600)


def remove(client: MlflowClient, experiment: str, name: str) -> None:
    """Delete an experiment, and free its name.

    MLflow only hides a deleted experiment, which keeps its name, so rename it first.
    """
    client.rename_experiment(experiment, f"{name} (deleted {experiment})")
    client.delete_experiment(experiment)


def one_line(error: Exception) -> str:
    """Return what MLflow says in one line, without passwords."""
    return " ".join(redact(str(error)).split()) or type(error).__name__
