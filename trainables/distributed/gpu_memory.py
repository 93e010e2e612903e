"""Recognise that a GPU's memory is too small, try once more, and let the memory grow in pieces."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")
# Batches differ in size; blocks that grow leave no gaps that nothing fits into.
ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
# Only torch's own allocator raises torch.OutOfMemoryError. Libraries that ask the driver say it in
# words of their own.
WORDS = re.compile(
    r"CUDA out of memory"
    r"|CUDA (driver )?error: out of memory"
    r"|(CUDNN|CUBLAS|CUSOLVER|CUSPARSE|CUFFT)_(STATUS_)?(\w+_)?(ALLOC|ALLOCATION)_FAILED"
    r"|unable to find an engine to execute this computation"  # cuDNN: none fits into the memory
    r"|CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate"  # it has no room for its handle
    r"|Cuda failure (2 )?'out of memory'"  # NCCL
    r"|unhandled cuda error[\s\S]*out of memory"  # NCCL
    r"|Failed to CUDA (host )?(calloc|malloc)",  # NCCL
    re.IGNORECASE,
)


def lacks_memory(error: BaseException | str) -> bool:
    """Return whether an error, or the text of one, says that a GPU's memory is too small."""
    if isinstance(error, str):
        return WORDS.search(error) is not None
    import torch

    if isinstance(error, torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and WORDS.search(str(error)) is not None


def with_memory(work: Callable[[], Result], undo: Callable[[], None] = lambda: None) -> Result:
    """Return what `work` returns. If memory is too small, free what can be freed and try once more.

    work: no other rank waits for it. undo: takes back what a failed try has changed.
    """
    try:
        return work()
    except Exception as error:
        if not lacks_memory(error):
            raise
    # The error is gone by now, and with it the tensors of the frames that it went through.
    free_memory()
    undo()
    return work()


def free_memory() -> None:
    """Give memory that nothing uses back to the GPU."""
    import torch

    gc.collect()  # a DDP module refers to itself
    torch.cuda.empty_cache()  # does nothing where CUDA was never started


def grow_in_pieces() -> None:
    """Let torch's memory on a GPU grow in pieces, unless the user has chosen otherwise."""
    name, value = ALLOCATOR
    if name in os.environ or "PYTORCH_ALLOC_CONF" in os.environ:
        return
    os.environ[name] = value  # read when CUDA starts
    import torch

    # Ray Train starts CUDA before it calls us.
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch._C._accelerator_setAllocatorSettings(value)
