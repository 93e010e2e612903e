"""Check that two workers train as one: by nccl if there are two GPUs, else by gloo on the CPU."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn

from study.gpu_check.losses import VALUE_OFF
from study.gpu_check.trials import small_trials
from trainables.contract import TrialSpec
from trainables.distributed.process import own_device, take_gpus, without_gpu
from trainables.distributed.team import ALONE, Team
from trainables.inputs.features import load_data
from trainables.training.fit import Fit

WORKERS = 2
SECONDS = 120.0  # that the two workers get


@dataclass(frozen=True)
class PairCheck:
    """Hold the mean loss of an epoch of two workers, and that of one."""

    backend: str
    losses: tuple[float, ...]  # of each worker
    alone: float

    @property
    def faults(self) -> list[str]:
        """Return what is wrong."""
        if len(set(self.losses)) > 1:
            return [f"the workers disagree: {', '.join(map(str, self.losses))}"]
        off = abs(self.losses[0] - self.alone) / max(abs(self.alone), 1e-12)
        return [f"two workers are {off:.1e} off one"] if not off <= VALUE_OFF else []


def check_pair() -> PairCheck:
    """Train the same epoch with two workers and with one. Raise if the workers fail or hang."""
    several = own_device().type == "cuda" and torch.cuda.device_count() >= WORKERS
    backend = "nccl" if several else "gloo"
    (spec,) = small_trials(("proxy_anchor",))
    with tempfile.TemporaryDirectory() as folder:
        team: Any = spawn(  # type: ignore[no-untyped-call]
            _work, args=(backend, folder, spec), nprocs=WORKERS, join=False
        )
        try:
            until = time.monotonic() + SECONDS
            while not team.join(timeout=1):
                if time.monotonic() > until:
                    raise TimeoutError(f"two workers by {backend} did not end in {SECONDS:g} s")
        finally:
            for process in team.processes:
                process.kill()
        losses = tuple(json.loads(Path(folder, str(i)).read_text()) for i in range(WORKERS))
    return PairCheck(backend, losses, _alone(spec, on_gpu=several))


def _alone(spec: TrialSpec, *, on_gpu: bool) -> float:
    if on_gpu:
        return _epoch(spec, ALONE)
    with without_gpu():
        return _epoch(spec, ALONE)


def _epoch(spec: TrialSpec, team: Team) -> float:
    return Fit(spec, spec.splits[0], load_data(spec), team=team).train_epoch(1)


def _work(rank: int, backend: str, folder: str, spec: TrialSpec) -> None:
    torch.set_num_threads(1)
    if backend == "nccl":
        torch.cuda.set_device(rank)
    else:
        take_gpus(0)
        if sys.platform.startswith("linux"):
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # both are on this machine
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if backend == "nccl" else backend,
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=WORKERS,
        timeout=timedelta(seconds=SECONDS),
    )
    value = _epoch(spec, Team(rank, WORKERS))
    Path(folder, str(rank)).write_text(json.dumps(value))
    dist.destroy_process_group()
