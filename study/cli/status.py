"""fairtrial status: show how far the studies of a folder are."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from analysis.tables.line_breaks import broken
from study.cli.terminal import Json, Studies, one_sentence, terminal, typed
from study.driver.folder import find_study
from study.driver.status import FolderWatch, StudyStatus, StudyWatch

EVERY = 2.0  # seconds
LABEL = 40  # a longer name of a cell breaks after a slash, so that the table fits 80 columns
STYLES = {
    "waiting": "yellow",
    "running": "green",
    "stopping": "yellow",
    "interrupted": "yellow",
    "finished": "dim",
    "unreadable": "red",
}
LIVING = ("waiting", "running", "stopping")


def status(
    study: Annotated[
        str | None, typer.Argument(help="the study's name; all of the folder by default")
    ] = None,
    studies: Studies = "studies",
    watch: Annotated[
        bool, typer.Option("--watch", help="again every two seconds, until Ctrl-C")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show how far studies are, whether or not they run."""
    root = Path(studies)
    with one_sentence():
        if watch and as_json:
            raise ValueError("--watch draws for people and --json prints once; leave one out.")
        first = find_study(root, study)  # says what to do if there is none
        look = _look_at(first) if study else FolderWatch(root).look
        found = look()
    if as_json:
        plain = [asdict(each) | {"folder": str(each.folder)} for each in found]
        print(json.dumps(plain[0] if study else plain, indent=1))
        return
    console, show = terminal(), _one if study else _all
    if not watch:
        console.print(show(found), crop=False)
        return
    with one_sentence(), Live(show(found), console=console, auto_refresh=False) as live:
        try:
            while any(each.state in LIVING for each in found):
                time.sleep(EVERY)
                found = look()
                live.update(show(found), refresh=True)
        except KeyboardInterrupt:
            return


def _look_at(folder: Path) -> Callable[[], list[StudyStatus]]:
    """Return a function that looks at one study again and again."""
    watch = StudyWatch(folder)
    return lambda: [watch.look()]


def _all(found: list[StudyStatus]) -> RenderableType:
    table = Table(box=None, pad_edge=False)
    for column in ("study", "state", "trials", "failed", "epochs/min", "last event"):
        right = column in ("trials", "failed", "epochs/min")
        table.add_column(column, justify="right" if right else "left")
    if any(each.error for each in found):
        table.add_column("why")
    for each in found:
        pace = f"{each.epochs_per_minute:.0f}" if each.state == "running" else ""
        trials = f"{each.ended}/{each.total}" if each.total else ""
        state = Text(each.state, style=STYLES[each.state])
        why = [Text(each.error)] if each.error else []
        counts = (trials, str(each.failed or ""), pace)
        table.add_row(each.name, state, *counts, _ago(each.updated), *why)
    return table


def _one(found: list[StudyStatus]) -> RenderableType:
    study = found[0]
    if study.state == "waiting":
        return Text.assemble(
            f"{study.name}: ",
            (study.state, STYLES[study.state]),
            f" until its first trial fits the cluster, driven by {study.driver}",
        )
    table = Table(box=None, pad_edge=False)
    for column in ("cell", "ended", "running", "failed", "best so far"):
        table.add_column(column, justify="left" if column == "cell" else "right")
    for cell in study.cells:
        best = f"{cell['best']:.3f}{'*' * cell['peeks']}" if cell["best"] is not None else ""
        counts = (cell["ended"], cell["running"] or "", cell["failed"] or "")
        label = Text("\n".join(broken(cell["label"], LABEL)))
        table.add_row(label, *map(str, counts), best)
    marked = any(cell["peeks"] and cell["best"] is not None for cell in study.cells)
    legend = [Text("* on the test classes", style="dim")] * marked
    return Group(*_lines(study), Text(), table, *legend)


def _lines(study: StudyStatus) -> list[Text]:
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(study.outcomes.items()))
    pace = f", {study.epochs_per_minute:.0f} a minute"
    pace = pace if study.state == "running" and study.epochs_per_minute else ""
    lines = [
        Text.assemble(
            f"{study.name}: ",
            (study.state, STYLES[study.state]),
            f", {study.ended} of {study.total} trials ended ({outcomes})",
        ),
        Text(f"last event {_ago(study.updated)}, {study.epochs} epochs{pace}", style="dim"),
    ]
    if study.driver:
        lines.append(Text(f"driven by {study.driver}", style="dim"))
    if study.behind:
        cure = f"; `{_again(study)}` brings it up to date"
        rest = " and catches up" if study.driver else cure
        lines.append(_unbroken(f"MLflow is behind the record{rest}", "yellow"))
    if study.state == "interrupted":
        lines.append(_unbroken(f"{_again(study)}   resumes it"))
    return lines


def _unbroken(line: str, style: str = "") -> Text:
    """Return a line with a command to copy, which a narrow terminal must not break."""
    return Text(line, style=style, no_wrap=True, overflow="ignore")


def _again(study: StudyStatus) -> str:
    return typed(f"run {study.name} --resume", study.folder.parent)


def _ago(seconds: float) -> str:
    """Return how long ago that was: 3 s ago, 5 min ago, 2 h ago."""
    ago = max(0.0, time.time() - seconds)
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if ago >= 2 * size:
            return f"{ago / size:.0f} {unit} ago"
    return f"{ago:.0f} s ago"
