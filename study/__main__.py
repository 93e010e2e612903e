"""The command line: finds the verb, nothing else."""

from importlib.metadata import version
from typing import Annotated

import typer

from study.commands import config, data, doctor, listing, plan, report, run, train, ui

app = typer.Typer(
    help="Which metric-learning loss is really better, once each one has been tuned fairly?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _tell(asked: bool) -> None:
    if asked:
        print(f"fairtrial {version('fairtrial')}")
        raise typer.Exit


@app.callback()
def fairtrial(version: Annotated[bool, typer.Option("--version", callback=_tell, is_eager=True, help="which one this is")] = False) -> None:
    pass


app.command("run")(run.run)
app.command("plan")(plan.plan)
app.command("train")(train.train)
app.command("list")(listing.show)
app.command("report")(report.report)
app.command("ui")(ui.ui)
app.command("doctor")(doctor.doctor)
app.add_typer(config.app, name="config")
app.add_typer(data.app, name="data")


def main() -> None:
    app(prog_name="fairtrial")


if __name__ == "__main__":
    main()
