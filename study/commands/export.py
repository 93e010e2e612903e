"""fairtrial export: a cell's trained network, for other programs."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer
import yaml

from search_spaces import pick
from study.commands import Studies, one_sentence, terminal
from study.config import StudyConfig, make
from study.preflight import tracking_uri
from study.sources import read_yaml


def export(
    study: Annotated[str, typer.Argument(help="the study's name")],
    cell: Annotated[str, typer.Argument(help="which cell, as `fairtrial plan` names it: triplet/fixed_validation")],
    seed: Annotated[int | None, typer.Option(help="which final trial; the first one if not given")] = None,
    to: Annotated[str | None, typer.Option("--to", help="the folder to write; STUDY/export/CELL if not given")] = None,
    studies: Studies = "studies",
) -> None:
    """Write the network of a cell's final trial as safetensors with its config, and as ONNX."""
    with one_sentence():
        config = _config(Path(studies), study)
        target = Path(to) if to else Path(studies, study, "export", cell.replace("/", "-").replace(":", "-"))
        size = _export(config, cell, seed, target)
    console = terminal()
    console.print(f"Exported  {target}  ({size} numbers per image)", soft_wrap=True, highlight=False)
    console.print("\n    from trainables import load_embedder", highlight=False)
    console.print(f"    embed = load_embedder({str(target)!r})", soft_wrap=True, highlight=False)
    console.print('    vectors = embed(["one.jpg", "two.jpg"])', highlight=False, markup=False)


def _config(studies: Path, name: str) -> StudyConfig:
    known = {path.parent.name: path for path in sorted(studies.glob("*/config.yaml"))}
    if not known:
        raise ValueError(f"{studies} holds no study. `fairtrial run quickstart` makes one.")
    return make({**read_yaml(pick(known, name, "study")), "studies": str(studies)})


def _export(config: StudyConfig, cell: str, seed: int | None, target: Path) -> int:
    """Numbers in a vector of the exported model."""
    from analysis.tracking import read_study
    from analysis.tracking.files import fetch
    from trainables.contract import BEST, TrialSpec
    from trainables.exporting import export as write

    uri = tracking_uri(config)
    finals = read_study(uri, config.name).finals
    own = finals[finals["role"] == "final"] if len(finals) else finals
    cells = {str(label): trials.set_index("seed")["run_id"] for label, trials in own.groupby("label")} if len(own) else {}
    if not cells:
        raise ValueError(f"No final trial of {config.name} has finished, so there is no network to export.")
    runs = pick(cells, cell, "cell").sort_index()
    if seed is not None and seed not in runs.index:
        raise ValueError(f"{cell} has no finished final trial of seed {seed}; it has {', '.join(map(str, runs.index))}.")
    with tempfile.TemporaryDirectory() as folder:
        files = fetch(uri, str(runs.iloc[0] if seed is None else runs[seed]), [BEST, "trial.yaml"], Path(folder))
        if len(files) < 2:
            raise ValueError(f"The final trial of {cell} left no {BEST} in the store; export needs it.")
        spec = TrialSpec.from_dict(yaml.safe_load(files["trial.yaml"].read_text()))
        return write(files[BEST], spec, target).size
