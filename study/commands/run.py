"""fairtrial run: a whole study, then its ranking."""

import typer

from study.commands import FAILED_TRIALS, FAIRTRIAL, INTERRUPTED, Name, Sets, Smoke, Source, one_sentence
from study.preflight import check_place, study_folder
from study.sources import resolve


def run(source: Source, sets: Sets = [], smoke: Smoke = False, name: Name = None) -> None:  # noqa: B006
    """Run a study and print its ranking table."""
    with one_sentence():
        config = resolve(source, sets=sets, smoke=smoke, name=name).config
        study_folder(config)
        check_place(config)
    from rich.console import Console

    console = Console()
    console.print("Starting Ray and MLflow ...", style="dim")
    from analysis.report import write_report

    from analysis.tables import rankings
    from study.printing import print_rankings
    from study.run import config_yaml, run_study

    done = run_study(config)
    if done.interrupted:
        console.print(f"Interrupted. What was measured is in MLflow: {FAIRTRIAL} ui")
        raise typer.Exit(INTERRUPTED)
    print_rankings(console, rankings(done.tracking_uri, config.name))
    page = write_report(done.tracking_uri, config.name, done.folder, config_yaml(config))
    console.print(f"\nReport   {page}", soft_wrap=True, highlight=False)
    console.print(f"Trials   {FAIRTRIAL} ui", highlight=False)
    console.print(
        f"Next     {FAIRTRIAL} config show {source} > my-study.yaml   (edit it, then: {FAIRTRIAL} run my-study.yaml)",
        highlight=False,
        soft_wrap=True,
    )
    if done.failed:
        console.print(
            f"{done.failed} of {done.trials} trials failed; their runs are FAILED in MLflow and their errors in {done.folder / 'ray'}."
        )
        raise typer.Exit(FAILED_TRIALS)
