"""fairtrial compare: compare two studies, paired where they share their test classes."""

from pathlib import Path
from typing import Annotated

import typer

from study.cli.terminal import Format, Json, Studies, one_sentence, read_rows
from study.driver.folder import find_study


def compare(
    first: Annotated[str, typer.Argument(metavar="STUDY", help="a study's name, or its folder")],
    second: Annotated[str, typer.Argument(metavar="STUDY", help="the study to compare it with")],
    studies: Studies = "studies",
    form: Format = "text",
    as_json: Json = False,
) -> None:
    """Print each loss's numbers in both studies, the difference with its interval, and what else is
    not equal.
    """
    from analysis.tables.compare import compare as compare_table
    from analysis.tables.writers import FORMATS
    from search_spaces import pick

    with one_sentence():
        write = pick(FORMATS, "json" if as_json else form, "format")
        folders = [find_study(Path(studies), name) for name in (first, second)]
        if folders[0].resolve() == folders[1].resolve():
            raise ValueError(
                f"compare needs two studies, but both names mean {folders[0].name}; name another "
                "one."
            )
        made = compare_table(*(read_rows(folder) for folder in folders))
    print(write(made), end="")
