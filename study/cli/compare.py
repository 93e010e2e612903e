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
    page: Annotated[
        bool, typer.Option("--page", help="write both side by side as a page; print its path")
    ] = False,
) -> None:
    """Print each loss's numbers in both studies, the difference with its interval, and what else is
    not equal.
    """
    from analysis.tables.compare import compare as compare_table
    from analysis.tables.writers import FORMATS
    from search_spaces import pick

    with one_sentence():
        write = pick(FORMATS, "json" if as_json else form, "format")
        if page and (as_json or form != "text"):
            raise ValueError("--page writes HTML with all numbers; leave --format and --json out.")
        folders = [find_study(Path(studies), name) for name in (first, second)]
        if folders[0].resolve() == folders[1].resolve():
            raise ValueError(
                f"compare needs two studies, but both names mean {folders[0].name}; name another "
                "one."
            )
        one, other = (read_rows(folder) for folder in folders)
        if page:
            from analysis.report.compare_page import write_compare_page

            file = folders[0].parent / f"{folders[0].name}-and-{folders[1].name}.html"
            print(write_compare_page(one, other, file))
            return
        made = compare_table(one, other)
    print(write(made), end="")
