"""Train trial after trial in a warm Tune Trainable: a step is an epoch, a reset the next trial."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path
from typing import Any

import ray
from ray import tune

from trainables.contract import WorkerResources
from trainables.distributed.process import take_gpus
from trainables.outputs.artifacts import epoch_of, read_state, write_checkpoint
from trainables.workers.group import Group
from trainables.workers.worker import Worker

ONE = WorkerResources()
PROBE = 2**20  # bytes


class Slot(tune.Trainable):
    """Train trial after trial: one worker in this process, or several in a group of their own."""

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
        # A checkpoint of the same trial, from before the study was interrupted.
        self.start = new_config.get("start")
        return True

    def step(self) -> dict[str, Any]:
        """Train one epoch, and return its result with the nodes of the workers."""
        if self.start:  # not earlier: what fails in a step is retried and reported
            start, self.start = self.start, None
            self.worker.load(read_state(Path(start)))
        result = self.worker.step()
        if isinstance(self.worker, Group):
            self.worker.rest()
        return result | {"nodes": self._nodes()}

    def _nodes(self) -> list[str]:
        """Return the nodes of the workers, by rank."""
        if isinstance(self.worker, Group):
            return self.worker.nodes
        return [ray.get_runtime_context().get_node_id()] if ray.is_initialized() else []

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write into a temporary folder of this node, from which Tune copies to the study's."""
        saved, folder = self.worker.save(), Path(checkpoint_dir)
        try:
            write_checkpoint(folder, saved)
        except Exception as error:
            _probe(folder, error)
            raise
        if isinstance(self.worker, Group):
            self.worker.rest()

    def load_checkpoint(self, checkpoint_dir: str) -> None:
        """Load the state of a trial whose slot died; without a complete state it starts over."""
        if epoch_of(Path(checkpoint_dir)) is not None:
            self.start = None
            self.worker.load(read_state(Path(checkpoint_dir)))

    def cleanup(self) -> None:
        """Stop the group."""
        if isinstance(self.worker, Group):
            self.worker.stop()


def _probe(folder: Path, error: Exception) -> None:
    """Raise an OSError that names the disk, if it is full or read-only; torch does not say that."""
    try:
        (folder / "probe").write_bytes(bytes(PROBE))
    except OSError as found:
        raise OSError(found.errno, found.strerror, f"{folder} on {socket.gethostname()}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # nothing else would remove half a checkpoint
