"""fairtrial stop, cancel, delete and reap: end a study early, and clean up after crashes."""

import shutil
import time
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from study.cli.terminal import Studies, agree, one_sentence, typed
from study.config.study_config import StudyConfig
from study.driver.folder import config_of, find_study, mlflow_files, studies_in, tracking_uri
from study.driver.lease import REQUEST, Lease, ask, holder
from study.driver.status import status_of
from study.ends.interrupts import Request
from study.errors import NO_PLACE

Study = Annotated[str, typer.Argument(help="the study's name")]
HEARD = 10.0  # seconds in which a driver takes a request


def stop(study: Study, studies: Studies = "studies") -> None:
    """Let the running trials of a study finish, and start no more. --resume continues it."""
    _ask(study, Path(studies), "stop", "finishes its running trials and ends")


def cancel(study: Study, studies: Studies = "studies") -> None:
    """End a study now; with --resume its running trials continue from their last checkpoint."""
    _ask(study, Path(studies), "cancel", "ends")


def _ask(study: str, root: Path, request: Request, what: str) -> None:
    with one_sentence():
        folder = find_study(root, study)
        driver = holder(folder)
        if not driver:
            raise ValueError(
                f"The study '{study}' is not running: it is {status_of(folder).state}."
            )
        waits = status_of(folder).state == "waiting"
        ask(folder, request)
    deadline = time.monotonic() + HEARD
    while (folder / REQUEST).exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    if (folder / REQUEST).exists():
        print(
            f"{driver} has not answered yet; it will as soon as it can. "
            f"`{typed(f'status {study} --watch', root)}` shows it."
        )
        return
    if waits:
        print(f"{study} ends before its first trial, and leaves nothing behind.")
        return
    print(f"{study} {what}. `{typed(f'run {study} --resume', root)}` resumes it.")


def delete(
    study: Study,
    studies: Studies = "studies",
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> None:
    """Delete a study: its folder, and its runs in MLflow. Asks first."""
    with one_sentence():
        folder = find_study(Path(studies), study)
        if driver := holder(folder):
            raise ValueError(
                f"The study '{study}' is being run by {driver}; `fairtrial cancel {study}` ends it."
            )
        about, config = _how_far(folder), _config(folder)
    if not yes:
        agree(f"Delete '{study}' ({about}) {'and' if config else 'but not'} its runs in MLflow?")
    with one_sentence(), Lease(folder):
        if config:
            _delete_runs(config)
        gone = folder.with_name(f".{folder.name}.deleted")
        shutil.rmtree(gone, ignore_errors=True)  # left by an interrupted deletion
        folder.rename(
            gone
        )  # else the lease would renew itself in the folder while rmtree empties it
    with one_sentence():
        shutil.rmtree(gone)
    print(f"{study} is deleted{'' if config else '; its runs in MLflow, if any, are still there'}.")


def _how_far(folder: Path) -> str:
    try:
        about = status_of(folder)
    except ValueError:  # of another version, or broken
        return "unreadable"
    return f"{about.state}, {about.ended} trials"


def _config(folder: Path) -> StudyConfig | None:
    """Return a study's config; None if it is of another version, or broken."""
    try:
        return config_of(folder)
    except ValueError:
        return None


def _delete_runs(config: StudyConfig) -> None:
    from analysis.tracking import delete_study

    delete_study(tracking_uri(config), config.name)
    if files := mlflow_files(config):
        shutil.rmtree(files, ignore_errors=True)


def reap(studies: Studies = "studies") -> None:
    """Clean up after crashed drivers: bring MLflow up to date, and mark runs without a driver as
    KILLED.
    """
    from analysis.record.record import Record
    from analysis.tracking import has_moved, left_running
    from study.config.plan import expand
    from study.driver.mlflow_mirror import MlflowMirror

    root, mended, failed = Path(studies), 0, 0
    with one_sentence():
        find_study(root, None)
    for folder in studies_in(root):
        try:
            about, config = status_of(folder), config_of(folder)
            if about.driver:
                continue
            uri, name = tracking_uri(config), config.name
            if not (about.behind or has_moved(uri, name) or left_running(uri, name)):
                continue
            with Lease(folder), closing(Record(folder)) as record:
                mirror = MlflowMirror(expand(config), record)
                mirror.wait_until_ready()
                mirror.close(patient=mirror.opened)
        except (ValueError, OSError) as error:
            failed += 1
            print(f"{folder.name}: {error}")
            continue
        mended += 1
        again = typed(f"run {folder.name} --resume", root)
        print(f"{folder.name}: cleaned up; `{again}` resumes it.")
    print(f"{mended} of {len(studies_in(root))} studies needed it.")
    raise typer.Exit(NO_PLACE if failed else 0)
