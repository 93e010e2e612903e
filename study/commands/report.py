"""fairtrial report: the ranking of a study and its page, one of its tables or figures, or a paper's."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from study.commands import Format, Json, Studies, config_of, one_sentence, read_rows, study_folder_of, terminal
from study.preflight import tracking_uri

if TYPE_CHECKING:
    from analysis.figures.catalogue import Picture

TableName = Annotated[
    str | None, typer.Option("--table", metavar="NAME", help="only this table (`fairtrial list tables`); no page is written")
]
FigureName = Annotated[
    str | None,
    typer.Option("--figure", metavar="NAME", help="only this figure (`fairtrial list figures`), as SVG and PNG; no page"),
]
Published = Annotated[str | None, typer.Option("--published", metavar="PAPER", help="a paper's tables or figures in place of a study's")]
Beside = Annotated[str | None, typer.Option("--beside", metavar="PAPER", help="with --table: published values and gaps beside ours")]


def report(
    study: Annotated[str | None, typer.Argument(help="the study's name; the newest if not given")] = None,
    studies: Studies = "studies",
    table: TableName = None,
    figure: FigureName = None,
    form: Format = "text",
    published: Published = None,
    beside: Beside = None,
    as_json: Json = False,
) -> None:
    """Print a study's ranking and write its HTML page, CSV and Markdown; or print one table in any format; or write one figure.

    --json: the ranking for programs; no page is written.
    """
    with one_sentence():
        _fits(table, figure, form=form, published=published, beside=beside)
    form = "json" if as_json else form
    if figure:
        _figure(Path(studies), study, figure, published)
    elif published:
        _paper(published, table, form)
    elif table:
        _table(Path(studies), study, table, form, beside)
    elif as_json:
        _ranking(Path(studies), study)
    else:
        _page(Path(studies), study)


def _fits(table: str | None, figure: str | None, *, form: str, published: str | None, beside: str | None) -> None:
    """What would be ignored is refused."""
    if table and figure:
        raise ValueError("A report is of one --table or of one --figure, but got both; leave one out.")
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


def _figure(studies: Path, study: str | None, name: str, paper: str | None) -> None:
    """Into the figures folder of the study, or of the paper below this one."""
    with one_sentence():
        if paper:
            from analysis.published.drawn import published_figure

            pictures, folder = published_figure(paper, name), Path("figures") / paper
        else:
            pictures, folder = _drawn(study_folder_of(studies, study), name)
        written = [path for picture in pictures for path in picture.drawing.save(folder)]
    for path in written:
        print(path)
    if not pictures:
        print(f"There is nothing to draw in {name} yet.")


def _drawn(home: Path, name: str) -> "tuple[list[Picture], Path]":
    from analysis.figures.catalogue import FIGURES, Source, draw
    from analysis.report import CACHE, FOLDER
    from analysis.tables.catalogue import Study
    from search_spaces import pick

    pick(FIGURES, name, "figure")  # a typo costs a second
    source = Source(Study(read_rows(home)), config_of(home).select_metric, cache=home / CACHE)
    return draw(name, source), home / FOLDER


def _ranking(studies: Path, study: str | None) -> None:
    from analysis.exports import ranking_json
    from analysis.tables import rankings

    with one_sentence():
        found = rankings(read_rows(study_folder_of(studies, study)))
    print(json.dumps(ranking_json(found), indent=1))


def _page(studies: Path, study: str | None) -> None:
    with one_sentence():
        folder = study_folder_of(studies, study)
        text = (folder / "config.yaml").read_text()
    from analysis.page import write_page
    from study.audit import write_readings
    from study.printing import print_rankings

    with one_sentence():
        uri = tracking_uri(config_of(folder))
        write_readings(folder)
        page, found = write_page(read_rows(folder), folder=folder, config_yaml=text, uri=uri)
    console = terminal()
    print_rankings(console, found)
    console.print(f"\nReport   {page}", soft_wrap=True, highlight=False)
