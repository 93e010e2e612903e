"""fairtrial run: run a whole study, or the rest of one, then print its ranking."""

from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from analysis.record.ledger import has_begun
from study.cli.terminal import (
    FAIRTRIAL,
    Name,
    Sets,
    Smoke,
    Source,
    end,
    one_sentence,
    terminal,
    typed,
)
from study.config.notices import notices
from study.config.sources import Resolved, resolve
from study.config.study_config import StudyConfig
from study.driver.folder import whole_config
from study.driver.preflight import PreparedStudy, prepare
from study.ends.interrupts import raised
from study.ends.study_end import StudyEnd, end_of
from study.errors import FAILED_TRIALS, NO_PLACE, PreflightError
from study.presets import PRESETS
from study.view.heartbeat import shown_busy

Resume = Annotated[
    bool,
    typer.Option("--resume", help="resume an interrupted study, or let a finished one grow"),
]
NewCode = Annotated[
    bool,
    typer.Option(
        "--new-code",
        help="with --resume: even if the code is not the one that the study began with",
    ),
]


def run(
    source: Source,
    sets: Sets = [],  # noqa: B006
    smoke: Smoke = False,
    name: Name = None,
    resume: Resume = False,
    new_code: NewCode = False,
) -> None:
    """Run a study and print its ranking table. With --resume the name of a study in the studies
    folder is enough.
    """
    console, config = terminal(), None
    with raised():
        try:
            with one_sentence():
                with shown_busy(console, "Reading the config and the data"):
                    resolved = _resolve(source, sets, smoke=smoke, name=name, resume=resume)
                config = resolved.config
                for reason in resolved.choices:
                    console.print(
                        f"Chosen: {reason}", soft_wrap=True, highlight=False, markup=False
                    )
                study = prepare(config, resume=resume, console=console)
                for notice in notices(study.plan):
                    console.print(
                        notice, style="yellow", soft_wrap=True, highlight=False, markup=False
                    )
            _run(console, study, source, new_code=new_code)
        except KeyboardInterrupt as interrupt:  # before the first trial, or after the last
            _end(console, config, getattr(interrupt, "end", StudyEnd("interrupted")))


def _run(console: Console, study: PreparedStudy, source: str, *, new_code: bool) -> None:
    console.print("Starting Ray and MLflow ...", style="dim")
    with shown_busy(console, "Loading"):
        from study.cli.print_ranking import print_rankings
        from study.driver.study_run import drive

    config = study.plan.config
    with one_sentence():
        try:
            result = drive(study, new_code=new_code)
        except (PreflightError, ValueError, ConnectionError):  # one sentence of their own
            raise
        except Exception as error:
            _end(console, config, end_of(error, study.folder))
    if result.end:
        _end(console, config, result.end)
    assert result.fairness, "a study that is over has a page"
    print_rankings(console, result.rankings, study=result.folder, fairness=result.fairness)
    for what, where in [
        ("Report", f"{result.page}"),
        ("Maps", f"{typed(f'report {config.name}', config.studies)}   (adds embedding maps to it)"),
        ("Trials", typed("ui", config.studies)),
        *_next(source),
    ]:
        console.print(f"{what:<8} {where}", soft_wrap=True, highlight=False, markup=False)
    if result.untracked:
        end(result.untracked, NO_PLACE)
    if result.failed:
        errors = result.folder / "ray"
        console.print(
            f"{result.failed} of {result.trials} trials failed; their errors are in {errors}.",
            soft_wrap=True,
        )
        raise typer.Exit(FAILED_TRIALS)


def _resolve(
    source: str, sets: list[str], *, smoke: bool, name: str | None, resume: bool
) -> Resolved:
    """Return the requested config; with --resume that of the study itself."""
    if not resume:
        return resolve(source, sets=sets, smoke=smoke, name=name)
    said = {key.strip(): text for key, _, text in (item.partition("=") for item in sets)}
    studies, name = said.get("studies", "studies"), said.get("name", name)
    at = [*sets, f"studies={studies}"]  # it may have been moved
    if source.endswith((".yaml", ".yml")):
        return resolve(source, sets=at, smoke=smoke, name=name)
    kept = whole_config(Path(studies) / (name or (f"{source}-smoke" if smoke else source)))
    if not kept.exists():
        raise ValueError(
            f"There is no study '{kept.parent.name}' in {studies} to resume; leave out "
            "--resume to start it."
        )
    return resolve(str(kept), sets=at)


def _end(console: Console, config: StudyConfig | None, how: StudyEnd) -> NoReturn:
    """Say how the study ended before it was over, and how to go on."""
    begun = config and has_begun(Path(config.studies) / config.name)
    again = typed(f"run {config.name} --resume", config.studies) if config and begun else None
    if not how.is_asked_for:
        end(how.sentence(again), how.code)
    console.print(how.sentence(again), soft_wrap=True, highlight=False, markup=False)
    raise typer.Exit(how.code)


def _next(source: str) -> list[tuple[str, str]]:
    """Return what to type next to run a study of your own."""
    if source in PRESETS:
        return [
            (
                "Next",
                f"{FAIRTRIAL} config show {source} --name mine > mine.yaml   (edit it, run it)",
            )
        ]
    return (
        [("Next", f"edit {source}, then: {FAIRTRIAL} run {source} --name another")]
        if Path(source).is_file()
        else []
    )
