"""fairtrial doctor: check that everything that a study needs is installed and reachable."""

import importlib
import json
import os
import platform
import shutil
import socket
import sys
from collections.abc import Callable
from importlib.metadata import version
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from study.cli.terminal import Studies
from study.errors import NO_PLACE
from trainables.contract import DatasetRef

NEEDED = {
    "ray": "ray",
    "torch": "torch",
    "torchvision": "torchvision",
    "pytorch_metric_learning": "pytorch-metric-learning",
    "hyperopt": "hyperopt",
    "mlflow": "mlflow",
}
FREE_BYTES = 1e9  # that should be free on the disk
PORTS = (6379, 8265, 10001)  # of Ray: its store, its dashboard, its client
FAMILIES = (socket.AF_INET, socket.AF_INET6)


def _python() -> str:
    return f"{platform.python_version()} on {platform.system()} {platform.machine()}"


def _package(module: str) -> str:
    importlib.import_module(module)  # installed is not enough: it must load
    return version(NEEDED[module])


def _hardware() -> str:
    import torch

    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return f"{os.cpu_count()} CPUs, {memory:.0f} GB memory, " + (
        ", ".join(gpus) or "no GPU (a study runs on the CPUs)"
    )


def _storage(studies: Path) -> str:
    existing = next(path for path in (studies, *studies.parents) if path.exists())
    if not os.access(existing, os.W_OK | os.X_OK):
        raise OSError(
            f"{existing} is not writable; choose another folder with --set studies=FOLDER"
        )
    free = shutil.disk_usage(existing).free
    if free < FREE_BYTES:
        raise OSError(f"only {free / 1e9:.1f} GB free in {existing}; free some space")
    return f"{studies}, {free / 1e9:.0f} GB free"


def _store(studies: Path) -> str:
    from analysis.tracking import studies as names
    from study.driver.folder import embedded_uri

    if not (studies / "mlflow.db").exists():
        return "embedded store, made by the first study"
    return f"embedded store with {len(names(embedded_uri(studies)))} studies"


def _token() -> str:
    """Check Ray's token file: whoever can read it can run code in this user's cluster."""
    from study.cluster.ray_token import token_path

    path = token_path()
    if "RAY_AUTH_TOKEN" in os.environ:
        return "from RAY_AUTH_TOKEN"
    if not path.exists():
        return "none yet; Ray makes one on this machine, a cluster needs one on every node"
    if path.stat().st_mode & 0o077:
        raise PermissionError(f"{path} can be read by others; chmod 600 {path}")
    return f"{path}, read by nobody else"


def _ports() -> str:
    """Check that Ray's ports are closed on public addresses: its token travels in plain text."""
    import psutil

    known = [
        address.address.partition("%")[0]
        for each in psutil.net_if_addrs().values()
        for address in each
        if address.family in FAMILIES
    ]
    reached = [
        f"{address}:{port}"
        for address in known
        if ip_address(address).is_global
        for port in PORTS
        if _answers(address, port)
    ]
    if reached:
        raise PermissionError(
            f"anyone can reach Ray at {', '.join(reached)}; let a firewall admit only ssh"
        )
    return f"{', '.join(map(str, PORTS))} are closed on public addresses"


def _answers(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), timeout=1).close()
    except OSError:
        return False
    return True


def _cluster(studies: Path) -> str:
    """Check every node of the cluster at RAY_ADDRESS: versions, code, storage."""
    import ray

    from study.cluster.nodes import ask_nodes, check_nodes

    ray.init(address=os.environ["RAY_ADDRESS"], log_to_driver=False, logging_level="ERROR")
    try:
        nodes = ask_nodes(studies)
        check_nodes(studies, nodes)
        total = ray.cluster_resources()
    finally:
        ray.shutdown()
    resources = f"{total.get('CPU', 0):g} CPUs, {total.get('GPU', 0):g} GPUs"
    return f"{len(nodes)} nodes see {studies} and run this code; {resources}"


def _server(uri: str) -> str:
    from analysis.tracking import redact
    from study.driver.preflight import ask_server

    ask_server(uri)
    return f"{redact(uri)} answers"


def _data() -> str:
    from trainables.datasets.catalogue import DATASETS
    from trainables.datasets.indexing import index
    from trainables.fetch import home

    here = []
    for name in (name for name, source in DATASETS.items() if not source.needs_root):
        try:
            here.append(f"{name} ({len(index(DatasetRef(name)).labels)} images)")
        except ValueError:  # not prepared, which is fine
            continue
    return f"{', '.join(here)}; prepared ones in {home()}"


def _check_gpu(studies: Path, *, as_json: bool) -> NoReturn:
    """Run the GPU check, print it and exit."""
    from study.gpu_check.report import check_gpu

    report = check_gpu(studies, lambda line: print(line, file=sys.stderr, flush=True))
    lines = report.lines()
    broken = sum(line.verdict == "FAIL" for line in lines)
    if as_json:
        print(json.dumps(report.as_dict(), indent=2))
        raise typer.Exit(NO_PLACE if broken else 0)
    print("  ".join(f"{name} {value}" for name, value in report.about.items()))
    print("\n".join(["", *report.table(), ""]))
    for line in lines:
        print(f"{line.verdict:>6}  {line.name:<18} {line.text}")
    if not report.has_gpu:
        print("\nThis process has no GPU. What says 'no GPU' has to be seen on a machine with one.")
    else:
        print("\nPlease send this table to the project: it names no file and no user of yours.")
    print("All good." if not broken else f"{broken} of {len(lines)} lines failed.")
    raise typer.Exit(NO_PLACE if broken else 0)


def doctor(
    studies: Studies = "studies",
    tracking_uri: Annotated[
        str | None, typer.Option("--tracking-uri", help="an MLflow server to ask")
    ] = None,
    gpu: Annotated[
        bool, typer.Option("--gpu", help="in place of these checks, run and time every loss here")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="with --gpu: print JSON")] = False,
) -> None:
    """Check versions, hardware, storage, MLflow, data, Ray's token and ports, and with RAY_ADDRESS
    every node; exit 4 if a check fails.

    With --gpu, take a step of every loss on this machine's GPU and on its CPU, and measure speed,
    memory and a checkpoint: two minutes, and a table to send back. Without a GPU it says what it
    left out.
    """
    root = Path(studies).absolute()
    if gpu:
        _check_gpu(root, as_json=as_json)
    checks: dict[str, Callable[[], str]] = {"python": _python}
    checks |= {module: lambda module=module: _package(module) for module in NEEDED}  # type: ignore[misc]
    checks |= {
        "hardware": _hardware,
        "storage": lambda: _storage(root),
        "tracking": lambda: _store(root),
        "data": _data,
        "token": _token,
    }
    checks |= {"ports": _ports}
    checks |= {"tracking server": lambda: _server(tracking_uri)} if tracking_uri else {}
    checks |= {"cluster": lambda: _cluster(root)} if os.environ.get("RAY_ADDRESS") else {}
    broken = 0
    for name, check in checks.items():
        try:
            print(f"  ok  {name:<24} {check()}", flush=True)
        except Exception as error:  # every failed check is reported
            broken += 1
            print(f"FAIL  {name:<24} {type(error).__name__}: {error}", flush=True)
    print("All good." if not broken else f"{broken} of {len(checks)} checks failed.")
    raise typer.Exit(NO_PLACE if broken else 0)
