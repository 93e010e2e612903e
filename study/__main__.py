"""The command line: finds the verb, nothing else."""

import typer

from study.commands import config, data, doctor, export, listing, plan, report, run, train, ui

app = typer.Typer(
    help="Which metric-learning loss is really better, once each one has been tuned fairly?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(run.run)
app.command("plan")(plan.plan)
app.command("train")(train.train)
app.command("list")(listing.show)
app.command("report")(report.report)
app.command("export")(export.export)
app.command("ui")(ui.ui)
app.command("doctor")(doctor.doctor)
app.add_typer(config.app, name="config")
app.add_typer(data.app, name="data")


def main() -> None:
    app(prog_name="fairtrial")


if __name__ == "__main__":
    main()
