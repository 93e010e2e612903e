"""Write and find the folder of a study: its config, its splits, its readings."""

from __future__ import annotations

import csv
import io
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import yaml

from analysis.record.commands import command
from analysis.record.events import StudyStarted
from analysis.record.ledger import LEDGER, LedgerReader, has_begun
from analysis.record.state import AuditLine, StudyState
from analysis.tracking.store import FILES
from study.config.plan import StudyPlan
from study.config.sources import read_yaml
from study.config.split_files import split_file_name, splits_text
from study.config.study_config import StudyConfig, make
from study.driver.lease import LEASE, REQUEST, holder
from study.errors import PreflightError
from trainables.outputs.disk import replace_text

CONFIG, SPLITS, READINGS = "config.yaml", "splits", "readings.csv"
# What a driver leaves if it is killed before its study's first line.
BEGINNINGS = (CONFIG, LEDGER, LEASE, REQUEST, "nodes", SPLITS, READINGS)


def config_yaml(config: StudyConfig) -> str:
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)


def write_splits(plan: StudyPlan, folder: Path) -> None:
    """Write the class lists of every dataset, protocol and replicate."""
    (folder / SPLITS).mkdir(exist_ok=True)
    for dataset, protocol, replicate, splits in plan.all_splits():
        name = split_file_name(dataset, protocol, replicate)
        (folder / SPLITS / name).write_text(splits_text(dataset, protocol, splits))


def write_readings(folder: Path, state: StudyState) -> None:
    """Write readings.csv anew: a line for each time that test classes were read."""
    lines = state.test_readings()
    if lines:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([AuditLine._fields, *lines])
        replace_text(folder / READINGS, text.getvalue())


def new_folder(config: StudyConfig) -> Path:
    """Return the folder of a study that is to begin. Raise ValueError if its name is taken."""
    folder = Path(config.studies) / config.name
    if not has_begun(folder):
        strange = [p.name for p in folder.glob("*") if not p.name.startswith(BEGINNINGS)]
        if strange:
            raise ValueError(
                f"{folder} is not a study folder: it contains {strange[0]}; choose another --name, "
                "or move that away."
            )
        return folder
    free = next(
        name for i in count(2) if not (folder.parent / (name := f"{config.name}-{i}")).exists()
    )
    if StudyState(LedgerReader(folder).read()).finished:
        fact, what, words = "is finished", "shows it", f"report {config.name}"
    elif holder(folder):
        fact, what, words = "is running", "shows it", f"status {config.name} --watch"
    else:
        fact, what = "was started before and did not finish", "resumes it"
        words = f"run {config.name} --resume"
    cure = f"`{command(words, config.studies)}` {what}"
    raise ValueError(
        f"The study '{config.name}' {fact}: {folder}. {cure}; `--name {free}` runs it again."
    )


@contextmanager
def nothing_left(folder: Path) -> Iterator[None]:
    """Remove the folder of a study that ended before its first line."""
    try:
        yield
    except BaseException:
        if not has_begun(folder):
            shutil.rmtree(folder, ignore_errors=True)
        raise


def old_folder(config: StudyConfig) -> Path:
    """Return the folder of a study to resume. Raise ValueError if it has not begun."""
    folder = Path(config.studies) / config.name
    if has_begun(folder):
        return folder
    raise ValueError(
        f"There is no study '{config.name}' in {folder.parent} to resume; leave out --resume to "
        "start it."
    )


def make_private(folder: Path) -> None:
    """Create the folder, and close it to others: whoever can write into it controls the study.

    Raise PreflightError if it cannot be written, or belongs to another user.
    """
    try:
        folder.mkdir(parents=True, mode=0o700, exist_ok=True)
        probe = folder / f"{LEASE}.owner"
        probe.touch()  # network storage may map users in its own way
        owner, mine = folder.stat().st_uid, probe.stat().st_uid
        probe.unlink()
        if owner == mine and folder.stat().st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        raise PreflightError(
            f"The studies folder must be writable: {error}; choose another with --set "
            "studies=FOLDER."
        ) from None
    if owner != mine:
        raise PreflightError(
            f"A study's folder must be your own, but {folder} belongs to user {owner}, not {mine}; "
            "chown it, or copy it."
        )


def embedded_uri(studies: Path) -> str:
    """Return the address of the SQLite store of a studies folder."""
    return f"sqlite:///{studies.absolute() / 'mlflow.db'}"


def tracking_uri(config: StudyConfig) -> str:
    """Return the address of the study's MLflow store."""
    return config.tracking_uri or embedded_uri(Path(config.studies))


def mlflow_files(config: StudyConfig) -> Path | None:
    """Return where the files of the study's MLflow runs are; None if the server keeps them."""
    served = (config.tracking_uri or "").startswith("http")
    return None if served else Path(config.studies).absolute() / FILES / config.name


def studies_in(root: Path) -> list[Path]:
    """Return the folders of all studies that have begun or wait to, the last one written first."""
    found = [path.parent for path in root.glob(f"[!.]*/{LEDGER}")]
    found = [folder for folder in found if has_begun(folder) or holder(folder)]
    return sorted(found, key=_written, reverse=True)


def _written(folder: Path) -> float:
    """Return when the study's ledger was written last; 0 if the study was just removed."""
    with suppress(OSError):
        return (folder / LEDGER).stat().st_mtime
    return 0.0


def find_study(root: Path, name: str | None) -> Path:
    """Return a study's folder by its name or its path; without a name the last one written."""
    known = {path.name: path for path in studies_in(root)}
    if name in known:
        return known[name]
    if name and has_begun(Path(name)):
        return Path(name)
    if name is None and known:
        return next(iter(known.values()))
    there = (
        f"It holds: {', '.join(sorted(known))}."
        if known
        else "`fairtrial run quickstart` makes one."
    )
    raise ValueError(f"{root} holds no study{f' {name!r}' if name else ''}. {there}")


def config_of(folder: Path) -> StudyConfig:
    """Return a study's config, with the folder that the study is in now."""
    return make({**read_yaml(whole_config(folder)), "studies": str(folder.parent)})


def whole_config(folder: Path) -> Path:
    """Return the path of a study's config.yaml.

    If a power loss cut it short, write it again from the ledger, which has everything but the place
    where the study runs.
    """
    path = folder / CONFIG
    first = LedgerReader(folder).read(limit=1)
    if first and isinstance(first[0], StudyStarted) and not _is_whole(path, first[0].config):
        state = StudyState(LedgerReader(folder).read())
        replace_text(path, yaml.safe_dump(state.config, sort_keys=False))
        print(
            f"fairtrial: {path} was broken and is written again from the ledger; tracking_uri and "
            "slots are not in it.",
            file=sys.stderr,
        )
    return path


def _is_whole(path: Path, keys: Iterable[str]) -> bool:
    with suppress(OSError, ValueError):
        return path.read_text().endswith("\n") and set(keys) <= set(read_yaml(path))
    return False
