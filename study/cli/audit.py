"""fairtrial audit: score the kept checkpoints of a finished search on the test classes."""

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from study.cli.terminal import Studies, agree, one_sentence, terminal, typed
from study.config.plan import expand
from study.config.study_config import StudyConfig
from study.driver.folder import config_of, find_study, tracking_uri


def audit(
    study: Annotated[str, typer.Argument(help="the study's name")],
    studies: Studies = "studies",
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> None:
    """Score every kept search trial on the test classes: does validation choose well? This closes
    the study's search. Asks first.
    """
    with one_sentence():
        folder = find_study(Path(studies), study)
        plan = expand(config_of(folder))
        _check_place(plan.config)
    if not yes:
        agree(
            f"This reads the test classes with every search trial of '{study}' and closes its "
            "search. Continue?"
        )
    from study.driver.checkpoint_audit import audit_checkpoints

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with one_sentence(), Progress(*columns, console=terminal(), transient=True) as bars:
        task = bars.add_task("Scoring checkpoints")
        count = audit_checkpoints(
            plan, folder, lambda done, total: bars.update(task, completed=done, total=total)
        )
    print(
        f"Scored {count} search trials. `{typed(f'report {study} --table transfer', studies)}` "
        "shows how well validation chose."
    )


def _check_place(config: StudyConfig) -> None:
    """Raise ValueError if MLflow would write to the place where the study was before."""
    from analysis.tracking import has_moved

    if has_moved(tracking_uri(config), config.name):
        again = typed(f"run {config.name} --resume", config.studies)
        raise ValueError(
            f"The studies folder has moved, and MLflow's store still names the old place; "
            f"`{again}` writes the study there again."
        )
