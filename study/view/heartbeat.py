"""Show that time passes: a spinner on a terminal, elsewhere a line after every silence."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from rich.console import Console

# Seconds without a line, at most, where there is no terminal; later a share of the time so far: a
# log of four minutes has a line every 2.5 s, one of a night every five minutes.
SILENCE, SHARE = 2.5, 0.01


class Heartbeat:
    """Print a line whenever none came for a while."""

    def __init__(self) -> None:
        self.began = self.last = time.monotonic()

    def heard(self) -> None:
        """Note that a line was printed."""
        self.last = time.monotonic()

    @contextmanager
    def beating(self, beat: Callable[[], None]) -> Iterator[None]:
        """Call `beat`, which prints a line, after every silence inside the block."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(max(0.0, self._left())):
                if self._left() <= 0:
                    beat()
                    self.heard()

        thread = threading.Thread(target=watch, name="heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _left(self) -> float:
        """Return the seconds until a silence has lasted too long."""
        now = time.monotonic()
        return self.last + max(SILENCE, SHARE * (now - self.began)) - now


@contextmanager
def shown_busy(
    console: Console,
    what: str,
    heart: Heartbeat | None = None,
    say: Callable[[str], None] | None = None,
) -> Iterator[None]:
    """Show that something is being done: a spinner on a terminal, elsewhere a line now and then."""
    if console.is_terminal:
        with console.status(what):
            yield
        return
    out = say or partial(console.print, markup=False, highlight=False)
    with (heart or Heartbeat()).beating(lambda: out(f"{what} ...")):
        yield
