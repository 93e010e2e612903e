"""fairtrial run: a whole study, or the rest of one, then its ranking."""

from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from study.commands import FAILED_TRIALS, FAIRTRIAL, NO_PLACE, Name, Sets, Smoke, Source, end, kept_config, one_sentence, terminal
from study.config import StudyConfig
from study.interrupts import raised
from study.ledger import events
from study.preflight import check_place, study_folder
from study.presets import PRESETS
from study.sources import resolve
from study.staging import stage

Resume = Annotated[bool, typer.Option("--resume", help="go on with a study that was interrupted, or let a finished one grow")]
NewCode = Annotated[bool, typer.Option("--new-code", help="with --resume: although the code is not the one that it began with")]
SIGINT = 2


def run(
    source: Source,
    sets: Sets = [],  # noqa: B006
    smoke: Smoke = False,
    name: Name = None,
    resume: Resume = False,
    new_code: NewCode = False,
) -> None:
    """Run a study and print its ranking table. With --resume the name of a study in the studies folder will do."""
    console, config = terminal(), None
    with raised():
        try:
            with one_sentence():
                config = _config(source, sets, smoke=smoke, name=name, resume=resume)
                study_folder(config, resume=resume)
                check_place(config)
                for notice in config.notices():
                    console.print(notice, style="yellow", soft_wrap=True, highlight=False, markup=False)
                stage(config, console)
            _run(console, config, source, resume=resume, new_code=new_code)
        except KeyboardInterrupt as interrupt:  # before the first trial, or after the last
            _interrupted(console, config, getattr(interrupt, "signal", SIGINT))


def _run(console: Console, config: StudyConfig, source: str, *, resume: bool, new_code: bool) -> None:
    console.print("Starting Ray and MLflow ...", style="dim")
    from study.printing import print_rankings
    from study.run import Finished, run_study

    with one_sentence():
        done: Finished = run_study(config, resume=resume, new_code=new_code)
    if done.no_room:
        end(f"The study cannot go on here ({done.no_room}). Nothing is lost: mend that, then `{_again(config)}`.", NO_PLACE)
    if done.interrupted:
        _interrupted(console, config, done.signal or SIGINT)
    print_rankings(console, done.rankings)
    console.print()
    for what, where in [
        ("Report", f"{done.page}   ({FAIRTRIAL} report {config.name} adds embedding maps)"),
        ("Trials", f"{FAIRTRIAL} ui"),
        *_next(source),
    ]:
        console.print(f"{what:<8} {where}", soft_wrap=True, highlight=False, markup=False)
    if done.failed:
        console.print(f"{done.failed} of {done.trials} trials failed; their errors are in {done.folder / 'ray'}.", soft_wrap=True)
        raise typer.Exit(FAILED_TRIALS)


def _config(source: str, sets: list[str], *, smoke: bool, name: str | None, resume: bool) -> StudyConfig:
    """With --resume, that of the study itself."""
    if not resume:
        return resolve(source, sets=sets, smoke=smoke, name=name).config
    studies = next((text for item in sets for key, _, text in [item.partition("=")] if key == "studies"), "studies")
    at = [*sets, f"studies={studies}"]  # it may have been moved
    if source.endswith((".yaml", ".yml")):
        return resolve(source, sets=at, smoke=smoke, name=name).config
    kept = kept_config(Path(studies) / (name or (f"{source}-smoke" if smoke else source)))
    if not kept.exists():
        raise ValueError(f"There is no study '{kept.parent.name}' in {studies} to go on with; leave out --resume to begin it.")
    return resolve(str(kept), sets=at).config


def _interrupted(console: Console, config: StudyConfig | None, signal: int) -> NoReturn:
    begun = config and events(Path(config.studies) / config.name)
    how = f"Nothing is lost: `{_again(config)}` goes on." if config and begun else "No trial had begun, and nothing is left behind."
    console.print(f"Interrupted. {how}", soft_wrap=True, highlight=False, markup=False)
    raise typer.Exit(128 + signal)


def _again(config: StudyConfig) -> str:
    where = "" if config.studies == "studies" else f" --set studies={config.studies}"
    return f"{FAIRTRIAL} run {config.name} --resume{where}"


def _next(source: str) -> list[tuple[str, str]]:
    """A study of one's own, under a name of its own."""
    if source in PRESETS:
        return [("Next", f"{FAIRTRIAL} config show {source} --name mine > mine.yaml   (edit it, then: {FAIRTRIAL} run mine.yaml)")]
    return [("Next", f"edit {source}, then: {FAIRTRIAL} run {source} --name another")] if Path(source).is_file() else []
