"""Show what the notebooks show in a shell, as in python -m analysis.scripts.ranking quickstart."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from analysis import open_study
from analysis.opened import FigureView, OpenedStudy

Part = Callable[[OpenedStudy], Any]


def show(*parts: Part) -> None:
    """Print these parts of the study that the command line names, and write those that are figures.

    What is wrong ends with one sentence.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("study", help="its name or its folder")
    parser.add_argument("--store", metavar="URI", help="read it from this MLflow store")
    parser.add_argument("--to", default="figures", type=Path, help="folder of figures: figures")
    asked = parser.parse_args()
    try:
        study = open_study(asked.study, uri=asked.store)
        for part in parts:
            shown = part(study)
            files = shown.save(asked.to) if isinstance(shown, FigureView) else []
            print(*(files or [shown]), sep="\n", end="\n\n")
    except (ValueError, ConnectionError) as error:
        parser.exit(2, f"{error}\n")
