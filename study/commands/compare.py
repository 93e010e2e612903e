"""fairtrial compare: two studies side by side, paired where they share their test classes."""

from pathlib import Path
from typing import Annotated

import typer

from study.commands import Format, Json, Studies, one_sentence, read_rows, study_folder_of


def compare(
    first: Annotated[str, typer.Argument(metavar="STUDY", help="a study's name, or its folder")],
    second: Annotated[str, typer.Argument(metavar="STUDY", help="the one that is held against it")],
    studies: Studies = "studies",
    form: Format = "text",
    as_json: Json = False,
) -> None:
    """Each loss's numbers in both studies, the difference with its interval, and what else is not equal."""
    from analysis.tables.compare import compare as table
    from analysis.tables.writers import FORMATS
    from search_spaces import pick

    with one_sentence():
        write = pick(FORMATS, "json" if as_json else form, "format")
        folders = [study_folder_of(Path(studies), name) for name in (first, second)]
        if folders[0].resolve() == folders[1].resolve():
            raise ValueError(f"Two studies are compared, but both names are {folders[0].name}; name another one.")
        made = table(*(read_rows(folder) for folder in folders))
    print(write(made), end="")
