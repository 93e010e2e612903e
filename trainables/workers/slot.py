"""Train trial after trial in a warm Tune Trainable: a step is an epoch, a reset the next trial."""

from __future__ import annotations

import shutil
import socket
import time
from pathlib import Path
from typing import Any

import ray
from ray import tune

from trainables.distributed.process import device_name, take_gpus
from trainables.outputs.artifacts import OUTPUTS, write_outputs
from trainables.outputs.checkpoints import WAITING, Saving, new_checkpoint, newest_whole
from trainables.outputs.saver import SaveProgress
from trainables.workers.group import Group
from trainables.workers.mailbox import Place
from trainables.workers.placement import WorkerResources
from trainables.workers.worker import Worker

ONE = WorkerResources()
PROBE = 2**20  # bytes


class Slot(tune.Trainable):
    """Train trial after trial: one worker in this process, or several in a group of their own.

    It saves running trials by itself, into their own folders: Tune knows nothing of checkpoints.
    """

    kind = Worker

    def setup(self, config: dict[str, Any], resources: WorkerResources = ONE) -> None:
        """Start the worker or the group, and begin the first trial."""
        self.worker: Worker | Group
        if resources.workers == 1:
            take_gpus(resources.gpus)
            self.worker = self.kind()
        else:
            self.worker = Group(resources, self.kind)
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Begin the next trial."""
        self.worker.begin(new_config["spec"])
        self.saving: Saving = new_config["saving"]
        if isinstance(self.worker, Group):
            self.worker.waiting = Path(self.saving.folder, WAITING)
        self.has_begun = False
        self.saved = time.monotonic()  # when the trial began, or was saved last
        self.save_error: Exception | None = None
        return True

    def step(self) -> dict[str, Any]:
        """Train one epoch, and return its result with the nodes of the workers."""
        if self.save_error:
            raise self.save_error
        began = time.monotonic()
        if not self.has_begun:  # not earlier: what fails in a step is retried and reported
            self.has_begun = True
            saved = map(Path, self.saving.start)
            if start := newest_whole(saved, epoch=self.saving.epoch):
                self.worker.resume(str(start))
        result = self.worker.step()
        progress = result.pop("saver", SaveProgress())
        self.save_error = progress.error
        if self._is_due(result, progress, time.monotonic() - began):
            self._save()
        if isinstance(self.worker, Group):
            self.worker.rest()
        places = self._places()
        return result | {
            "nodes": [place.node for place in places if place.node],
            "devices": sorted({place.device for place in places}),
        }

    def _is_due(self, result: dict[str, Any], progress: SaveProgress, step_seconds: float) -> bool:
        """Return whether the trial is saved after this result.

        It is before it reads test classes, so that a crash then repeats no training, and in between
        so early that the checkpoint after the next epoch would come too late.
        """
        if result["done"] or progress.error or not result["epoch"]:
            return False
        late = time.monotonic() + step_seconds + progress.seconds - self.saved
        is_old = late > self.saving.seconds and not progress.is_busy
        return is_old or bool(result.get("reads"))

    def _save(self) -> None:
        try:
            folder = new_checkpoint(Path(self.saving.folder))
        except OSError as error:
            raise _with_disk(error, self.saving.folder) from error
        self.worker.save(str(folder))
        self.saved = time.monotonic()

    def _places(self) -> list[Place]:
        """Return where the workers are, by rank."""
        if isinstance(self.worker, Group):
            return self.worker.places
        node = ray.get_runtime_context().get_node_id() if ray.is_initialized() else ""
        return [Place(node, device_name())]

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write what the trial leaves at its end into its own folder.

        Tune asks for it. It then copies its own folder, which is empty.
        """
        saved, folder = self.worker.outputs(), Path(self.saving.folder, OUTPUTS)
        shutil.rmtree(folder, ignore_errors=True)  # of a try that failed
        try:
            write_outputs(folder, saved)
        except Exception as error:
            _probe(folder, error)
            raise
        if isinstance(self.worker, Group):
            self.worker.rest()

    def restore(self, checkpoint_path: Any) -> None:
        """Read nothing: a trial that is tried again continues from what Saving names.

        Tune's own way would unpickle a file of that folder, which can run code.
        """

    def load_checkpoint(self, checkpoint_dir: str) -> None:
        raise AssertionError("restore() never calls this")

    def cleanup(self) -> None:
        """Stop the group."""
        if isinstance(self.worker, Group):
            self.worker.stop()


def _probe(folder: Path, error: Exception) -> None:
    """Raise an OSError that names the disk, if it is full or read-only; torch does not say that."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "probe").write_bytes(bytes(PROBE))
    except OSError as found:
        raise _with_disk(found, folder) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # nothing else would remove half of the files


def _with_disk(error: OSError, folder: Path | str) -> OSError:
    return OSError(error.errno, error.strerror, f"{folder} on {socket.gethostname()}")
