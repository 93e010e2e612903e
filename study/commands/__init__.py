"""One short module per verb. Here is what they share: the options of a study, and how errors end."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
import yaml
from rich.console import Console

from study.config import StudyConfig, make
from study.ledger import events
from study.preflight import PreflightError, tracking_uri
from study.sources import read_yaml
from trainables.disk import replace_text

if TYPE_CHECKING:
    from analysis.tracking import StudyRows

FAIRTRIAL = "uv run fairtrial" if "UV" in os.environ else "fairtrial"  # as the user must type it
BAD_INPUT, FAILED_TRIALS, NO_PLACE, INTERRUPTED = 2, 3, 4, 130

Source = Annotated[str, typer.Argument(metavar="PRESET|FILE", help="a preset (`fairtrial list presets`) or a .yaml file")]
Sets = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="change a value; may be given several times")]
Smoke = Annotated[bool, typer.Option("--smoke", help="the same study, tiny: every part of the road in one to two minutes")]
Name = Annotated[str | None, typer.Option("--name", help="the study's name, in place of its own")]
Studies = Annotated[str, typer.Option("--studies", help="the studies folder")]
Format = Annotated[str, typer.Option("--format", metavar="FORMAT", help="text, csv, markdown, latex, html or json")]
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


def agree(question: str) -> None:
    """Ends with exit 1 if the answer is no, and with 2 if nobody is there to answer."""
    try:
        agreed = typer.confirm(question)
    except typer.Abort:
        print(file=sys.stderr)
        end("Somebody must agree to this, but no answer came; say --yes.", BAD_INPUT)
    if not agreed:
        raise typer.Abort


def terminal() -> Console:
    """The terminal; wide enough for a table when the output goes to a file."""
    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, 120))


def study_folder_of(studies: Path, name: str | None) -> Path:
    """A study's folder by its name, or by its path; the newest without a name."""
    known = {path.parent.name: path.parent for path in sorted(studies.glob("[!.]*/config.yaml"), key=lambda path: path.stat().st_mtime)}
    if name in known:
        return known[name]
    if name and (Path(name) / "config.yaml").exists():
        return Path(name)
    if name is None and known:
        return list(known.values())[-1]
    there = f"It holds: {', '.join(sorted(known))}." if known else "`fairtrial run quickstart` makes one."
    raise ValueError(f"{studies} holds no study{f' {name!r}' if name else ''}. {there}")


def config_of(folder: Path) -> StudyConfig:
    """Of a study in the place where it is now."""
    return make({**read_yaml(kept_config(folder)), "studies": str(folder.parent)})


def kept_config(folder: Path) -> Path:
    """Its config.yaml; one that the power cut short is made again from the ledger, which has all but the place where a study runs."""
    path, told = folder / "config.yaml", events(folder)
    if told and not _is_whole(path, told[0]["config"]):
        kept = dict(told[0]["config"])
        for event in told:
            kept |= event.get("grows", {})
        replace_text(path, yaml.safe_dump(kept, sort_keys=False))
        print(f"fairtrial: {path} was broken and is made again from the ledger; tracking_uri and slots are not in it.", file=sys.stderr)
    return path


def _is_whole(path: Path, keys: Iterable[str]) -> bool:
    with suppress(OSError, ValueError):
        return path.read_text().endswith("\n") and set(keys) <= set(read_yaml(path))
    return False


def read_rows(folder: Path) -> "StudyRows":
    """All of a study, from the store that its config names."""
    config = config_of(folder)
    from analysis.tracking import read_study

    return read_study(tracking_uri(config), config.name)


def end(sentence: str, code: int) -> NoReturn:
    print("fairtrial: " + sentence.replace("`fairtrial ", f"`{FAIRTRIAL} "), file=sys.stderr)
    raise typer.Exit(code)
