"""Which code a study ran with: a digest of the sources, the commit of a checkout, and the versions of what matters."""

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

ROOT = Path(__file__).parent.parent
PACKAGES = ("search_spaces", "trainables", "study")  # analysis reads what is there: it may change under a study
LIBRARIES = ("fairtrial", "torch", "torchvision", "ray", "pytorch-metric-learning", "hyperopt", "mlflow")


@cache
def commit() -> str:
    """Of a checkout; "unknown" elsewhere."""
    if (ROOT / ".git").exists() and (git := shutil.which("git")):
        return subprocess.run([git, "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    return "unknown"


@cache
def sources() -> str:
    """Equal for equal code, whatever the commit."""
    found = hashlib.sha256()
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        found.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]


@cache
def libraries() -> dict[str, str]:
    return {name: version(name) for name in LIBRARIES}


def file_digest(path: str) -> str:
    """Of a file's content; "missing" without one."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except FileNotFoundError:
        return "missing"


def borrowed(losses: Iterable[str], backbones: Iterable[str]) -> dict[str, str]:
    """Code that only some studies have: the modules of losses of one's own, package.module:NAME, and timm for timm:NAME."""
    modules = {name: {name.partition(":")[0], find_own(name).build.__module__} for name in losses if ":" in name}
    files = {name: sorted(str(sys.modules[module].__file__) for module in mine) for name, mine in modules.items()}
    found = {f"loss {name}": " ".join(map(file_digest, paths)) for name, paths in files.items()}
    return found | ({"timm": version("timm")} if any(name.startswith("timm:") for name in backbones) else {})


def code() -> dict[str, str]:
    """What a resumed study compares."""
    return {"sources": sources(), "python": platform.python_version(), **libraries()}


def shared_code(loss: str, backbone: str) -> dict[str, str]:
    """What must be the same on all nodes that train such trials."""
    return {name: value for name, value in {**code(), **borrowed([loss], [backbone])}.items() if name != "python"}
