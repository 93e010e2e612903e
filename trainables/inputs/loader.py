"""Bring batches to the device: written into reused pinned memory, copied ahead of their reader."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, pairwise

import torch
from torch import Tensor

AHEAD = 3  # batches that are written, copied or waiting while a GPU works on another
THREADS = 3  # that write them, as far as there are cores


@dataclass(frozen=True)
class Pending:
    """Describe a tensor that is still to be written. Images (4 dimensions) are channels last."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    write: Callable[[Tensor], None]

    @property
    def size(self) -> int:
        """Return its bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def now(self) -> Tensor:
        """Return the tensor, written into memory of its own."""
        return self.into(torch.empty(self.size, dtype=torch.uint8))

    def into(self, memory: Tensor) -> Tensor:
        """Return the tensor, written into the first of these bytes."""
        tensor = memory[: self.size].view(self.dtype)
        if len(self.shape) == 4:
            count, channels, height, width = self.shape
            tensor = tensor.view(count, height, width, channels).permute(0, 3, 1, 2)
        else:
            tensor = tensor.view(self.shape)
        self.write(tensor)
        return tensor


def on_device(pending: Iterable[Pending], device: torch.device) -> Generator[Tensor, None, None]:
    """Yield every batch on the device, in order.

    The next batch is always asked for before the current one is written, so that its pixels are on
    their way from the disk. Close the generator where its end may not be reached.
    """
    return _in_turn(pending) if device.type == "cpu" else _ahead(pending, device)


def _in_turn(pending: Iterable[Pending]) -> Generator[Tensor, None, None]:
    """Write each batch when it is read: on a CPU, a thread would take a core from another slot."""
    for batch, _ in pairwise(chain(pending, [None])):
        assert batch
        yield batch.now()


def _ahead(pending: Iterable[Pending], device: torch.device) -> Generator[Tensor, None, None]:
    """Write and copy the next batches while the reader works on one."""
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    buffers = [_Buffer(device, stream) for _ in range(AHEAD + 1)]
    coming: deque[Future[_Sent]] = deque()
    with ThreadPoolExecutor(THREADS, "batches") as pool:
        try:
            for number, batch in enumerate(pending):
                # The reader has taken the batch that was in this buffer: AHEAD are still coming.
                buffer = buffers[number % len(buffers)]
                coming.append(pool.submit(buffer.send, batch))
                if len(coming) > AHEAD:
                    yield coming.popleft().result().received()
            while coming:
                yield coming.popleft().result().received()
        finally:
            for each in coming:
                each.cancel()


@dataclass(frozen=True)
class _Sent:
    """Hold a batch on its way to the device, and the event of its arrival."""

    batch: Tensor
    arrived: torch.cuda.Event

    def received(self) -> Tensor:
        """Return the batch for the current stream, which waits for it; the host does not."""
        reader = torch.cuda.current_stream(self.batch.device)
        reader.wait_event(self.arrived)
        self.batch.record_stream(reader)  # its memory belongs to the stream that copies
        return self.batch


class _Buffer:
    """Hold one batch in pinned memory, from which it is copied while the host does other work."""

    def __init__(self, device: torch.device, stream: torch.cuda.Stream) -> None:
        self._device, self._stream = device, stream
        self._memory = torch.empty(0, dtype=torch.uint8)
        self._left = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]

    def send(self, batch: Pending) -> _Sent:
        """Write the batch once the last one has left this memory, and start to copy it."""
        self._left.synchronize()
        if len(self._memory) < batch.size:
            self._memory = torch.empty(batch.size, dtype=torch.uint8, pin_memory=True)
        written = batch.into(self._memory)
        with torch.cuda.stream(self._stream):
            sent = written.to(self._device, non_blocking=True)
            self._left.record(self._stream)
        return _Sent(sent, self._left)
