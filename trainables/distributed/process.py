"""Set up a process that trains: one thread, its memory, its device."""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trainables.distributed.gpu_memory import free_memory, grow_in_pieces

if TYPE_CHECKING:
    import torch

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of glibc's mallopt
NEVER = 2**31 - 1
# Otherwise libraries with C++ parts complain at exit that their objects were never freed.
atexit.register(gc.unfreeze)
_share = 1.0  # of a GPU that this process may use


def prepare_process() -> None:
    """Limit the process to one thread and keep freed memory; call once before training."""
    import torch

    torch.set_num_threads(1)  # slots share the machine
    grow_in_pieces()
    _keep_memory()
    _leave_out_compiler()


def take_gpus(share: float) -> None:
    """Limit the GPUs of this process.

    share=0 hides them all, because Ray leaves them visible. In a group that alone is too late: Ray
    Train asks for GPUs before it calls us, and CUDA never looks again; so own_device() knows it,
    too. A fraction limits the memory, so that a neighbour on the same GPU keeps its own.
    """
    global _share
    _share = share
    if not share:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        return
    import torch

    grow_in_pieces()
    if share < 1 and torch.cuda.is_available():
        torch.cuda.set_per_process_memory_fraction(share)


def release_memory() -> None:
    """Free the memory of the last trial, also on a GPU: a neighbour may need it."""
    free_memory()
    # What is left stays with the process. The next collection skips it, which saves a third of a
    # second a trial.
    gc.freeze()


def own_device() -> torch.device:
    """Return this process's device, with its number, because each thread has a current device."""
    import torch

    if _share and torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


@contextmanager
def without_gpu() -> Iterator[None]:
    """Let this process build what it builds inside on the CPU, though it may use a GPU."""
    global _share
    before, _share = _share, 0.0
    try:
        yield
    finally:
        _share = before


def device_name() -> str:
    """Return the model of this process's GPU, or CPU."""
    import torch

    device = own_device()
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


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


def set_tf32(wanted: bool) -> None:
    """Let convolutions on a GPU round their input to TF32, or keep them from it.

    Torch lets them unless told otherwise. Matrix products never do here: losses and metrics are
    float32.
    """
    import torch

    torch.backends.cudnn.fp32_precision = "ieee"  # of what the last line leaves open
    torch.backends.cuda.matmul.fp32_precision = "ieee"
    # Sets the newer fp32_precision of convolutions as well. The other way round, torch's compiler,
    # which reads this one, would raise an error.
    torch.backends.cudnn.allow_tf32 = wanted


def find_cpp_compiler() -> str | None:
    """Return the C++ compiler that torch's compiler would call; None if there is none."""
    usual = "clang++" if sys.platform == "darwin" else "g++"
    return shutil.which(os.environ.get("CXX") or usual)


def _leave_out_compiler() -> None:
    """Let optimisers work without torch's compiler: importing it takes a core-second or more.

    They import it only to tell it what not to compile, and no optimiser here is compiled.
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
