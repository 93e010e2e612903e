"""Save a running trial in the background: copy its state to the host, and let a thread write it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trainables.outputs.checkpoints import (
    Abandoned,
    CheckpointPart,
    KnownWeights,
    remove_old,
    write_part,
)

if TYPE_CHECKING:
    import torch


class HostCopy:
    """Copy states into host memory that is used again, so that training can change them at once.

    From a GPU they are copied into pinned memory in the order of its own work: the host waits for
    nothing, and the next training step comes after the copy.
    """

    def __init__(self) -> None:
        self.buffers: dict[tuple[Any, ...], torch.Tensor] = {}

    def take(self, state: Any) -> tuple[Any, torch.cuda.Event | None]:
        """Return a copy, and the event after which it is complete, if a GPU is on its way."""
        import torch

        old, self.buffers, self.from_gpu = self.buffers, {}, False
        copy = self._copy(state, (), old)
        if not self.from_gpu:
            return copy, None
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record()
        return copy, event

    def _copy(self, part: Any, path: tuple[Any, ...], old: dict[tuple[Any, ...], Any]) -> Any:
        import torch

        if isinstance(part, torch.Tensor):
            buffer = old.get(path)
            on_gpu = part.device.type == "cuda"
            if buffer is None or _layout(buffer) != _layout(part):
                # With its strides: a fused optimiser takes its moments as they lie in memory.
                shape, strides, dtype = _layout(part)
                buffer = torch.empty_strided(shape, strides, dtype=dtype, pin_memory=on_gpu)
            self.buffers[path], self.from_gpu = buffer, self.from_gpu or on_gpu
            return buffer.copy_(part.detach(), non_blocking=on_gpu)
        if isinstance(part, dict):
            return {key: self._copy(value, (*path, key), old) for key, value in part.items()}
        if isinstance(part, list):
            return [self._copy(value, (*path, i), old) for i, value in enumerate(part)]
        return part


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.stride(), tensor.dtype


class SaveProgress(NamedTuple):
    """Say how the last checkpoint of a trial is getting on."""

    is_busy: bool = False  # it is being written
    seconds: float = 0.0  # that the last one took, until it was on the disk
    error: Exception | None = None  # why one could not be written

    @classmethod
    def of_all(cls, ranks: Sequence[SaveProgress]) -> SaveProgress:
        """Return the progress of a checkpoint of which each rank writes a part."""
        return cls(
            any(rank.is_busy for rank in ranks),
            max(rank.seconds for rank in ranks),
            next((rank.error for rank in ranks if rank.error), None),
        )


class Saver:
    """Write the checkpoints of one trial at a time, each in a thread of its own."""

    def __init__(self) -> None:
        self.host = HostCopy()
        self.thread: threading.Thread | None = None
        self.forget()

    def forget(self) -> None:
        """Abandon what is being written: the trial is over, and the next one begins."""
        self.wanted = False
        if self.thread:
            self.thread.join()
        self.thread, self.wanted = None, True
        self.known: dict[int, KnownWeights] = {}
        self.error: Exception | None = None
        self.seconds = 0.0

    def progress(self) -> SaveProgress:
        """Return how the last checkpoint is getting on."""
        busy = self.thread is not None and self.thread.is_alive()
        return SaveProgress(busy, self.seconds, self.error)

    def save(self, folder: Path, part: CheckpointPart) -> None:
        """Copy the state and begin to write it. Wait for the checkpoint before, if there is one.

        What has not changed since then is not copied: best weights that are on the disk.
        """
        if self.thread:
            self.thread.join()
        began = time.monotonic()
        held = {"folds": part.folds, "weights": self._new_weights(part)}
        copy, event = self.host.take(held)
        part = replace(part, folds=copy["folds"], weights=part.weights | copy["weights"])
        self.thread = threading.Thread(
            target=self._write, args=(folder, part, event, began), daemon=True
        )
        self.thread.start()

    def _new_weights(self, part: CheckpointPart) -> dict[int, Any]:
        return {
            i: weights
            for i, weights in part.weights.items()
            if part.best[i][1] != part.epoch
            and not (i in self.known and self.known[i].epoch == part.best[i][1])
        }

    def _write(
        self, folder: Path, part: CheckpointPart, event: torch.cuda.Event | None, began: float
    ) -> None:
        try:
            if event:
                event.synchronize()
            write_part(folder, part, known=self.known, wanted=lambda: self.wanted)
            if part.number == 0:
                remove_old(folder.parent)
            self.seconds = time.monotonic() - began
        except Abandoned:
            pass
        except Exception as error:
            # Whoever removed the folder wants nothing of this trial any more.
            if self.wanted and folder.exists():
                self.error = error
