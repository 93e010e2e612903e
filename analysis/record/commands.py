"""Say what to type next: a command, with the studies folder if it is not the usual one."""

import shlex
from pathlib import Path


def command(words: str, studies: str | Path) -> str:
    """Return a command to type, which names the studies folder if it is not the usual one."""
    option = "--set studies=" if words.startswith("run ") else "--studies "
    where = "" if str(studies) == "studies" else f" {option}{shlex.quote(str(studies))}"
    return f"fairtrial {words}{where}"


def resuming(folder: Path) -> str:
    """Return the command that resumes the study of this folder."""
    return command(f"run {folder.name} --resume", folder.parent)
