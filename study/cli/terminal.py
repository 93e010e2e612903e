"""Share between verbs the options of a study, and how errors end."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console

from analysis.record.commands import command
from study.errors import BAD_INPUT, NO_PLACE, PreflightError

if TYPE_CHECKING:
    from analysis.record.frames import StudyRows

FAIRTRIAL = "uv run fairtrial" if "UV" in os.environ else "fairtrial"  # as the user must type it


def typed(words: str, studies: str | Path) -> str:
    """Return a command as the user must type it; see command()."""
    return command(words, studies).replace("fairtrial", FAIRTRIAL, 1)


Source = Annotated[
    str,
    typer.Argument(
        metavar="PRESET|FILE", help="a preset (`fairtrial list presets`) or a .yaml file"
    ),
]
Sets = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="change a value; repeatable"),
]
Smoke = Annotated[
    bool,
    typer.Option(
        "--smoke", help="the same study, tiny: every part of the road in one to two minutes"
    ),
]
Name = Annotated[str | None, typer.Option("--name", help="the study's name, in place of its own")]
Studies = Annotated[str, typer.Option("--studies", help="the studies folder")]
Format = Annotated[
    str, typer.Option("--format", metavar="FORMAT", help="text, csv, markdown, latex, html or json")
]
Json = Annotated[bool, typer.Option("--json", help="for programs")]


@contextmanager
def one_sentence() -> Iterator[None]:
    """Turn errors into one sentence without a traceback.

    Bad input exits with 2; a machine or cluster that cannot run a study, with 4.
    """
    try:
        yield
    except (PreflightError, ConnectionError) as error:  # ConnectionError: MLflow, or no network
        end(str(error), NO_PLACE)
    except OSError as error:  # no space, no permission
        end(f"{error.filename}: {error.strerror}." if error.filename else str(error), NO_PLACE)
    except ValueError as error:
        end(str(error), BAD_INPUT)


def agree(question: str) -> None:
    """Ask for confirmation; exit with 1 if the answer is no, with 2 if there is no terminal."""
    try:
        agreed = typer.confirm(question)
    except typer.Abort:
        print(file=sys.stderr)
        end("Confirmation required, but there is no terminal to ask; pass --yes.", BAD_INPUT)
    if not agreed:
        raise typer.Abort


def terminal() -> Console:
    """Return the terminal; wide enough for a table when the output goes to a file.

    Markup is off, because Rich would take a list such as [recall_at_1] for a style and drop it.
    """
    console = Console(markup=False)
    return console if console.is_terminal else Console(width=max(console.width, 120), markup=False)


def size_text(count: int) -> str:
    """Return a number of bytes for people, as in 24 MB."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.{1 if count < 10 * unit or name == 'GB' else 0}f} {name}"
    return f"{count} bytes"


def read_rows(folder: Path) -> "StudyRows":
    """Return a study's frames from its record."""
    from analysis import read_study

    return read_study(folder)


def end(sentence: str, code: int) -> NoReturn:
    """Print the sentence to stderr, and exit with this code."""
    print("fairtrial: " + sentence.replace("`fairtrial ", f"`{FAIRTRIAL} "), file=sys.stderr)
    raise typer.Exit(code)
