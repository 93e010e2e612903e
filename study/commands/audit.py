"""fairtrial audit: the kept checkpoints of a finished search, scored on the test classes."""

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from study.commands import FAIRTRIAL, Studies, agree, config_of, one_sentence, terminal
from study.status import find_study


def audit(
    study: Annotated[str, typer.Argument(help="the study's name")],
    studies: Studies = "studies",
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> None:
    """Score every kept search trial on the test classes: does validation choose well? This closes the study's search. Asks first."""
    with one_sentence():
        folder = find_study(Path(studies), study)
        config = config_of(folder)
    if not yes:
        agree(f"This reads the test classes with every search trial of '{study}', and closes its search. Go on?")
    from study.auditing import audit as score

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with one_sentence(), Progress(*columns, console=terminal(), transient=True) as bars:
        task = bars.add_task("Scoring checkpoints")
        count = score(config, folder, lambda done, total: bars.update(task, completed=done, total=total))
    print(f"{count} search trials were scored. `{FAIRTRIAL} report {study} --table transfer` says how well validation chose.")
