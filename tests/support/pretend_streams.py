"""Pretend CUDA's streams and events: a copy on a side stream arrives only once it is waited for.

Until then its target holds what no test expects, and its source must keep its content.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_lock = threading.RLock()  # of all streams: several threads may use one


class PretendStream:
    """Hold the copies that were asked for and that nobody has waited for yet."""

    def __init__(self, device: Any = None, priority: int = 0, *, side: bool = True) -> None:
        self.side = side
        self.waiting: list[tuple[torch.Tensor, torch.Tensor]] = []

    def delay(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Take the copy back; finish() makes it, with what the source holds then."""
        target.fill_(torch.nan if target.is_floating_point() else 113)
        with _lock:
            self.waiting.append((target, source))

    def finish(self, count: int | None = None) -> None:
        """Make the first copies that wait, or all of them."""
        with _lock:
            some = self.waiting[:count]
            del self.waiting[: len(some)]
            for target, source in some:
                target.copy_(source)

    def synchronize(self) -> None:
        """Let the host wait for this stream."""
        self.finish()

    def wait_stream(self, other: PretendStream) -> None:
        """Let this stream wait for another."""
        other.finish()

    def wait_event(self, event: PretendEvent) -> None:
        """Let this stream wait for an event."""
        event.synchronize()

    def record_event(self, event: PretendEvent | None = None) -> PretendEvent:
        """Return an event that comes when what waits here now is done."""
        event = event or PretendEvent()
        event.record(self)
        return event

    def query(self) -> bool:
        """Return whether all is done, which it is as soon as somebody asks."""
        self.finish()
        return True


class PretendEvent:
    """Stand for a point in a stream."""

    def __init__(self, enable_timing: bool = False, **_: Any) -> None:
        self.awaited: tuple[PretendStream, list[Any]] | None = None

    def record(self, stream: PretendStream | None = None) -> None:
        """Stand from now on for what waits in the stream."""
        stream = stream or current_stream()
        with _lock:
            self.awaited = (stream, list(stream.waiting))

    def wait(self, stream: PretendStream | None = None) -> None:
        """Let a stream wait for this event."""
        self.synchronize()

    def synchronize(self) -> None:
        """Let the host wait for this event."""
        if self.awaited:
            stream, waiting = self.awaited
            still = {id(pair) for pair in waiting}
            with _lock:
                stream.finish(sum(id(pair) in still for pair in stream.waiting))

    def query(self) -> bool:
        """Return whether the event has come, which it has as soon as somebody asks."""
        self.synchronize()
        return True

    def elapsed_time(self, other: PretendEvent) -> float:
        """Return no time: nothing here takes the time of a GPU."""
        return 0.0


_DEFAULT = PretendStream(side=False)
_current = threading.local()


def current_stream(*, default: bool = False) -> PretendStream:
    """Return this thread's stream."""
    return _DEFAULT if default else getattr(_current, "stream", _DEFAULT)


@contextmanager
def on_stream(stream: PretendStream | None) -> Iterator[None]:
    """Work on this stream inside."""
    before = current_stream()
    _current.stream = stream or before
    try:
        yield
    finally:
        _current.stream = before
