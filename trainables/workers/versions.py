"""Identify the code that a study runs: a digest of the sources, the commit, library versions."""

import hashlib
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path

from search_spaces import find_own
from trainables.fetch import hash_file

ROOT = Path(__file__).parents[2]
# Without analysis, which only reads results and may change while a study runs.
PACKAGES = ("search_spaces", "trainables", "study")
LIBRARIES = (
    "fairtrial",
    "torch",
    "torchvision",
    "ray",
    "pytorch-metric-learning",
    "hyperopt",
    "mlflow",
)


@cache
def commit() -> str:
    """Return the commit of a checkout, or "unknown" elsewhere."""
    if (ROOT / ".git").exists() and (git := shutil.which("git")):
        return subprocess.run(
            [git, "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
        ).stdout.strip()
    return "unknown"


@cache
def sources() -> str:
    """Return a digest of the sources: equal for equal code, even in another commit."""
    found = hashlib.sha256()
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        found.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]


@cache
def libraries() -> dict[str, str]:
    """Return the versions of the libraries that affect results."""
    return {name: version(name) for name in LIBRARIES}


def file_digest(path: str) -> str:
    """Return a short digest of a file's content, or "missing" if there is none."""
    try:
        return hash_file(Path(path))[:16]
    except FileNotFoundError:
        return "missing"


def extra_code(losses: Iterable[str], backbones: Iterable[str]) -> dict[str, str]:
    """Return the code that only some studies run: modules of the user's own losses, and timm."""
    modules = {
        name: {name.partition(":")[0], find_own(name).build.__module__}
        for name in losses
        if ":" in name
    }
    files = {
        name: sorted(str(sys.modules[module].__file__) for module in mine)
        for name, mine in modules.items()
    }
    found = {f"loss {name}": " ".join(map(file_digest, paths)) for name, paths in files.items()}
    return found | (
        {"timm": version("timm")} if any(name.startswith("timm:") for name in backbones) else {}
    )


def code() -> dict[str, str]:
    """Return what a resumed study compares."""
    return {"sources": sources(), "python": platform.python_version(), **libraries()}


def shared_code(loss: str, backbone: str) -> dict[str, str]:
    """Return what must be the same on all nodes that train such trials."""
    everything = {**code(), **extra_code([loss], [backbone])}
    return {name: value for name, value in everything.items() if name != "python"}
