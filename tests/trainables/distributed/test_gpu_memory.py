"""Want of memory is known in every library's words, and tried again once."""

import gc
import subprocess
import sys
import weakref

import pytest
import torch

from trainables.distributed.gpu_memory import ALLOCATOR, lacks_memory, with_memory

# As torch 2.15 and its libraries print them.
SAID = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total"),
    RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
    torch.AcceleratorError("CUDA error: out of memory"),
    RuntimeError("CUDA driver error: out of memory"),
    RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
    RuntimeError("GET was unable to find an engine to execute this computation"),
    RuntimeError("FIND was unable to find an engine to execute this computation"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"),
    RuntimeError("cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate`"),
    RuntimeError(
        "NCCL error in: ProcessGroupNCCL.cpp:77, unhandled cuda error (run with NCCL_DEBUG=INFO "
        "for details), NCCL version 2.29.3\nncclUnhandledCudaError: Call to CUDA function failed.\n"
        "Last error:\nCuda failure 2 'out of memory'"
    ),
    torch.distributed.DistBackendError("Last error:\nCuda failure 'out of memory'"),
    torch.distributed.DistBackendError("Failed to CUDA calloc 6291456 bytes"),
]
# Errors of the code, of a device or of another process.
OTHERS = [
    RuntimeError("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"),
    RuntimeError("CUDA error: device-side assert triggered"),
    RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"),
    RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`"),
    RuntimeError("NCCL error: unhandled system error, remote process exited"),
    ValueError("CUDA out of memory"),
    OSError(28, "No space left on device"),
]


def name(error: Exception) -> str:
    return str(error).splitlines()[-1][:60]


@pytest.mark.parametrize("error", SAID, ids=name)
def test_want_of_memory_is_known_in_the_words_of_every_library(error: Exception):
    assert lacks_memory(error)


@pytest.mark.parametrize("error", SAID, ids=name)
def test_want_of_memory_is_known_by_its_text_alone(error: Exception):
    assert lacks_memory(f"Traceback (most recent call last):\n  ...\n{error}\n")


@pytest.mark.parametrize("error", OTHERS, ids=name)
def test_no_other_error_is_taken_for_want_of_memory(error: Exception):
    assert not lacks_memory(error)


def test_work_that_lacked_memory_is_tried_once_more_after_its_tensors_are_freed():
    held: list[weakref.ref[torch.Tensor]] = []

    def work() -> str:
        assert all(tensor() is None for tensor in held), "what the first try held is gone"
        tensor = torch.ones(3)
        held.append(weakref.ref(tensor))
        if len(held) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return "fits"

    gc.disable()  # free_memory() collects, whatever Python would do
    try:
        assert with_memory(work) == "fits"
    finally:
        gc.enable()
    assert len(held) == 2


@pytest.mark.parametrize(("error", "tries"), [(SAID[0], 2), (OTHERS[0], 1)])
def test_the_second_want_of_memory_and_any_other_error_are_raised(error: Exception, tries: int):
    tried = []

    def work() -> None:
        tried.append(1)
        raise error

    with pytest.raises(type(error)):
        with_memory(work)
    assert len(tried) == tries


KEYS = (ALLOCATOR[0], "PYTORCH_ALLOC_CONF")
CHOSEN = [
    ({}, 1, ALLOCATOR[1]),
    ({}, 0.5, ALLOCATOR[1]),
    ({}, 0, None),
    ({KEYS[0]: "max_split_size_mb:64"}, 1, "max_split_size_mb:64"),
    ({KEYS[1]: "max_split_size_mb:64"}, 1, None),
]
ASKED = """
import ast, os, sys
import torch
from trainables.distributed.process import take_gpus

keys, cases = ast.literal_eval(sys.argv[1])
for chosen, share in cases:
    for key in keys:
        os.environ.pop(key, None)
    os.environ.update(chosen)
    take_gpus(share)
    print(os.environ.get(keys[0]), torch.cuda.is_initialized())
"""


def test_memory_grows_in_pieces_from_before_cuda_starts_unless_the_user_says_otherwise():
    """One process for all cases: to import torch takes longer than all of them."""
    cases = [(chosen, share) for chosen, share, _ in CHOSEN]
    done = subprocess.run(
        [sys.executable, "-c", ASKED, repr((KEYS, cases))],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [f"{kept} False" for _, _, kept in CHOSEN]
