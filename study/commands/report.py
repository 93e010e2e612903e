"""fairtrial report: the ranking of a study, and its page."""

import json
from pathlib import Path
from typing import Annotated

import typer

from study.commands import Json, Studies, one_sentence, terminal
from study.config import make
from study.preflight import tracking_uri
from study.sources import read_yaml


def report(
    study: Annotated[str | None, typer.Argument(help="the study's name; the newest if not given")] = None,
    studies: Studies = "studies",
    as_json: Json = False,
) -> None:
    """Print a study's ranking and write its HTML page, CSV and Markdown."""
    with one_sentence():
        folder = _folder(Path(studies), study)
        text = (folder / "config.yaml").read_text()
        config = make({**read_yaml(folder / "config.yaml"), "studies": studies})
    from analysis.exports import ranking_json
    from analysis.report import write_report
    from analysis.tables import rankings
    from analysis.tracking import read_study

    with one_sentence():
        rows = read_study(tracking_uri(config), config.name)
        found = rankings(rows)
        page = write_report(rows, found, folder=folder, config_yaml=text)
    if as_json:
        print(json.dumps(ranking_json(found), indent=1))
        return
    from study.printing import print_rankings

    console = terminal()
    print_rankings(console, found)
    console.print(f"\nReport   {page}", soft_wrap=True, highlight=False)


def _folder(studies: Path, name: str | None) -> Path:
    known = {path.parent.name: path.parent for path in sorted(studies.glob("*/config.yaml"), key=lambda path: path.stat().st_mtime)}
    if name in known:
        return known[name]
    if name is None and known:
        return list(known.values())[-1]
    there = f"It holds: {', '.join(sorted(known))}." if known else "`fairtrial run quickstart` makes one."
    raise ValueError(f"{studies} holds no study{f' {name!r}' if name else ''}. {there}")
