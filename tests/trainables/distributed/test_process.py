"""A process that trains is set up once."""

import os
import subprocess
import sys

import pytest
import torch

from trainables.distributed import process
from trainables.distributed.process import (
    device_name,
    own_device,
    set_deterministic,
    set_tf32,
    take_gpus,
    without_gpu,
)

PROGRAM = """
import torch
from pathlib import Path
from trainables.distributed.process import prepare_process

prepare_process()
assert torch.get_num_threads() == 1

def faults():
    return int(Path("/proc/self/stat").read_text().rsplit(")")[1].split()[7])

for _ in range(20):
    torch.ones(2**24)  # 64 MB: mapped and unmapped each time by default
before = faults()
for _ in range(10):
    torch.ones(2**24)
print(faults() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_that_was_freed_is_used_again_without_asking_the_system():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 20_000  # pages; ten times 64 MB are 163,840 of them


TRAINED = """
import torch
from trainables.distributed.process import release_memory

torch.optim.AdamW(torch.nn.Linear(2, 2).parameters())  # brings in all that torch has
release_memory()
"""


@pytest.mark.slow
def test_a_process_that_trained_ends_without_a_word():
    done = subprocess.run(
        [sys.executable, "-c", TRAINED], capture_output=True, text=True, check=True
    )
    assert done.stdout + done.stderr == ""


STEPS = """
import sys
import torch
from trainables.distributed.process import prepare_process, set_deterministic

if sys.argv[1] == "prepared":
    prepare_process()
    set_deterministic(True)
torch.manual_seed(0)
network = torch.nn.Linear(4, 3)
for kind in (torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop, torch.optim.Adam):
    optimiser = kind(network.parameters(), lr=0.1, weight_decay=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        network(torch.randn(5, 4)).square().sum().backward()
        optimiser.step()
assert not network.weight.grad_fn
print(network.weight.double().tolist())
print("torch._dynamo" in sys.modules, "torch._inductor" in sys.modules, file=sys.stderr)
"""


@pytest.mark.slow
def test_optimisers_step_as_before_without_the_compiler_that_they_would_import():
    ours, torchs = (
        subprocess.run(
            [sys.executable, "-c", STEPS, how], capture_output=True, text=True, check=True
        )
        for how in ("prepared", "plain")
    )
    assert ours.stdout == torchs.stdout
    assert ours.stderr.split() == ["False", "False"]


@pytest.mark.parametrize(("share", "seen"), [(0.0, ""), (0.5, "0"), (1.0, "0")])
def test_a_process_without_a_share_sees_no_gpu(
    share: float, seen: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")  # as Ray leaves it
    monkeypatch.setattr(process, "_share", 1.0)
    fractions: list[float] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", fractions.append)
    take_gpus(share)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == seen
    assert fractions == [share] * (share == 0.5)


def test_a_worker_without_a_share_trains_on_the_cpu_though_cuda_has_started_before(
    monkeypatch: pytest.MonkeyPatch,
):
    """Ray Train asks torch for GPUs before it calls a worker; from then on CUDA knows them."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setattr(process, "_share", 1.0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    take_gpus(0.0)
    assert own_device() == torch.device("cpu")
    take_gpus(1.0)
    assert own_device() == torch.device("cuda", 0)


def test_the_device_is_the_current_gpu_with_its_number(monkeypatch: pytest.MonkeyPatch):
    assert own_device() == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert own_device() == torch.device("cuda", 1)


def test_the_device_has_a_name_and_can_be_left_out(monkeypatch: pytest.MonkeyPatch):
    assert device_name() == "CPU"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"Tesla T4 at {device}")
    assert device_name() == "Tesla T4 at cuda:0"
    with without_gpu():
        assert own_device() == torch.device("cpu")
    assert own_device() == torch.device("cuda", 0)


@pytest.mark.parametrize(("wanted", "convolutions"), [(True, "tf32"), (False, "ieee")])
def test_convolutions_round_to_tf32_only_if_wanted_and_matrix_products_never(wanted, convolutions):
    set_tf32(wanted)
    assert torch.backends.cudnn.conv.fp32_precision == convolutions
    assert torch.backends.cuda.matmul.fp32_precision == "ieee"
    assert torch.backends.cudnn.allow_tf32 == wanted  # torch's compiler reads this one


def test_deterministic_mode_is_set_and_taken_back(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    set_deterministic(True)
    assert torch.are_deterministic_algorithms_enabled()
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    set_deterministic(False)
    assert not torch.are_deterministic_algorithms_enabled()
