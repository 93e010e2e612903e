"""fairtrial export: write a cell's trained network for other programs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from search_spaces import pick
from study.cli.terminal import Studies, one_sentence, read_rows, terminal
from study.driver.folder import find_study
from trainables.contract import BEST, TrialSpec

if TYPE_CHECKING:
    from trainables.outputs.embedder import Embedder


def export(
    study: Annotated[str, typer.Argument(help="the study's name")],
    cell: Annotated[
        str,
        typer.Argument(help="which cell, as `fairtrial plan` names it: triplet/fixed_validation"),
    ],
    seed: Annotated[
        int | None, typer.Option(help="which final trial; the first one if not given")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", help="the folder to write; STUDY/export/CELL if not given")
    ] = None,
    studies: Studies = "studies",
) -> None:
    """Write the network of a cell's final trial as safetensors with its config, and as ONNX."""
    with one_sentence():
        folder = find_study(Path(studies), study)
        below = cell.replace("/", "-").replace(":", "-")
        target = Path(to) if to else folder / "export" / below
        embedder = _export(folder, cell, seed, target)
    console = terminal()
    example = "features" if embedder.features else '["one.jpg", "two.jpg"]'
    per = f"vector of {embedder.features}" if embedder.features else "image"
    console.print(
        f"Exported  {target}  ({embedder.size} numbers per {per})", soft_wrap=True, highlight=False
    )
    console.print("\n    from trainables import load_embedder", highlight=False)
    console.print(f"    embed = load_embedder({str(target)!r})", soft_wrap=True, highlight=False)
    console.print(f"    vectors = embed({example})", highlight=False, markup=False)


def _export(folder: Path, cell: str, seed: int | None, target: Path) -> "Embedder":
    """Write the files, and return the exported model."""
    from trainables.outputs.exporting import export_model

    rows = read_rows(folder)
    finals = rows.finals
    own = finals[finals["role"] == "final"] if len(finals) else finals
    cells = (
        {str(label): trials.set_index("seed")["run_id"] for label, trials in own.groupby("label")}
        if len(own)
        else {}
    )
    if not cells:
        raise ValueError(
            f"No final trial of {rows.name} has finished, so there is no network to export."
        )
    runs = pick(cells, cell, "cell").sort_index()
    if seed is not None and seed not in runs.index:
        raise ValueError(
            f"{cell} has no finished final trial of seed {seed}; it has "
            f"{', '.join(map(str, runs.index))}."
        )
    run = str(runs.iloc[0] if seed is None else runs[seed])
    weights = rows.fetch(run, BEST)
    if weights is None:
        raise ValueError(f"The final trial of {cell} left no {BEST}; export needs it.")
    return export_model(weights, TrialSpec.from_dict(rows.spec(run)), target)
