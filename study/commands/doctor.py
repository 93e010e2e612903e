"""fairtrial doctor: is everything here that a study needs?"""

import importlib
import os
import platform
import shutil
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import typer

from study.commands import NO_PLACE, Studies
from trainables.contract import Origin

NEEDED = {
    "ray": "ray",
    "torch": "torch",
    "torchvision": "torchvision",
    "pytorch_metric_learning": "pytorch-metric-learning",
    "hyperopt": "hyperopt",
    "mlflow": "mlflow",
}
ROOM = 1e9  # bytes that should be free


def _python() -> str:
    return f"{platform.python_version()} on {platform.system()} {platform.machine()}"


def _package(module: str) -> str:
    importlib.import_module(module)  # installed is not enough: it must load
    return version(NEEDED[module])


def _hardware() -> str:
    import torch

    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return f"{os.cpu_count()} CPUs, {memory:.0f} GB memory, " + (", ".join(gpus) or "no GPU (a study runs on the CPUs)")


def _storage(studies: Path) -> str:
    existing = next(path for path in (studies, *studies.parents) if path.exists())
    if not os.access(existing, os.W_OK | os.X_OK):
        raise OSError(f"{existing} is not writable; choose another folder with --set studies=FOLDER")
    free = shutil.disk_usage(existing).free
    if free < ROOM:
        raise OSError(f"only {free / 1e9:.1f} GB free in {existing}; make room")
    return f"{studies}, {free / 1e9:.0f} GB free"


def _store(studies: Path) -> str:
    from analysis.tracking import studies as names
    from study.preflight import embedded_uri

    if not (studies / "mlflow.db").exists():
        return "embedded store, made by the first study"
    return f"embedded store with {len(names(embedded_uri(studies)))} studies"


def _data() -> str:
    from trainables.datasets.catalogue import DATASETS, index
    from trainables.fetch import home

    here = []
    for name in (name for name, source in DATASETS.items() if not source.needs_root):
        try:
            here.append(f"{name} ({len(index(Origin(name)).labels)} images)")
        except ValueError:  # not prepared: no illness
            continue
    return f"{', '.join(here)}; prepared ones in {home()}"


def doctor(studies: Studies = "studies") -> None:
    """Check versions, hardware, storage, MLflow and data; exit 4 if something is wrong."""
    root = Path(studies).absolute()
    checks: dict[str, Callable[[], str]] = {"python": _python}
    checks |= {module: lambda module=module: _package(module) for module in NEEDED}  # type: ignore[misc]
    checks |= {"hardware": _hardware, "storage": lambda: _storage(root), "tracking": lambda: _store(root), "data": _data}
    broken = 0
    for name, check in checks.items():
        try:
            print(f"  ok  {name:<24} {check()}", flush=True)
        except Exception as error:  # a doctor reports every illness
            broken += 1
            print(f"FAIL  {name:<24} {type(error).__name__}: {error}", flush=True)
    print("All good." if not broken else f"{broken} of {len(checks)} checks failed.")
    raise typer.Exit(NO_PLACE if broken else 0)
