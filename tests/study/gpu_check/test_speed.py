"""Speed, memory and a checkpoint are measured on whatever device there is."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from study.gpu_check.speed import Speed, measure_checkpoint, measure_speeds, usual_work
from study.gpu_check.trials import ON_CPU, ON_GPU, Workload
from tests.support.pretend_gpu import pretend_gpu

SMALL = Workload("tiny", image_size=32, batch_size=8, steps=2)


@pytest.mark.parametrize("gpu", [False, True])
def test_both_precisions_are_measured(gpu):
    with pretend_gpu() if gpu else nullcontext():
        found = measure_speeds(SMALL)
    assert [speed.precision for speed in found] == ["float32", "bfloat16"]
    for speed in found:
        assert min(speed.input_rate, speed.step_rate, speed.epoch_rate) > 0
        assert 0 < speed.busy <= 1
        assert (speed.peak_bytes is not None) == gpu


def test_a_device_is_as_busy_as_its_input_lets_it_be():
    assert Speed("float32", SMALL, 50, 100, 36, None).busy == pytest.approx(0.36)
    assert Speed("float32", SMALL, 500, 100, 101, None).busy == 1


def test_a_gpu_is_timed_at_the_usual_size():
    assert usual_work() == ON_CPU
    with pretend_gpu():
        assert usual_work() == ON_GPU


@pytest.mark.parametrize("gpu", [False, True])
def test_a_checkpoint_is_written_below_the_folder_and_removed(gpu, tmp_path: Path):
    with pretend_gpu() if gpu else nullcontext():
        cost = measure_checkpoint(SMALL, tmp_path / "not" / "there")
    assert cost.bytes > 10_000
    assert 0 <= cost.pause <= cost.seconds
    assert not list(tmp_path.iterdir())
