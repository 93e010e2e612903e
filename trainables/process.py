"""How a process that trains is set up: one thread of its own, and freed memory kept for the next step."""

import ctypes

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of glibc's mallopt
NEVER = 2**31 - 1


def settle() -> None:
    """Once per process, before it trains on a CPU."""
    import torch

    torch.set_num_threads(1)  # slots share the machine
    _keep_memory()


def _keep_memory() -> None:
    """Large tensors come from the heap and stay there; else every step asks the system for zeroed pages again."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # not glibc: nothing to set
        return
    mallopt(M_MMAP_MAX, 0)
    mallopt(M_TRIM_THRESHOLD, NEVER)
