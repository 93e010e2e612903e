"""Preflight: is there room to run? Storage and tracking are tried before anything starts."""

import os
import urllib.request
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

from study.config import StudyConfig
from study.lease import LEASE, REQUEST
from study.ledger import LEDGER, events
from study.status import is_finished

# What a driver leaves that was killed before its study's first line.
BEGINNINGS = ("config.yaml", LEDGER, LEASE, REQUEST, "nodes", "splits", "readings.csv")
TIMEOUT = 10  # seconds for a tracking server to answer


class PreflightError(Exception):
    """The config is good, the place is not."""


def study_folder(config: StudyConfig, *, resume: bool = False) -> Path:
    """Where the study lives, if it is to be resumed, or will live: a ValueError if it is the other way round."""
    folder = Path(config.studies) / config.name
    if resume:
        if events(folder):
            return folder
        raise ValueError(f"There is no study '{config.name}' in {folder.parent} to go on with; leave out --resume to begin it.")
    if not (told := events(folder)):
        if strange := [path.name for path in folder.glob("*") if not path.name.startswith(BEGINNINGS)]:
            raise ValueError(f"{folder} is no study's folder, since it holds {strange[0]}; run it under another --name, or move that away.")
        return folder
    free = next(name for i in count(2) if not (folder.parent / (name := f"{config.name}-{i}")).exists())
    if is_finished(told):
        state, cure = "is finished", f"`fairtrial report {config.name}` shows it"
    else:
        state, cure = "was started before and did not finish", f"`fairtrial run {config.name} --resume` goes on with it"
    raise ValueError(f"The study '{config.name}' {state}: {folder}. {cure}; `--name {free}` runs it again beside.")


def close_folder(folder: Path) -> None:
    """Whoever writes into a study's folder decides what it does: it is the user's own, and closed to others."""
    probe = folder / f"{LEASE}.owner"
    probe.touch()  # storage may have ideas of its own on who is who
    owner, mine = folder.stat().st_uid, probe.stat().st_uid
    probe.unlink()
    if owner != mine:
        raise PreflightError(f"A study's folder must be one's own, but {folder} belongs to user {owner}, not {mine}; chown it, or copy it.")
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


def embedded_uri(studies: Path) -> str:
    """The SQLite store of a studies folder."""
    return f"sqlite:///{studies.absolute() / 'mlflow.db'}"


def tracking_uri(config: StudyConfig) -> str:
    """The MLflow store of the study."""
    return config.tracking_uri or embedded_uri(Path(config.studies))


def check_place(config: StudyConfig) -> None:
    """Raises PreflightError if the studies folder cannot be written or a tracking server does not answer."""
    root = Path(config.studies).absolute()
    existing = next(path for path in (root, *root.parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise PreflightError(f"The studies folder must be writable, but {existing} is not; choose another with --set studies=FOLDER.")
    if config.tracking_uri and config.tracking_uri.startswith("http"):
        ask_server(config.tracking_uri)


def ask_server(uri: str) -> None:
    """PreflightError: an MLflow server does not answer."""
    parts = urlsplit(uri)
    address = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")  # no password in a message
    try:
        urllib.request.urlopen(f"{address}/health", timeout=TIMEOUT).close()
    except (OSError, ValueError) as error:
        raise PreflightError(
            f"The MLflow server {address} did not answer ({error}); start it, or leave tracking_uri empty for the embedded store."
        ) from None
