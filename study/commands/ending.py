"""fairtrial stop, cancel, delete and reap: how a study ends before its time, and how what it left is put in order."""

import shutil
import time
from pathlib import Path
from typing import Annotated

import typer

from study.commands import FAIRTRIAL, NO_PLACE, Studies, agree, config_of, one_sentence
from study.lease import REQUEST, Lease, Request, ask, holder
from study.ledger import LEDGER, Ledger
from study.preflight import tracking_uri
from study.status import find_study, status_of, studies_in

Study = Annotated[str, typer.Argument(help="the study's name")]
HEARD = 10.0  # seconds in which a driver takes a request


def stop(study: Study, studies: Studies = "studies") -> None:
    """Let the running trials of a study finish, and start no more. --resume goes on."""
    _ask(study, Path(studies), "stop", "finishes its running trials and ends")


def cancel(study: Study, studies: Studies = "studies") -> None:
    """End a study now; its running trials go on from their last epoch with --resume."""
    _ask(study, Path(studies), "cancel", "ends")


def _ask(study: str, root: Path, request: Request, what: str) -> None:
    with one_sentence():
        folder = find_study(root, study)
        driver = holder(folder)
        if not driver:
            raise ValueError(f"The study '{study}' is not running: it is {status_of(folder).state}.")
        waits = status_of(folder).state == "waiting"
        ask(folder, request)
    deadline = time.monotonic() + HEARD
    while (folder / REQUEST).exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    if (folder / REQUEST).exists():
        print(f"{driver} has not answered yet; it will when it looks. `{FAIRTRIAL} status {study} --watch` shows it.")
        return
    if waits:
        print(f"{study} ends before its first trial, and leaves nothing behind.")
        return
    print(f"{study} {what}. `{FAIRTRIAL} run {study} --resume` goes on.")


def delete(study: Study, studies: Studies = "studies", yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False) -> None:
    """Delete a study: its folder, and its runs in MLflow. Asks first."""
    from analysis.tracking import delete_study
    from study.mirror import files_folder

    with one_sentence():
        folder = find_study(Path(studies), study)
        if driver := holder(folder):
            raise ValueError(f"The study '{study}' is being run by {driver}; `fairtrial cancel {study}` ends it.")
        about, config = status_of(folder), config_of(folder)
    if not yes:
        agree(f"Delete '{study}' ({about.state}, {about.ended} trials) and its runs in MLflow?")
    with one_sentence(), Lease(folder):
        delete_study(tracking_uri(config), config.name)
        if files := files_folder(config):
            shutil.rmtree(files, ignore_errors=True)
        gone = folder.with_name(f".{folder.name}.deleted")
        shutil.rmtree(gone, ignore_errors=True)  # of a deletion that was cut off
        folder.rename(gone)  # else the lease, which is renewed in it, would come back while it goes
    with one_sentence():
        shutil.rmtree(gone)
    print(f"{study} is deleted.")


def reap(studies: Studies = "studies") -> None:
    """Put in order what crashed drivers left: MLflow gets what it lacks, and runs that nobody drives are KILLED."""
    from study.mirror import Mirror

    root, mended, failed = Path(studies), 0, 0
    with one_sentence():
        find_study(root, None)
    for folder in studies_in(root):
        try:
            about = status_of(folder)
            if about.driver or not (about.behind or _left_running(folder)):
                continue
            with Lease(folder):
                ledger = Ledger(folder / LEDGER)
                mirror = Mirror(config_of(folder), folder, ledger, resumed=True)
                mirror.wait_until_ready()
                mirror.close()
                ledger.close()
        except (ValueError, OSError) as error:
            failed += 1
            print(f"{folder.name}: {error}")
            continue
        mended += 1
        print(f"{folder.name}: in order; `{FAIRTRIAL} run {folder.name} --resume` goes on.")
    print(f"{mended} of {len(studies_in(root))} studies needed it.")
    raise typer.Exit(NO_PLACE if failed else 0)


def _left_running(folder: Path) -> bool:
    """Whether MLflow takes one of its runs for alive."""
    from analysis.tracking import TrackingError, open_store, redact

    config = config_of(folder)
    uri = tracking_uri(config)
    try:
        client = open_store(uri)
        found = client.get_experiment_by_name(config.name)
        return found is None or bool(client.search_runs([found.experiment_id], "attributes.status = 'RUNNING'", max_results=1))
    except Exception as error:
        raise TrackingError(f"MLflow at {redact(uri)} cannot be used: {' '.join(redact(str(error)).split())}") from error
