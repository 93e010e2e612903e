"""fairtrial status: where the studies of a folder stand."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from study.commands import FAIRTRIAL, Json, Studies, one_sentence, terminal
from study.status import StudyStatus, clock, find_study, status_of, studies_in

EVERY = 2.0  # seconds
STYLES = {"waiting": "yellow", "running": "green", "stopping": "yellow", "interrupted": "yellow", "finished": "dim"}


def status(
    study: Annotated[str | None, typer.Argument(help="the study's name; all of the folder if not given")] = None,
    studies: Studies = "studies",
    watch: Annotated[bool, typer.Option("--watch", help="again every two seconds, until Ctrl-C")] = False,
    as_json: Json = False,
) -> None:
    """Show how far studies are: from their ledgers, whether or not they run."""
    root = Path(studies)
    with one_sentence():
        if watch and as_json:
            raise ValueError("--watch draws for people, --json is said once; leave one of them out.")
        found = _look(root, study)
    if as_json:
        plain = [asdict(each) | {"folder": str(each.folder)} for each in found]
        print(json.dumps(plain[0] if study else plain, indent=1))
        return
    console = terminal()
    if not watch:
        console.print(_show(found, whole=study is not None))
        return
    with one_sentence(), Live(_show(found, whole=study is not None), console=console, auto_refresh=False) as live:
        try:
            while any(each.state in ("waiting", "running", "stopping") for each in found):
                time.sleep(EVERY)
                found = _look(root, study)
                live.update(_show(found, whole=study is not None), refresh=True)
        except KeyboardInterrupt:
            return


def _look(root: Path, study: str | None) -> list[StudyStatus]:
    if study:
        return [status_of(find_study(root, study))]
    find_study(root, None)  # says what to do if there is none
    return [status_of(folder) for folder in studies_in(root)]


def _show(found: list[StudyStatus], *, whole: bool) -> RenderableType:
    if whole:
        return _one(found[0])
    table = Table(box=None, pad_edge=False)
    for column in ("study", "state", "trials", "failed", "epochs/min", "last sign of life"):
        table.add_column(column, justify="right" if column in ("trials", "failed", "epochs/min") else "left")
    for each in found:
        pace = f"{each.epochs_per_minute:.0f}" if each.state == "running" else ""
        trials = f"{each.ended}/{each.total}" if each.total else ""
        state = Text(each.state, style=STYLES[each.state])
        table.add_row(each.name, state, trials, str(each.failed or ""), pace, clock(each.updated))
    return table


def _one(study: StudyStatus) -> RenderableType:
    if study.state == "waiting":
        return Text.assemble(
            f"{study.name}: ", (study.state, STYLES[study.state]), f" for room for its first trial, driven by {study.driver}"
        )
    table = Table(box=None, pad_edge=False)
    for column in ("cell", "ended", "running", "failed", "best so far"):
        table.add_column(column, justify="left" if column == "cell" else "right")
    for cell in study.cells:
        best = f"{cell.best:.3f}{'*' * cell.peeks}" if cell.best is not None else ""
        running = cell.running if study.driver else 0
        table.add_row(cell.cell, str(cell.ended), str(running or ""), str(cell.failed or ""), best)
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(study.outcomes.items()))
    lines = [
        Text.assemble(f"{study.name}: ", (study.state, STYLES[study.state]), f", {study.ended} of {study.total} trials ended ({outcomes})"),
        Text(f"last sign of life {clock(study.updated)}, {study.epochs} epochs" + _pace(study), style="dim"),
    ]
    if study.driver:
        lines.append(Text(f"driven by {study.driver}", style="dim"))
    if study.behind:
        lines.append(Text(f"MLflow lacks the last {study.behind:,} bytes of the ledger", style="yellow"))
    if study.state == "interrupted":
        lines.append(Text(f"{FAIRTRIAL} run {study.name} --resume   goes on"))
    marked = any(cell.peeks and cell.best is not None for cell in study.cells)
    return Group(*lines, Text(), table, *([Text("* on the test classes", style="dim")] * marked))


def _pace(study: StudyStatus) -> str:
    return f", {study.epochs_per_minute:.0f} a minute" if study.state == "running" and study.epochs_per_minute else ""
