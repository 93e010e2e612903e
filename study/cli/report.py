"""fairtrial report: print a study's ranking and write its page, or show one table or figure."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from study.cli.terminal import (
    Format,
    Json,
    Studies,
    one_sentence,
    read_rows,
    terminal,
)
from study.driver.folder import CONFIG, config_of, find_study, tracking_uri, write_readings

TableOption = Annotated[
    str | None,
    typer.Option(
        "--table",
        metavar="NAME",
        help="only this table (`fairtrial list tables`); no page is written",
    ),
]
FigureOption = Annotated[
    str | None,
    typer.Option(
        "--figure",
        metavar="NAME",
        help="only this figure (`fairtrial list figures`), as SVG and PNG; no page",
    ),
]
PublishedOption = Annotated[
    str | None,
    typer.Option(
        "--published", metavar="PAPER", help="a paper's tables or figures in place of a study's"
    ),
]
BesideOption = Annotated[
    str | None,
    typer.Option(
        "--beside", metavar="PAPER", help="with --table: published values and gaps beside ours"
    ),
]

LossOption = Annotated[
    list[str],
    typer.Option(
        "--loss",
        metavar="NAME",
        help="with --figure: maps of this loss in place of the first; repeat it; all: of every one",
    ),
]
DatasetOption = Annotated[
    str | None,
    typer.Option("--dataset", metavar="NAME", help="with --table: only the cells of this dataset"),
]

# Another program, such as --cluster, reads the page's path off the last line.
PathOption = Annotated[bool, typer.Option("--print-path", hidden=True)]


def report(
    study: Annotated[
        str | None, typer.Argument(help="the study's name; the newest by default")
    ] = None,
    studies: Studies = "studies",
    table: TableOption = None,
    figure: FigureOption = None,
    form: Format = "text",
    published: PublishedOption = None,
    beside: BesideOption = None,
    dataset: DatasetOption = None,
    losses: LossOption = [],  # noqa: B006
    as_json: Json = False,
    print_path: PathOption = False,
) -> None:
    """Print a study's ranking and write its HTML page, CSV and Markdown; or print one table in any
    format; or write one figure.

    --json prints the ranking for programs and writes no page.
    """
    with one_sentence():
        _check(table, figure, form=form, published=published, beside=beside)
        if dataset and (published or not table):
            raise ValueError(
                "--dataset is for one table of a study; name it with --table (`fairtrial list "
                "tables`), without --published."
            )
        if losses and (published or not figure):
            raise ValueError(
                "--loss is for maps of a study; name one with --figure (`fairtrial list figures`), "
                "without --published."
            )
    form = "json" if as_json else form
    if figure:
        _figure(Path(studies), study, figure, published, losses=losses)
    elif published:
        _paper(published, table, form)
    elif table:
        _table(Path(studies), study, table, form, beside=beside, dataset=dataset)
    elif as_json:
        _ranking(Path(studies), study)
    else:
        _page(Path(studies), study, print_path=print_path)


def _check(
    table: str | None, figure: str | None, *, form: str, published: str | None, beside: str | None
) -> None:
    """Refuse options that would be ignored."""
    if table and figure:
        raise ValueError("A report shows one --table or one --figure, but got both; leave one out.")
    if beside and published:
        raise ValueError(
            "--beside puts a paper's values beside a study's, but --published shows no study; "
            "leave one of them out."
        )
    if beside and not table:
        raise ValueError(
            "--beside puts a paper's values beside one table of a study; name it with --table "
            "(`fairtrial list tables`)."
        )
    if form != "text" and not (table or published):
        raise ValueError(
            "--format writes one table; name it with --table (`fairtrial list tables`), or take "
            "--json for the ranking."
        )


def _paper(paper: str, table: str | None, form: str) -> None:
    from analysis.published import PAPERS, published_table
    from analysis.tables.writers import FORMATS, plain
    from search_spaces import pick

    with one_sentence():
        write = pick(FORMATS, form, "format")
        tables = [
            published_table(paper, name)
            for name in ([table] if table else pick(PAPERS, paper, "paper"))
        ]
    if form == "json" and not table:
        print(json.dumps([plain(each) for each in tables], indent=1))
    else:
        print("\n".join(write(each) for each in tables), end="")


def _table(
    studies: Path,
    study: str | None,
    table: str,
    form: str,
    *,
    beside: str | None,
    dataset: str | None,
) -> None:
    from analysis import open_study
    from analysis.tables.catalogue import TABLES
    from analysis.tables.writers import FORMATS
    from search_spaces import pick

    with one_sentence():
        write = pick(FORMATS, form, "format")
        pick(TABLES, table, "table")
        theirs = None
        if beside:
            from analysis.published import published_table

            theirs = published_table(beside, table)
        whole = open_study(find_study(studies, study))
        made = (whole.only(dataset) if dataset else whole).table(table).table
    if theirs:
        from analysis.tables.with_published import with_published

        made = with_published(made, theirs, str(beside))
    print(write(made), end="")


def _figure(
    studies: Path, study: str | None, name: str, paper: str | None, *, losses: Sequence[str]
) -> None:
    """Write into the study's figures folder, or into figures/PAPER here."""
    from analysis import open_study
    from analysis.figures.catalogue import FIGURES
    from analysis.opened import FigureView
    from analysis.report.report import FOLDER
    from search_spaces import pick

    with one_sentence():
        if paper:
            from analysis.published.paper_figures import published_figure

            drawn = FigureView(name, tuple(published_figure(paper, name)))
            folder = Path("figures") / paper
        else:
            pick(FIGURES, name, "figure")  # a typo costs a second
            home = find_study(studies, study)
            drawn, folder = open_study(home).figure(name, losses=losses), home / FOLDER
        written = drawn.save(folder)
    print("\n".join(map(str, written)) or drawn)


def _ranking(studies: Path, study: str | None) -> None:
    from analysis.ranking.decomposition import plain
    from analysis.ranking.ranking import rankings

    with one_sentence():
        found = rankings(read_rows(find_study(studies, study)))
    print(json.dumps([plain(ranking) for ranking in found], indent=1))


def _page(studies: Path, study: str | None, *, print_path: bool) -> None:
    with one_sentence():
        folder = find_study(studies, study)
        config = config_of(folder)
        text = (folder / CONFIG).read_text()
    from analysis.record.ledger import LedgerReader
    from analysis.record.state import StudyState
    from analysis.report.page import keep_page, write_page
    from study.cli.print_ranking import print_rankings

    with one_sentence():
        write_readings(folder, StudyState(LedgerReader(folder).read()))
        rows = read_rows(folder)
        written = write_page(rows, folder=folder, config_yaml=text)
        missed = keep_page(tracking_uri(config), rows.name, written, folder)
    console = terminal()
    print_rankings(console, written.rankings, study=folder, fairness=written.fairness)
    console.print()
    if print_path:
        print(written.files[0])
    else:
        console.print(f"Report   {written.files[0]}", soft_wrap=True, highlight=False)
    if missed:
        console.print(missed, style="yellow", soft_wrap=True, highlight=False, markup=False)
