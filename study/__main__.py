"""Find the verb of the command line, and nothing else."""

import os
from importlib.metadata import version
from typing import Annotated

import typer

from study.cli import (
    audit,
    compare,
    config,
    data,
    doctor,
    ending,
    export,
    listing,
    plan,
    repair,
    report,
    run,
    status,
    submit,
    train,
    ui,
)
from study.cli.remote import or_there

if (
    "RAY_ADDRESS" not in os.environ
):  # Ray will be ours: it listens on this machine's loopback alone, as it does on a Mac
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")

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
def fairtrial(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell, is_eager=True, help="which one this is")
    ] = False,
) -> None:
    pass


app.command("run")(run.run)
app.command("submit")(submit.submit)
app.command("plan")(plan.plan)
app.command("train")(train.train)
app.command("list")(listing.show)
app.command("report")(or_there(report.report))
app.command("compare")(compare.compare)
app.command("audit")(audit.audit)
app.command("status")(or_there(status.status))
app.command("stop")(or_there(ending.stop))
app.command("cancel")(or_there(ending.cancel))
app.command("delete")(ending.delete)
app.command("reap")(ending.reap)
app.command("repair")(repair.repair)
app.command("export")(export.export)
app.command("ui")(ui.ui)
app.command("doctor")(doctor.doctor)
app.add_typer(config.app, name="config")
app.add_typer(data.app, name="data")


def main() -> None:
    app(prog_name="fairtrial")


if __name__ == "__main__":
    main()
