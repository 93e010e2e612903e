"""Set up a process that trains: one thread, its memory, its device."""

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
# Otherwise libraries with C++ parts complain at exit that their objects were never freed.
atexit.register(gc.unfreeze)


def prepare_process() -> None:
    """Limit the process to one thread and keep freed memory; call once before training."""
    import torch

    torch.set_num_threads(1)  # slots share the machine
    _keep_memory()
    _leave_out_compiler()


def take_gpus(share: float) -> None:
    """Limit the GPUs of this process before CUDA starts.

    share=0 hides them all, because Ray leaves them visible. A fraction limits the memory, so that a
    neighbour on the same GPU keeps its own.
    """
    if not share:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        return
    import torch

    if share < 1 and torch.cuda.is_available():
        torch.cuda.set_per_process_memory_fraction(share)


def release_memory() -> None:
    """Free the memory of the last trial, also on a GPU: a neighbour may need it."""
    import torch

    gc.collect()  # a DDP module refers to itself
    # What is left stays with the process. The next collection skips it, which saves a third of a
    # second a trial.
    gc.freeze()
    torch.cuda.empty_cache()  # does nothing where CUDA was never started


def own_device() -> torch.device:
    """Return this process's device, with its number, because each thread has a current device."""
    import torch

    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def set_deterministic(wanted: bool) -> None:
    """Make equal inputs give equal bits, also on a GPU.

    This is slower, and an operation without a deterministic implementation raises an error.
    """
    import torch

    if wanted:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA starts
    # use_deterministic_algorithms() also imports torch's compiler to set an option of it.
    torch.set_deterministic_debug_mode("error" if wanted else "default")
    torch.backends.cudnn.benchmark = not wanted


def _leave_out_compiler() -> None:
    """Let optimisers work without torch's compiler: importing it takes a core-second or more.

    They import it only to tell it what not to compile, and nothing here is compiled.
    """
    import torch

    kinds: list[type] = [torch.optim.Optimizer]
    for kind in kinds:  # grows on the way
        kinds += kind.__subclasses__()
        for name, method in list(vars(kind).items()):
            wrapper = getattr(getattr(method, "__code__", None), "co_qualname", "")
            if wrapper == "_disable_dynamo.<locals>.inner":
                setattr(kind, name, method.__wrapped__)
            elif wrapper == "_use_grad_for_differentiable.<locals>._use_grad":
                setattr(kind, name, torch.no_grad()(method.__wrapped__))


def _keep_memory() -> None:
    """Keep large tensors on the heap, or every step asks the system for zeroed pages again."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # not glibc: nothing to set
        return
    mallopt(M_MMAP_MAX, 0)
    mallopt(M_TRIM_THRESHOLD, NEVER)
