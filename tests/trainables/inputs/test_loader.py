"""Batches reach the device in order, ahead of their reader, with the pixels that a CPU cuts."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.support.pretend_gpu import pretend_gpu
from tests.support.pretend_streams import PretendEvent, PretendStream
from tests.support.specs import search
from trainables.contract import ImageTransform, Split
from trainables.datasets.indexing import Index
from trainables.datasets.pixels import Dataset, Pixels
from trainables.inputs.images import Images
from trainables.inputs.loader import AHEAD, Pending, on_device
from trainables.training.fit import Fit

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
LARGE = 2**20  # bytes


def numbered(number: int, before: Callable[[int], None] = lambda _: None) -> Pending:
    """Return a batch of a size of its own that holds its number."""

    def write(target: Tensor) -> None:
        before(number)
        target.fill_(number)

    return Pending((2 + number % 3, 3, 4, 4), torch.uint8, write)


def threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("batches")]


@pytest.fixture(params=[CPU, GPU], ids=str)
def device(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    if request.param == CPU:
        yield CPU
        return
    with pretend_gpu():
        yield GPU


def test_batches_come_in_order_however_long_each_takes(device):
    pauses = np.random.default_rng(0).random(12) / 200
    pending = (numbered(i, lambda i: time.sleep(pauses[i])) for i in range(12))
    found = list(on_device(pending, device))
    assert [each.device for each in found] == [device] * 12
    assert [each.cpu().unique().tolist() for each in found] == [[i] for i in range(12)]
    assert [len(each) for each in found] == [2 + i % 3 for i in range(12)]
    assert list(on_device([], device)) == []


def test_images_are_channels_last_and_features_are_rows(device):
    features = Pending((3, 5), torch.float32, lambda target: target.fill_(0.5))
    image, rows = (next(on_device([each], device)) for each in (numbered(1), features))
    assert image.is_contiguous(memory_format=torch.channels_last)
    assert rows.is_contiguous()
    assert rows.cpu().tolist() == [[0.5] * 5] * 3


def test_a_batch_is_asked_for_before_the_one_before_it_is_written():
    events: list[str] = []

    def asked() -> Iterator[Pending]:
        for i in range(3):
            events.append(f"ask for {i}")
            yield numbered(i, lambda i: events.append(f"write {i}"))

    list(on_device(asked(), CPU))
    assert events == ["ask for 0", "ask for 1", "write 0", "ask for 2", "write 1", "write 2"]


def test_on_a_cpu_no_thread_takes_a_core_from_another_slot():
    seen = []
    list(on_device([numbered(0, lambda _: seen.append(threading.current_thread()))], CPU))
    assert seen == [threading.current_thread()]


def test_an_error_in_a_writing_thread_reaches_the_reader_and_leaves_no_thread(device):
    def fails(number: int) -> None:
        if number == 5:
            raise OSError("the disk is gone")

    found = []
    with pytest.raises(OSError, match="the disk is gone"):
        found.extend(on_device((numbered(i, fails) for i in range(20)), device))
    assert not threads()


def test_an_error_in_drawing_a_batch_leaves_no_thread(device):
    def drawn() -> Iterator[Pending]:
        yield numbered(0)
        raise ValueError("no such row")

    with pytest.raises(ValueError, match="no such row"):
        list(on_device(drawn(), device))
    assert not threads()


def test_a_reader_that_stops_early_leaves_no_thread_and_nothing_to_do(device):
    written = []
    batches = on_device((numbered(i, written.append) for i in range(50)), device)
    next(batches)
    batches.close()
    assert not threads()
    assert set(written) <= set(range(AHEAD + 1))


def test_a_gpu_has_a_few_batches_ahead_and_no_more_memory_than_for_those():
    written, places = set(), set()

    def batch(number: int) -> Pending:
        def write(target: Tensor) -> None:
            written.add(number)
            places.add(target.data_ptr())

        return Pending((4, 3, 8, 8), torch.uint8, write)

    with pretend_gpu() as gpu:
        batches = on_device((batch(i) for i in range(30)), GPU)
        for read, _ in enumerate(batches):
            assert max(written) <= read + AHEAD
    assert len(places) == AHEAD + 1
    assert {kind for kind, _ in gpu.copies} == {"host to device, pinned"}
    assert not gpu.syncs


@pytest.mark.parametrize("waits", [True, False])
def test_memory_is_written_again_only_after_its_copy_has_left_it(monkeypatch, waits):
    with pretend_gpu():
        stream = PretendStream()
        monkeypatch.setattr(torch.cuda, "Stream", lambda device: stream)
        # The host goes on before the reader's stream has waited, so that a copy may be made late.
        monkeypatch.setattr(PretendStream, "wait_event", lambda self, event: None)
        if not waits:  # the bug that this test is for
            monkeypatch.setattr(PretendEvent, "synchronize", lambda self: None)
        found = list(on_device((numbered(i) for i in range(20)), GPU))
        stream.finish()
        right = [each.cpu().unique().tolist() == [i] for i, each in enumerate(found)]
    assert all(right) == waits


TRANSFORM = ImageTransform(
    96, 100, 0.9, "resized", (0.08, 1.0), (3 / 4, 4 / 3), max_shift=0, flip=True
)


def photos() -> Dataset:
    """Make sixty images of several shapes, a panorama among them, in six classes."""
    rng = np.random.default_rng(0)
    shapes = [(100, 133, 3), (120, 100, 3), (100, 400, 3), (100, 100, 3)] * 15
    images = [rng.integers(0, 256, shape, dtype=np.uint8) for shape in shapes]
    flat = np.concatenate([image.ravel() for image in images])
    labels = np.arange(60) % 6
    listed = Index(Path(), (), labels, tuple("abcdef"), (0, 1, 2, 3), (4, 5), "0", channels=3)
    return Dataset(listed, Pixels(flat, np.array(shapes)))


def test_the_crops_of_a_gpu_are_the_cpus_bit_for_bit():
    data = photos()
    images = Images(data, data.index.ids(range(6)), TRANSFORM)
    numbers, rows = images.draws((1,)), np.random.default_rng(1).permutation(60).reshape(6, 10)
    drawn = [images.augmented(batch, numbers) for batch in rows] + [images.plain(rows[0])]
    expected = [each.now() for each in drawn]
    with pretend_gpu():
        found = [each.cpu() for each in on_device(drawn, GPU)]
    assert all(map(torch.equal, found, expected))
    assert {each.dtype for each in found} == {torch.uint8}


def epoch_of_photos() -> tuple[float, dict[str, float]]:
    spec = search("proxy_anchor", batch_size=40, images_per_class=10, steps_per_epoch=3)
    spec = replace(spec, transform=TRANSFORM, model=replace(spec.model, pooling="gap"))
    fit = Fit(spec, Split(train=(0, 1, 2, 3), select=(4, 5), test=()), photos())
    loss = fit.train_epoch(1)
    return loss, fit.score(fit.train).means


def test_an_epoch_and_its_scores_copy_nothing_large_from_pageable_memory():
    expected = epoch_of_photos()
    with pretend_gpu() as gpu:
        assert epoch_of_photos() == expected
    copied = [(kind, size) for kind, size in gpu.copies if kind.startswith("host") and size > LARGE]
    assert len(copied) == 4  # three steps, and the images that are scored
    assert {kind for kind, _ in copied} == {"host to device, pinned"}
