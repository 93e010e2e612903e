"""Write and read checkpoints of running trials: each rank writes its part and seals it last."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import socket
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from trainables.fetch import hash_file
from trainables.outputs.disk import link, replace_text, sync_to_disk

FOLD, BEST = "fold-{}.pt", "best-{}.pt"  # by split: its state, and the weights of its best epoch
SEAL = "seal-{}.json"  # by part, written last: rows, best epochs, and the hash of every file
CHECKPOINT = re.compile(r"saved_(\d{6})")
KEEP = 2  # checkpoints of a trial: the newest may be beyond the record, or cut off by a power loss
CHUNK = 2**23  # bytes written at once


class Abandoned(Exception):
    """Report that a file is not wanted any more."""


WAITING = "waiting"  # in a trial's own folder: a file that is there while its workers are not


@dataclass(frozen=True)
class Saving:
    """Say where a running trial is saved, how much of it may be lost, and where it continues."""

    folder: str  # the trial's own; all nodes can write to it
    seconds: float  # that a kill may cost, unless one epoch takes longer
    start: tuple[str, ...] = ()  # checkpoints of an earlier try, the newest last
    epoch: int = 0  # the last one on record; no later checkpoint counts


@contextmanager
def said_to_wait(file: Path | None) -> Iterator[None]:
    """Let the file be there inside; its driver would else take a wait for nodes for a hang."""
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    yield
    if file:
        file.unlink(missing_ok=True)


@dataclass(frozen=True)
class CheckpointPart:
    """Hold what one rank writes: the state of its splits, and what all ranks know."""

    number: int  # counts from 0
    parts: int  # that a whole checkpoint has
    folds: dict[int, Any]  # split -> state of its fit
    weights: dict[int, Any]  # split -> weights of its best epoch
    best: list[tuple[float, int]]  # best score and its epoch, of every split
    rows: list[dict[str, Any]]

    @property
    def epoch(self) -> int:
        return len(self.rows)


class KnownWeights(NamedTuple):
    """Hold where weights are on the disk: those of a split after this epoch."""

    epoch: int
    path: Path
    digest: str


class HashingFile:
    """Pass on what torch writes, hash it, and remember an error that torch would hide."""

    def __init__(self, file: BinaryIO, wanted: Callable[[], bool]) -> None:
        self.file, self.wanted = file, wanted
        self.hash = hashlib.sha256()
        self.error: OSError | Abandoned | None = None

    def write(self, data: memoryview | bytes) -> int:
        try:
            for at in range(0, len(data), CHUNK):
                if not self.wanted():
                    raise Abandoned
                self._write(data[at : at + CHUNK])
        except (OSError, Abandoned) as error:
            self.error = error
            raise
        return len(data)

    def _write(self, chunk: memoryview | bytes) -> None:
        self.file.write(chunk)
        self.hash.update(chunk)

    def flush(self) -> None:
        self.file.flush()


def write_part(
    folder: Path,
    part: CheckpointPart,
    *,
    known: dict[int, KnownWeights],
    wanted: Callable[[], bool] = lambda: True,
) -> None:
    """Write one rank's part of a checkpoint into a folder that exists, and seal it.

    known: by split, the best weights that an earlier checkpoint has. They get a second name instead
    of being written again, and new ones are added. wanted: if it returns False in between, raise
    Abandoned. An OSError names the disk.
    """
    try:
        hashes = {
            FOLD.format(i): _write(folder / FOLD.format(i), state, wanted)
            for i, state in part.folds.items()
        }
        for i, weights in part.weights.items():
            chosen, path = part.best[i][1], folder / BEST.format(i)
            if chosen == part.epoch:  # the state has the same weights
                continue
            earlier = known.get(i)
            if earlier and earlier.epoch == chosen and earlier.path.exists():
                link(earlier.path, path)
                digest = earlier.digest
            else:
                digest = _write(path, weights, wanted)
            hashes[path.name], known[i] = digest, KnownWeights(chosen, path, digest)
        seal = {"epoch": part.epoch, "parts": part.parts, "best": part.best, "rows": part.rows}
        replace_text(folder / SEAL.format(part.number), json.dumps(seal | {"sha256": hashes}))
    except OSError as error:
        where = f"{folder} on {socket.gethostname()}"
        raise OSError(error.errno, error.strerror, where) from error


def _write(path: Path, content: Any, wanted: Callable[[], bool]) -> str:
    """Write a file that is on the disk when this returns, and return its hash."""
    import torch

    with path.open("wb") as raw:
        file = HashingFile(raw, wanted)
        try:
            torch.save(content, cast(BinaryIO, file))
        except Exception as error:
            raise file.error or error from None
    sync_to_disk(path)
    return file.hash.hexdigest()


def checkpoints_in(home: Path) -> list[Path]:
    """Return the checkpoints in a trial's folder, whole or not, the newest last."""
    found = home.iterdir() if home.is_dir() else ()
    return sorted(path for path in found if CHECKPOINT.fullmatch(path.name))


def new_checkpoint(home: Path) -> Path:
    """Make the folder of the next checkpoint of a trial.

    Nobody makes it again later: what is written for a trial whose folder was removed goes nowhere.
    """
    home.mkdir(parents=True, exist_ok=True)
    number = max((int(path.name[-6:]) for path in checkpoints_in(home)), default=0)
    while True:
        number += 1
        try:
            (path := home / f"saved_{number:06}").mkdir()
        except FileExistsError:  # of another process, that was taken for dead
            continue
        return path


def remove_old(home: Path) -> None:
    """Remove checkpoints that are older than the newest sealed ones."""
    found = checkpoints_in(home)
    sealed = [path for path in found if _seals(path)]
    for path in found[: found.index(sealed[-KEEP])] if len(sealed) >= KEEP else ():
        shutil.rmtree(path, ignore_errors=True)


def newest_whole(checkpoints: Iterable[Path], *, epoch: int | None = None) -> Path | None:
    """Return the newest of these that is whole and not beyond this epoch; they come oldest first.

    A file that is not as it was sealed makes a checkpoint incomplete.
    """
    for path in reversed(list(checkpoints)):
        reached = epoch_of(path)
        if reached is not None and (epoch is None or reached <= epoch):
            return path
    return None


def epoch_of(folder: Path) -> int | None:
    """Return the epoch of a checkpoint; None if it is not whole."""
    seals = _seals(folder)
    files = [each for seal in seals for each in seal["sha256"].items()]
    try:
        whole = all(hash_file(folder / name) == digest for name, digest in files)
    except OSError:
        return None
    return int(seals[0]["epoch"]) if seals and whole else None


def sealed_epoch(folder: Path) -> int:
    """Return the epoch of a checkpoint that newest_whole() returned, without reading its files."""
    return int(_seals(folder)[0]["epoch"])


def _seals(folder: Path) -> list[dict[str, Any]]:
    """Return the seals of all parts, or none if one is missing."""
    try:
        first = json.loads((folder / SEAL.format(0)).read_text())
        seals = [json.loads((folder / SEAL.format(i)).read_text()) for i in range(first["parts"])]
        return seals if {seal["epoch"] for seal in seals} == {first["epoch"]} else []
    except (OSError, ValueError, KeyError, TypeError):
        return []


def read_checkpoint(folder: Path, splits: Collection[int]) -> dict[str, Any]:
    """Return the state of these splits, as Learner.load() takes it."""
    import torch

    def read(name: str) -> Any:
        return torch.load(folder / name, map_location="cpu", weights_only=True)

    seal = _seals(folder)[0]
    folds = {i: {"fit": read(FOLD.format(i))} for i in splits}
    for i, fold in folds.items():
        is_last = not (folder / BEST.format(i)).exists()  # the best epoch
        fold["weights"] = fold["fit"]["network"] if is_last else read(BEST.format(i))
    return {"folds": folds, "best": seal["best"], "rows": seal["rows"]}
