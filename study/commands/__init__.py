"""One short module per verb. Here is what they share: the options of a study, and how errors end."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from study.preflight import PreflightError

FAIRTRIAL = "uv run fairtrial" if "UV" in os.environ else "fairtrial"  # as the user must type it
BAD_INPUT, FAILED_TRIALS, NO_PLACE, INTERRUPTED = 2, 3, 4, 130

Source = Annotated[str, typer.Argument(metavar="PRESET|FILE", help="a preset (`fairtrial list presets`) or a .yaml file")]
Sets = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="change a value; may be given several times")]
Smoke = Annotated[bool, typer.Option("--smoke", help="the same study, tiny: every part of the road in one to two minutes")]
Name = Annotated[str | None, typer.Option("--name", help="the study's name, in place of its own")]
Studies = Annotated[str, typer.Option("--studies", help="the studies folder")]
Json = Annotated[bool, typer.Option("--json", help="for programs")]


@contextmanager
def one_sentence() -> Iterator[None]:
    """Bad input ends with exit 2, a place that cannot run a study with 4: one sentence, no traceback."""
    try:
        yield
    except (PreflightError, ConnectionError) as error:  # ConnectionError: MLflow, or no network
        end(str(error), NO_PLACE)
    except OSError as error:  # no room, no permission
        end(f"{error.filename}: {error.strerror}." if error.filename else str(error), NO_PLACE)
    except ValueError as error:
        end(str(error), BAD_INPUT)


def terminal() -> Console:
    """The terminal; wide enough for a table when the output goes to a file."""
    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, 120))


def end(sentence: str, code: int) -> NoReturn:
    print("fairtrial: " + sentence.replace("`fairtrial ", f"`{FAIRTRIAL} "), file=sys.stderr)
    raise typer.Exit(code)
