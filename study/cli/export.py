"""fairtrial export: write a network, or the whole study, for other programs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Console

from search_spaces import pick
from study.cli.terminal import Studies, one_sentence, read_rows, terminal
from study.driver.folder import config_of, find_study, tracking_uri
from trainables.contract import BEST, TrialSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from analysis.record.frames import StudyRows
    from trainables.outputs.embedder import Embedder

T = TypeVar("T")


def export(
    study: Annotated[str, typer.Argument(help="the study's name")],
    cell: Annotated[
        str | None,
        typer.Argument(
            help="whose network: a cell as `fairtrial plan` names it, as in "
            "triplet/fixed_validation, or a loss"
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="which final trial; the first one by default")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", help="the folder to write; STUDY/export/CELL by default")
    ] = None,
    register: Annotated[
        bool,
        typer.Option(
            "--register",
            help="put the network into MLflow's model registry; without a cell, that of the loss "
            "that ranks first: its best replicate by validation",
        ),
    ] = False,
    optuna: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="write every search as an Optuna study, as to sqlite:///optuna.db"
        ),
    ] = None,
    tensorboard: Annotated[
        str | None, typer.Option(metavar="DIR", help="write every trial's curves as event files")
    ] = None,
    parquet: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="write trials, curves and queries as Parquet files"),
    ] = None,
    studies: Studies = "studies",
) -> None:
    """Write the network of a cell's final trial as safetensors with its config, and as ONNX; or the
    whole study for Optuna, TensorBoard or pandas.
    """
    console = terminal()
    with one_sentence():
        if not (cell or register or optuna or tensorboard or parquet):
            raise ValueError(
                "An export needs a cell, whose network it writes, or one of --register, --optuna, "
                f"--tensorboard and --parquet; `fairtrial plan {study}` lists cells."
            )
        folder = find_study(Path(studies), study)
        rows = read_rows(folder)
        run = _final_trial(rows, cell, seed) if cell else ""
        if cell and not (register and to is None):
            _write_network(console, rows, run, folder, cell, to)
        if register:
            _register(console, rows, run, tracking_uri(config_of(folder)))
        _write_study(console, rows, optuna=optuna, tensorboard=tensorboard, parquet=parquet)


def _write_network(
    console: Console, rows: "StudyRows", run: str, folder: Path, cell: str, to: str | None
) -> None:
    below = cell.replace("/", "-").replace(":", "-")
    target = Path(to) if to else folder / "export" / below
    embedder = _export(rows, run, target)
    example = "features" if embedder.features else '["one.jpg", "two.jpg"]'
    per = f"vector of {embedder.features}" if embedder.features else "image"
    trial = rows.trials.set_index("run_id").loc[run]
    if trial["peeks"]:
        console.print(
            f"{trial['label']} chose its epoch on the test classes: do not report its scores.",
            style="yellow",
            highlight=False,
        )
    console.print(
        f"Exported  {target}  ({embedder.size} numbers per {per})", soft_wrap=True, highlight=False
    )
    console.print("\n    from trainables import load_embedder", highlight=False)
    console.print(f"    embed = load_embedder({str(target)!r})", soft_wrap=True, highlight=False)
    console.print(f"    vectors = embed({example})", highlight=False, markup=False)


def _final_trial(rows: "StudyRows", cell: str, seed: int | None) -> str:
    """Return a final trial of a cell that the user named, whole or by its loss alone."""
    finals = rows.finals
    own = finals[finals["role"] == "final"] if len(finals) else finals
    if not len(own):
        raise ValueError(
            f"No final trial of {rows.name} has finished, so there is no network to export."
        )
    cells = {
        str(label): trials.set_index("seed")["run_id"] for label, trials in own.groupby("label")
    }
    honest = own[~own["peeks"].astype(bool)]
    losses = {str(label): str(loss) for label, loss in honest.set_index("label")["loss"].items()}
    runs = _pick(cells, losses, cell).sort_index()
    if seed is not None and seed not in runs.index:
        raise ValueError(
            f"{cell} has no finished final trial of seed {seed}; it has "
            f"{', '.join(map(str, runs.index))}."
        )
    return str(runs.iloc[0] if seed is None else runs[seed])


def _pick(cells: "Mapping[str, T]", honest: "Mapping[str, str]", name: str) -> "T":
    """Return the cell of this name; of a loss's name, its only cell that did not choose on test.

    honest: the loss of each such cell. No other is suggested, unless there are no such cells.
    """
    of_loss = [label for label, loss in honest.items() if loss == name]
    if name in cells:
        return cells[name]
    if len(of_loss) == 1:
        return cells[of_loss[0]]
    if of_loss:
        raise ValueError(f"{name} has several cells; name one of {', '.join(of_loss)}.")
    return pick({label: cells[label] for label in honest or cells}, name, "cell")


def _export(rows: "StudyRows", run: str, target: Path) -> "Embedder":
    """Write the files, and return the exported model."""
    from trainables.outputs.exporting import export_model

    weights = rows.fetch(run, BEST)
    if weights is None:
        raise ValueError(f"The final trial {run} left no {BEST}; export needs it.")
    return export_model(weights, TrialSpec.from_dict(rows.spec(run)), target)


def _register(console: Console, rows: "StudyRows", run: str, uri: str) -> None:
    from analysis.tracking.models import WINNER, register

    found = register(uri, rows, run or _winner(rows))
    console.print(
        f"{'Registered' if found.new else 'Already registered'}  {found.name}, version "
        f"{found.version}, in {uri}",
        soft_wrap=True,
        highlight=False,
    )
    console.print(
        f"\n    import mlflow\n    mlflow.set_tracking_uri({uri!r})\n"
        f'    model = mlflow.pyfunc.load_model("models:/{found.name}@{WINNER}")\n'
        f'    vectors = model.predict(images)["embeddings"]',
        soft_wrap=True,
        highlight=False,
        markup=False,
    )


def _winner(rows: "StudyRows") -> str:
    """Return the best replicate by validation of the loss that ranks first."""
    from analysis.ranking.ranking import rankings
    from analysis.tracking.models import networks

    found = [each for each in rankings(rows) if any(row.rank for row in each.rows)]
    if len(found) != 1:
        raise ValueError(
            f"--register without a cell needs one ranking, but {rows.name} has {len(found)}; name "
            "a cell."
        )
    (ranking,) = found
    first = next(row.loss for row in ranking.rows if row.rank == 1)
    best = rows.trials.set_index("run_id").loc[networks(rows, "best")]
    return str(best.index[best["loss"] == first][0])


def _write_study(
    console: Console,
    rows: "StudyRows",
    *,
    optuna: str | None,
    tensorboard: str | None,
    parquet: str | None,
) -> None:
    """Write the whole study for the programs that were asked for, and say how to open each."""
    if optuna:
        from analysis.bridges.optuna_studies import write_optuna

        names = write_optuna(rows, optuna)
        _said(console, f"{len(names)} Optuna studies in {optuna}", f"optuna-dashboard {optuna}")
    if tensorboard:
        from analysis.bridges.tensorboard_events import write_tensorboard

        count = write_tensorboard(rows, Path(tensorboard))
        opens = f"tensorboard --logdir {tensorboard}"
        _said(console, f"event files of {count} trials in {tensorboard}", opens)
    if parquet:
        from analysis.bridges.parquet_frames import write_parquet

        files = write_parquet(rows, Path(parquet))
        opens = f"pandas.read_parquet({str(files[0])!r})"
        _said(console, f"{', '.join(file.name for file in files)} in {parquet}", opens)


def _said(console: Console, what: str, opens: str) -> None:
    console.print(f"Exported  {what}\n\n    {opens}", soft_wrap=True, highlight=False, markup=False)
