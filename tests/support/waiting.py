"""Wait until a condition holds, with a deadline that only a hung test reaches."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 240.0  # seconds: a busy machine is slow, and a test that hangs must still end
PAUSE = 0.05


def await_that(
    holds: Callable[[], object],
    unless: Callable[[], str] = lambda: "",
    about: Callable[[], object] = lambda: "",
) -> None:
    """Return once `holds()` is true.

    Fail once `unless()` says why it never will be, or after PATIENCE seconds with `about()`.
    """
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert not (why := unless()) or holds(), why
        assert time.monotonic() < deadline, f"still not so after {PATIENCE:g} s: {about()}"
        time.sleep(PAUSE)
