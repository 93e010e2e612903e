"""A warm place in the cluster: a Tune Trainable whose step is one epoch and whose reset is the next trial."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path
from typing import Any

import ray
from ray import tune

from trainables.artifacts import epoch_of, read, write
from trainables.contract import Crew, TrialSpec
from trainables.group import Group
from trainables.process import take_gpus
from trainables.worker import Worker

ONE = Crew()
PROBE = 2**20  # bytes


class Slot(tune.Trainable):
    """One worker trains in the slot's own process, several in a group of their own; both stay from trial to trial."""

    kind = Worker

    def setup(self, config: dict[str, Any], crew: Crew = ONE) -> None:
        if crew.workers == 1:
            take_gpus(crew.gpus)
        self.worker: Worker | Group = self.kind() if crew.workers == 1 else Group(crew, self.kind)
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.worker.begin(TrialSpec.from_dict(new_config["spec"]))
        self.start = new_config.get("start")  # a checkpoint of the same trial, from before the study was interrupted
        return True

    def step(self) -> dict[str, Any]:
        if self.start:  # here, not before: what fails in a step is retried and reported
            start, self.start = self.start, None
            self.worker.load(read(Path(start)))
        return self.worker.step() | {"nodes": self._nodes()}

    def _nodes(self) -> list[str]:
        """Of the workers, by rank."""
        if isinstance(self.worker, Group):
            return self.worker.nodes
        return [ray.get_runtime_context().get_node_id()] if ray.is_initialized() else []

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Into a folder for temporary files of this node, from which Tune copies it into the study's."""
        saved, folder = self.worker.save(), Path(checkpoint_dir)
        try:
            write(folder, saved)
        except Exception as error:
            _probe(folder, error)
            raise
        if isinstance(self.worker, Group):
            self.worker.rest()

    def load_checkpoint(self, checkpoint_dir: str) -> None:
        """Of a trial that comes back after its slot died. A state that is not all there is left alone: the trial starts over."""
        if epoch_of(Path(checkpoint_dir)) is not None:
            self.start = None
            self.worker.load(read(Path(checkpoint_dir)))

    def cleanup(self) -> None:
        if isinstance(self.worker, Group):
            self.worker.stop()


def _probe(folder: Path, error: Exception) -> None:
    """OSError: the disk is full or closed, and which. torch says of that no more than "unexpected pos"."""
    try:
        (folder / "probe").write_bytes(bytes(PROBE))
    except OSError as said:
        raise OSError(said.errno, said.strerror, f"{folder} on {socket.gethostname()}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # half a checkpoint, which nobody else would remove
