"""Pretend a GPU on a machine without one: CPU kernels, CUDA's rules, host syncs counted.

A tensor on the pretended GPU wraps a CPU tensor. To torch's C++ it lives on PrivateUse1, whose
guards and hooks torch takes from Python, so that autograd runs; to Python it says cuda:0. No CUDA
kernel, stream scheduling, nccl, memory limit or TF32 runs here, and the rules of what makes the
host wait are written by hand, after torch's sources.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from tests.support.pretend_streams import PretendEvent, PretendStream, current_stream, on_stream
from trainables.distributed import process

CUDA, INSIDE = torch.device("cuda", 0), torch.device("privateuseone", 0)
# Ops that tell the host something about the data: mostly the size of their result.
ASKS_THE_DATA = {
    "nonzero", "masked_select", "_unique2", "unique_consecutive", "unique_dim", "bincount", "equal",
    "repeat_interleave.Tensor", "is_nonzero", "multinomial", "_linalg_eigh", "_linalg_svd",
    "linalg_qr", "allclose",
}  # fmt: skip
INDEXES = {"index.Tensor", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index.Tensor"}
MOVES = {"_to_copy", "copy_", "set_.source_Tensor", "_local_scalar_dense"}
# Beside pointwise ops: those that take a CPU tensor without dimensions.
TAKES_SCALARS = {"where.self", "fill_.Tensor", "masked_fill.Tensor", "masked_fill_.Tensor"}
# The documentation of torch.use_deterministic_algorithms says what throws an error on CUDA.
REFUSED = {
    "avg_pool3d_backward", "_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward",
    "adaptive_max_pool2d_backward", "fractional_max_pool2d_backward",
    "fractional_max_pool3d_backward", "max_unpool2d", "max_unpool3d",
    "upsample_linear1d_backward", "upsample_bilinear2d_backward", "upsample_bicubic2d_backward",
    "upsample_trilinear3d_backward", "_upsample_bilinear2d_aa_backward",
    "_upsample_bicubic2d_aa_backward", "reflection_pad1d_backward", "reflection_pad2d_backward",
    "reflection_pad3d_backward", "nll_loss2d_forward", "_ctc_loss_backward", "put_", "histc",
    "median.dim", "nanmedian.dim", "grid_sampler_2d_backward", "grid_sampler_3d_backward",
    "scatter_reduce.two", "scatter_reduce_.two",
}  # fmt: skip


class DeviceMismatch(RuntimeError):
    """Report what CUDA would: tensors of one operation are on two devices."""


class GpuTensor(torch.Tensor):
    """Say cuda:0, and hold a CPU tensor inside."""

    inner: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl
    device = property(lambda self: CUDA)  # type: ignore[assignment]
    is_cuda = property(lambda self: True)  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> GpuTensor:
        self = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            layout=inner.layout,
            device=INSIDE,
            requires_grad=False,
        )
        self.inner = inner
        return self

    def __init__(self, inner: torch.Tensor) -> None:
        pass

    def __deepcopy__(self, memo: Any) -> torch.Tensor:
        with torch.no_grad():
            return self.detach().clone().requires_grad_(self.requires_grad)

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"GpuTensor({self.inner!r})"

    def tolist(self) -> Any:
        _present().sync("device to host")
        return self.inner.tolist()

    def record_stream(self, stream: Any) -> None:
        pass

    def __getitem__(self, index: Any) -> torch.Tensor:
        """NumPy indices become CPU tensors here, as for CUDA, which then copies them."""
        return super().__getitem__(_as_tensors(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(_as_tensors(index), value)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _present().run(func, args, kwargs or {})


def _as_tensors(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(_as_tensors(each) for each in index)
    return torch.from_numpy(index) if isinstance(index, np.ndarray) else index


class PretendGpu:
    """Run operations by CUDA's rules, and count what the host waits for and what is copied."""

    def __init__(self) -> None:
        self.syncs: Counter[tuple[str, str]] = Counter()  # (what, where) -> times
        self.ops: Counter[str] = Counter()
        self.copies: list[tuple[str, int]] = []  # kind and bytes of each copy between devices
        self.debug = "default"  # torch.cuda's sync debug mode
        self._pinned: dict[int, StorageWeakRef] = {}
        self._lock = threading.Lock()

    def sync(self, what: str) -> None:
        """Count one time that the host waits for the device, and where in the project."""
        with self._lock:
            self.syncs[what, _where()] += 1
        if self.debug == "warn":
            warnings.warn("called a synchronizing CUDA operation", stacklevel=2)

    @property
    def refused(self) -> set[str]:
        """Return the operations so far that torch's deterministic mode refuses on CUDA."""
        return REFUSED & self.ops.keys()

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        storage = tensor.untyped_storage()
        there = self._pinned.get(storage.data_ptr())
        return there is not None and not there.expired()

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        """Make the memory of this tensor count as pinned."""
        storage = tensor.untyped_storage()
        self._pinned[storage.data_ptr()] = StorageWeakRef(storage)
        return tensor

    def run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Run an operation on what is inside, after the checks that CUDA makes."""
        name = func._schema.name.removeprefix("aten::")
        if func._schema.overload_name:
            name += f".{func._schema.overload_name}"
        flat, spec = tree_flatten((args, kwargs))
        ours = [leaf for leaf in flat if isinstance(leaf, GpuTensor)]
        target = torch.device(kwargs["device"]) if kwargs.get("device") is not None else None
        to_gpu = target is not None and target.type != "cpu" and target.type != "meta"
        if not ours and not to_gpu:
            return self._on_cpu(func, name, args, kwargs)
        plain = [leaf for leaf in flat if _is_plain(leaf)]
        with self._lock:
            self.ops[name] += 1
        _check_devices(func, name, args, ours, plain)
        delayed = self._count(name, args, kwargs, target)
        in_args, in_kwargs = tree_unflatten([_inside(leaf) for leaf in flat], spec)
        in_kwargs.pop("pin_memory", None)
        out = func(*in_args, **in_kwargs)
        if delayed:
            current_stream().delay(
                _inside(args[0] if name == "copy_" else out), _source(name, args)
            )
        if name == "_local_scalar_dense":
            return out
        if name == "copy_":
            return args[0]
        if not (to_gpu if target is not None else ours):
            return out
        return _wrap(func, args, kwargs, out, ours)

    def _on_cpu(self, func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        if name == "is_pinned":
            return self.is_pinned(args[0])
        if name in ("pin_memory", "_pin_memory"):
            return self.pin(args[0].clone())
        out = func(*args, **{key: each for key, each in kwargs.items() if key != "pin_memory"})
        return self.pin(out) if kwargs.get("pin_memory") else out

    def _count(self, name: str, args: Any, kwargs: Any, target: torch.device | None) -> bool:
        """Count syncs and copies; return whether this is a copy that another stream makes later."""
        if name == "_local_scalar_dense":
            self.sync("item()")
        elif name in ASKS_THE_DATA:
            self.sync(name)
        elif name == "_to_copy" and target is not None:
            return self._move(args[0], target.type != "cpu", kwargs.get("non_blocking", False))
        elif name == "copy_":
            return self._move(
                args[1], isinstance(args[0], GpuTensor), (*args, False)[2], target=args[0]
            )
        elif name in INDEXES:
            for index in args[1]:
                if index is not None:
                    self._count_index(index, args[2] if len(args) > 2 else None)
        return False

    def _count_index(self, index: torch.Tensor, value: Any) -> None:
        if not isinstance(index, GpuTensor):
            self.sync("index from the host")
            return
        # With one value torch makes a masked_fill of it.
        one = isinstance(value, torch.Tensor) and value.numel() == 1
        if index.dtype in (torch.bool, torch.uint8) and not one:
            self.sync("boolean mask")

    def _move(
        self,
        source: torch.Tensor,
        there: bool,
        non_blocking: bool,
        target: torch.Tensor | None = None,
    ) -> bool:
        here = isinstance(source, GpuTensor)
        if here == there:
            return False
        if here:
            kind = "device to host"
            if not (non_blocking and target is not None and self.is_pinned(target)):
                self.sync(kind)
        else:
            pinned = self.is_pinned(source)
            kind = "host to device, pinned" if pinned else "host to device, pageable"
            if not (pinned and non_blocking):
                self.sync(kind)
        with self._lock:
            self.copies.append((kind, source.numel() * source.element_size()))
        return not here and pinned and non_blocking and current_stream().side


class _Mode(TorchDispatchMode):
    """Send the operations of one thread to the pretended GPU."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _present().run(func, args, kwargs or {})


def _is_plain(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and not isinstance(leaf, GpuTensor)


def _inside(leaf: Any) -> Any:
    if isinstance(leaf, GpuTensor):
        return leaf.inner
    return torch.device("cpu") if isinstance(leaf, torch.device) and leaf.type != "meta" else leaf


def _source(name: str, args: Any) -> torch.Tensor:
    source: torch.Tensor = args[1] if name == "copy_" else args[0]
    return source


def _wrap(func: Any, args: Any, kwargs: Any, out: Any, ours: list[GpuTensor]) -> Any:
    known = {id(each.inner): each for each in ours}

    def outside(each: Any) -> Any:
        if not isinstance(each, torch.Tensor):
            return each
        return known[id(each)] if id(each) in known else GpuTensor(each)

    wrapped = tree_map(outside, out)
    if func._schema.name.startswith("c10d::") or not ours:
        return wrapped
    return return_and_correct_aliasing(func, args, kwargs, wrapped)


def _check_devices(
    func: Any, name: str, args: Any, ours: list[GpuTensor], plain: list[torch.Tensor]
) -> None:
    """Raise as CUDA does: one device for all but copies, indices and scalars on the CPU."""
    if not ours or not plain or name in MOVES or name.startswith("c10d::"):
        return
    if name in INDEXES:
        value = args[2] if len(args) > 2 else None
        if not isinstance(args[0], GpuTensor):
            raise DeviceMismatch(f"{name}: indices on cuda:0, values on the CPU, at {_where()}")
        if isinstance(value, torch.Tensor) and _is_plain(value) and value.dim():
            raise DeviceMismatch(f"{name}: values on cuda:0 and on the CPU, at {_where()}")
        return
    scalars = (
        torch.Tag.pointwise in func.tags
        or name in TAKES_SCALARS
        or name.startswith(("_foreach_", "_fused_"))
    )
    shapes = [tuple(each.shape) for each in plain if each.dim() or not scalars]
    if shapes:
        raise DeviceMismatch(f"{name}: on cuda:0, and on the CPU {shapes}, at {_where()}")


def _where() -> str:
    """Return the innermost line of trainables/, below that of the loss library if it is there."""
    frame, library = sys._getframe(1), ""
    while frame:
        path = frame.f_code.co_filename
        if not library and "/pytorch_metric_learning/" in path:
            library = f"{path.rsplit('/', 1)[-1]}:{frame.f_lineno} < "
        if "/trainables/" in path and "/tests/" not in path:
            return f"{library}{path.rsplit('/trainables/', 1)[-1]}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return library or "(torch)"


_pretending: list[PretendGpu] = []


def _present() -> PretendGpu:
    if not _pretending:
        raise RuntimeError("A tensor of the pretended GPU is used after pretend_gpu() has ended.")
    return _pretending[-1]


class _Backend(torch.utils.backend_registration._DummyBackendModule):
    """Answer what torch asks the accelerator, which is this from now on: fork_rng, checkpoint."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]

    def get_rng_state(self, device: Any = None) -> torch.Tensor:
        return torch.zeros(16, dtype=torch.uint8)

    def set_rng_state(self, state: Any, device: Any = None) -> None:
        pass

    def manual_seed(self, seed: int) -> None:
        pass


_registered: list[bool] = []


def _register_backend() -> None:
    if not _registered:
        torch.utils.backend_registration._setup_privateuseone_for_python_backend(
            rename="pretended", backend_module=_Backend()
        )
        _registered.append(True)


def _in_the_mode(run: Any) -> Any:
    def inside(thread: threading.Thread) -> None:
        with _Mode():
            run(thread)

    return inside


@contextmanager
def pretend_gpu() -> Iterator[PretendGpu]:
    """Give the process one GPU inside, also in the threads that it starts there."""
    _register_backend()
    state = torch.zeros(16, dtype=torch.uint8)
    gpu = PretendGpu()
    answers = {
        "is_available": lambda: True, "is_initialized": lambda: True, "_lazy_init": lambda: None,
        "device_count": lambda: 1, "current_device": lambda: 0, "set_device": lambda device: None,
        "get_rng_state": lambda device=None: state, "manual_seed": lambda seed: None,
        "set_rng_state": lambda state, device=None: None, "empty_cache": lambda: None,
        "synchronize": lambda device=None: gpu.sync("synchronize()"),
        "get_device_capability": lambda device=None: (8, 0),
        "get_device_name": lambda device=None: "Pretended GPU",
        "get_device_properties": lambda device=None: SimpleNamespace(total_memory=2**34),
        "reset_peak_memory_stats": lambda device=None: None,
        "max_memory_allocated": lambda device=None: 2**30,
        "set_sync_debug_mode": lambda mode: setattr(gpu, "debug", mode),
        "is_bf16_supported": lambda *args, **kwargs: True,
        "Stream": PretendStream, "Event": PretendEvent, "stream": on_stream,
        "current_stream": lambda device=None: current_stream(),
        "default_stream": lambda device=None: current_stream(default=True),
    }  # fmt: skip
    with ExitStack() as stack:
        for name, answer in answers.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, answer))
        # A slot that an earlier test has made in this process may have had no share of a GPU.
        stack.enter_context(mock.patch.object(process, "_share", 1.0))
        run = _in_the_mode(threading.Thread.run)
        stack.enter_context(mock.patch.object(threading.Thread, "run", run))
        lifted = torch._C._only_lift_cpu_tensors()
        torch._C._set_only_lift_cpu_tensors(True)
        stack.callback(torch._C._set_only_lift_cpu_tensors, lifted)
        # Otherwise a process that has once run autograd without this backend cannot with it.
        stack.enter_context(torch.autograd.set_multithreading_enabled(False))
        _pretending.append(gpu)
        stack.callback(_pretending.pop)
        stack.enter_context(_Mode())
        yield gpu
