"""fairtrial report: the ranking of a study and its page, one of its tables, or a paper's."""

import json
from pathlib import Path
from typing import Annotated

import typer

from study.commands import Format, Json, Studies, config_of, one_sentence, read_rows, study_folder_of, terminal
from study.preflight import tracking_uri

TableName = Annotated[
    str | None, typer.Option("--table", metavar="NAME", help="only this table (`fairtrial list tables`); no page is written")
]
Published = Annotated[str | None, typer.Option("--published", metavar="PAPER", help="a paper's tables in place of a study's")]
Beside = Annotated[str | None, typer.Option("--beside", metavar="PAPER", help="with --table: published values and gaps beside ours")]


def report(
    study: Annotated[str | None, typer.Argument(help="the study's name; the newest if not given")] = None,
    studies: Studies = "studies",
    table: TableName = None,
    form: Format = "text",
    published: Published = None,
    beside: Beside = None,
    as_json: Json = False,
) -> None:
    """Print a study's ranking and write its HTML page, CSV and Markdown; or print one table in any format."""
    with one_sentence():
        _fits(table, form, published, beside)
    form = "json" if as_json else form
    if published:
        _paper(published, table, form)
    elif table:
        _table(Path(studies), study, table, form, beside)
    else:
        _page(Path(studies), study, as_json=as_json)


def _fits(table: str | None, form: str, published: str | None, beside: str | None) -> None:
    """What would be ignored is refused."""
    if beside and published:
        raise ValueError("--beside puts a paper's values beside a study's, but --published shows no study; leave one of them out.")
    if beside and not table:
        raise ValueError("--beside puts a paper's values beside one table of a study; name it with --table (`fairtrial list tables`).")
    if form != "text" and not (table or published):
        raise ValueError("--format writes one table; name it with --table (`fairtrial list tables`), or take --json for the ranking.")


def _paper(paper: str, table: str | None, form: str) -> None:
    from analysis.published import PAPERS, published_table
    from analysis.tables.writers import FORMATS, plain
    from search_spaces import pick

    with one_sentence():
        write = pick(FORMATS, form, "format")
        tables = [published_table(paper, name) for name in ([table] if table else pick(PAPERS, paper, "paper"))]
    if form == "json" and not table:
        print(json.dumps([plain(each) for each in tables], indent=1))
    else:
        print("\n".join(write(each) for each in tables), end="")


def _table(studies: Path, study: str | None, table: str, form: str, beside: str | None) -> None:
    from analysis.tables.catalogue import TABLES, Study, make_table
    from analysis.tables.writers import FORMATS
    from search_spaces import pick

    with one_sentence():
        write = pick(FORMATS, form, "format")
        pick(TABLES, table, "table")
        theirs = None
        if beside:
            from analysis.published import published_table

            theirs = published_table(beside, table)
        made = make_table(table, Study(read_rows(study_folder_of(studies, study))))
    if theirs:
        from analysis.tables.beside import with_published

        made = with_published(made, theirs, str(beside))
    print(write(made), end="")


def _page(studies: Path, study: str | None, *, as_json: bool) -> None:
    with one_sentence():
        folder = study_folder_of(studies, study)
        text = (folder / "config.yaml").read_text()
    from analysis.exports import ranking_json
    from analysis.page import write_page
    from study.audit import write_readings

    with one_sentence():
        uri = tracking_uri(config_of(folder))
        write_readings(folder)
        page, found = write_page(read_rows(folder), folder=folder, config_yaml=text, uri=uri)
    if as_json:
        print(json.dumps(ranking_json(found), indent=1))
        return
    from study.printing import print_rankings

    console = terminal()
    print_rankings(console, found)
    console.print(f"\nReport   {page}", soft_wrap=True, highlight=False)
