"""Open an MLflow store, and hide passwords in what is printed."""

from __future__ import annotations

import os
import re
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


def redact(text: str) -> str:
    """Return the text without the users and passwords that its addresses contain."""
    return re.sub(
        r"([?&]\w*(?:user|pass|pwd|token|secret)\w*=)[^&\s]+",
        r"\1…",
        re.sub(r"://\S*@", "://…@", text),
    )
