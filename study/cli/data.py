"""fairtrial data: prepare a dataset, check its images, draw a contact sheet, list caches."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from search_spaces import pick
from study.cli.cache import cache
from study.cli.terminal import FAIRTRIAL, end, one_sentence, size_text, terminal
from study.config.study_config import StudyConfig
from study.errors import INTERRUPTED
from trainables import fetch
from trainables.contract import DatasetRef
from trainables.datasets.catalogue import DATASETS
from trainables.datasets.indexing import Index, index
from trainables.datasets.official import preparing

BROKEN = 3
SHOWN = 10  # lines of a list; the rest is counted
PICTURES = (".jpg", ".jpeg", ".png")

Name = Annotated[str, typer.Argument(metavar="NAME", help="a dataset (`fairtrial list datasets`)")]
Root = Annotated[
    str | None,
    typer.Option(metavar="PATH", help="image_folder: the folder; csv: the file; features: either"),
]

app = typer.Typer(
    help="Prepare a dataset, check it, draw a contact sheet, list what this machine caches.",
    no_args_is_help=True,
)
app.command("cache")(cache)


@app.command("prepare")
def prepare(
    name: Name,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="PATH", help="an archive or folder that you already have"),
    ] = None,
) -> None:
    """Download a dataset or take what you have; recognise its layout, count it, and record the hash
    of every image.
    """
    with one_sentence():
        pick(DATASETS, name, "dataset")
        again = source is None and preparing.is_prepared(name)
        if not again:
            try:
                with _stages() as stages:
                    preparing.prepare_dataset(name, source.expanduser() if source else None, stages)
            except KeyboardInterrupt:
                end("Interrupted; the same command resumes.", INTERRUPTED)
        found = index(DatasetRef(name))
    _lines(
        terminal(),
        (name, f"{'was prepared before' if again else 'is ready'}: {_counts(found)}."),
        ("where", str(found.root)),
        ("next", f"{FAIRTRIAL} data check {name}"),
    )


@app.command("check")
def check(name: Name, root: Root = None) -> None:
    """Decode every image once, and keep the pixels for studies; list broken ones and how to leave
    them out. Exit 3 if there are any. Of features, measure every vector.
    """
    from trainables.datasets import checking
    from trainables.datasets.decode import leave_out

    if name in DATASETS and not DATASETS[name].channels:
        _check_vectors(name, root)
        return
    ref, side = DatasetRef(name, root), StudyConfig.model_fields["cache_size"].default
    with one_sentence(), _stages() as stages:
        found = checking.check_dataset(ref, side, stages("decoding", "images"))
    console = terminal()
    what = found.index
    _print(console, f"{name}: {_counts(what)}.")
    _list(
        console,
        "file is not read: no image by its name, or in no class",
        "files are not read: no images by their names, or in no class",
        what.ignored,
    )
    _list(
        console,
        "class has a single image, which has no match",
        "classes have a single image each, which has no match",
        found.lone,
    )
    _list(
        console,
        "image to test is the same as one to train on; leave one of the two out",
        "images to test are the same as ones to train on; leave one of each two out",
        [f"{test}  =  {train}" for train, test in found.twins],
    )
    if not found.broken:
        console.print("Every image is good.")
        _tell_where(console, ref, side, found.not_kept)
        return
    _list(
        console,
        "image is broken",
        "images are broken",
        [f"{file}  ({reason})" for file, reason in found.broken.items()],
        shown=len(found.broken),
    )
    them = "it" if len(found.broken) == 1 else "them"
    console.print(f"\nReplace {them}, or leave {them} out of any study with\n")
    print(f"  {leave_out(list(found.broken))}")
    raise typer.Exit(BROKEN)


def _tell_where(console: Console, ref: DatasetRef, side: int, not_kept: str | None) -> None:
    """Say whether a study that follows starts without decoding."""
    from trainables.datasets.pixels import cache_bytes

    place = fetch.home() / "pixels"
    if not_kept:
        _print(console, f"But their pixels could not be cached in {place} ({not_kept}).")
    elif size := cache_bytes(ref, side):
        _print(
            console,
            f"The cache has them at {side} pixels in {place} ({size_text(size)}), so "
            f"studies start at once; `{FAIRTRIAL} data cache` lists and removes what is there.",
        )


def _check_vectors(name: str, root: str | None) -> None:
    from trainables.datasets import checking

    with one_sentence():
        found = checking.check_vectors(DatasetRef(name, root))
    console = terminal()
    _print(console, f"{name}: {_counts(found.index, 'vectors')}.")
    _print(
        console,
        f"Each has {found.size:,} numbers; lengths {found.shortest:.4g} to {found.longest:.4g}, "
        f"median {found.median:.4g}.",
    )
    _print(console, f"{found.repeats:,} of them repeat an earlier one exactly.")
    _list(
        console,
        "class has a single vector, which has no match",
        "classes have a single vector each, which has no match",
        found.lone,
    )
    _list(
        console,
        "vector to test is the same as one to train on; remove one of the two",
        "vectors to test are the same as ones to train on; remove one of each two",
        [f"{test}  =  {train}" for train, test in found.twins],
    )
    _list(
        console,
        "picture is not there; no vector needs it, but no figure can show it",
        "pictures are not there; no vector needs them, but no figure can show them",
        found.lost,
    )
    console.print("Every vector is good.")


@app.command("show")
def show(
    name: Name,
    root: Root = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="where the picture goes: .jpg or .png")
    ] = None,
) -> None:
    """Draw a contact sheet: a few classes of each half, several images of each."""
    target = out or Path(f"{name}.jpg")
    with one_sentence():
        if target.suffix.lower() not in PICTURES:
            raise ValueError(f"--out takes a .jpg or .png file, but got '{target}'.")
        found = index(DatasetRef(name, root))
        from analysis.figures.contact_sheet import contact_sheet

        sheet = contact_sheet(name, found)
        target.parent.mkdir(parents=True, exist_ok=True)
        sheet.save(target, quality=92)
    _lines(terminal(), ("picture", str(target.absolute())))


def _print(console: Console, line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)


def _counts(found: Index, unit: str = "images") -> str:
    sides = (
        f"{len(classes):,} classes with {len(found.ids(classes)):,} {unit}"
        for classes in (found.train, found.test)
    )
    return "{:,} classes, {:,} {}; {} to train on, {} to test".format(
        len(found.names), len(found.labels), unit, *sides
    )


def _lines(console: Console, *pairs: tuple[str, str]) -> None:
    for what, text in pairs:
        console.print(f"{what:<8} {text}", highlight=False, markup=False, soft_wrap=True)


def _list(
    console: Console, one: str, many: str, items: Sequence[str], *, shown: int = SHOWN
) -> None:
    if not items:
        return
    console.print(f"\n{len(items):,} {one if len(items) == 1 else many}:", highlight=False)
    for item in items[:shown]:
        console.print(f"  {item}", highlight=False, markup=False, soft_wrap=True)
    if len(items) > shown:
        console.print(f"  ... and {len(items) - shown:,} more", highlight=False)


@contextmanager
def _stages() -> Iterator[preparing.Stages]:
    """Show a progress bar for each stage, on a terminal only."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[amount]}"),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        disable=not Console(stderr=True).is_terminal,
    ) as bars:

        def begin(title: str, unit: str) -> fetch.ProgressCallback:
            task = bars.add_task(escape(title), total=None, amount="")

            def move(done: int, total: int | None) -> None:
                size, name = (1e6, "MB") if unit == "bytes" else (1, unit)
                whole = f" of {total / size:,.0f}" if total else ""
                bars.update(
                    task, completed=done, total=total, amount=f"{done / size:,.0f}{whole} {name}"
                )

            return move

        yield begin
