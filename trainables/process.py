"""How a process that trains is set up: one thread of its own, freed memory kept for the next step, its device."""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of glibc's mallopt
NEVER = 2**31 - 1
atexit.register(gc.unfreeze)  # else libraries with C++ parts complain at the end that they were never freed


def settle() -> None:
    """Once per process, before it trains on a CPU."""
    import torch

    torch.set_num_threads(1)  # slots share the machine
    _keep_memory()


def take_gpus(share: float) -> None:
    """Of this process, before CUDA starts: none, although Ray leaves them in sight; or a part of one, so that a neighbour keeps its own."""
    if not share:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        return
    import torch

    if share < 1 and torch.cuda.is_available():
        torch.cuda.set_per_process_memory_fraction(share)


def release() -> None:
    """Memory of the last trial, also that of a GPU: a neighbour may need it."""
    import torch

    gc.collect()  # a DDP module refers to itself
    gc.freeze()  # what is left stays with the process: the next look passes it over, which saves a third of a second a trial
    torch.cuda.empty_cache()  # nothing where CUDA was never started


def own_device() -> torch.device:
    """With its number: threads that cut batches have a current device of their own."""
    import torch

    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")


def set_deterministic(wanted: bool) -> None:
    """Same inputs, same bits, also on a GPU: slower, and an operation that has no such way raises an error."""
    import torch

    if wanted:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA starts
    torch.use_deterministic_algorithms(wanted)
    torch.backends.cudnn.benchmark = not wanted


def _keep_memory() -> None:
    """Large tensors come from the heap and stay there; else every step asks the system for zeroed pages again."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # not glibc: nothing to set
        return
    mallopt(M_MMAP_MAX, 0)
    mallopt(M_TRIM_THRESHOLD, NEVER)
