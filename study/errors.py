"""Define how a command ends when it cannot do its work: one exception, the exit codes, and what to
type next.
"""

import shlex
from pathlib import Path

BAD_INPUT, FAILED_TRIALS, NO_PLACE, INTERRUPTED = 2, 3, 4, 130


class PreflightError(Exception):
    """Report that the config is good, but this machine or cluster cannot run it."""


def command(words: str, studies: str | Path) -> str:
    """Return a command to type, which names the studies folder if it is not the usual one."""
    option = "--set studies=" if words.startswith("run ") else "--studies "
    where = "" if str(studies) == "studies" else f" {option}{shlex.quote(str(studies))}"
    return f"fairtrial {words}{where}"
