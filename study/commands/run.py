"""fairtrial run: a whole study, then its ranking."""

import typer

from study.commands import FAILED_TRIALS, FAIRTRIAL, INTERRUPTED, NO_PLACE, Name, Sets, Smoke, Source, end, one_sentence, terminal
from study.preflight import PreflightError, check_place, study_folder
from study.presets import PRESETS
from study.sources import resolve
from study.staging import stage


def run(source: Source, sets: Sets = [], smoke: Smoke = False, name: Name = None) -> None:  # noqa: B006
    """Run a study and print its ranking table."""
    with one_sentence():
        config = resolve(source, sets=sets, smoke=smoke, name=name).config
        study_folder(config)
        check_place(config)
        console = terminal()
        for notice in config.notices():
            console.print(notice, style="yellow", soft_wrap=True, highlight=False, markup=False)
        stage(config, console)
    console.print("Starting Ray and MLflow ...", style="dim")
    from study.printing import print_rankings
    from study.run import run_study

    try:
        done = run_study(config)
    except (PreflightError, ConnectionError) as error:
        end(str(error), NO_PLACE)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    if done.interrupted:
        console.print(f"Interrupted. What was measured is in MLflow: {FAIRTRIAL} ui")
        raise typer.Exit(INTERRUPTED)
    print_rankings(console, done.rankings)
    console.print()
    for what, where in (
        ("Report", str(done.page)),
        ("Trials", f"{FAIRTRIAL} ui"),
        ("Next", _next(source)),
    ):
        console.print(f"{what:<8} {where}", soft_wrap=True, highlight=False, markup=False)
    if done.failed:
        console.print(f"{done.failed} of {done.trials} trials failed; their errors are in {done.folder / 'ray'}.", soft_wrap=True)
        raise typer.Exit(FAILED_TRIALS)


def _next(source: str) -> str:
    """A study of one's own, under a name of its own."""
    if source in PRESETS:
        return f"{FAIRTRIAL} config show {source} --name mine > mine.yaml   (edit it, then: {FAIRTRIAL} run mine.yaml)"
    return f"edit {source}, then: {FAIRTRIAL} run {source} --name another"
