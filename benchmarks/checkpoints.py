"""Measure what checkpoints cost training: ResNet-50 with AdamW, saved to a disk of 150 MB/s.

Slots train the same trial without checkpoints, with checkpoints in the background, and with
checkpoints that they wait for, in turns of a few epochs in one process. The disk is throttled: its
writer sleeps. What counts is the time of the training steps and of the copies, until the last epoch
of a turn has ended; a checkpoint that is still being written then ends before the next turn begins.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from study.config.plan import expand
from study.config.study_config import make
from study.presets import quickstart
from trainables.contract import TrialSpec
from trainables.outputs.checkpoints import HashingFile, Saving, checkpoints_in, newest_whole
from trainables.workers.slot import Slot
from trainables.workers.worker import Worker

ROW = "{:<66}{:>22}"
NEVER = 1e9  # seconds


class PatientWorker(Worker):
    """Wait for every checkpoint, as a worker without a background thread would."""

    def save(self, folder: str) -> None:
        super().save(folder)
        assert self.saver.thread is not None
        self.saver.thread.join()


class TimedSlot(Slot):
    """Note how long training stood still for each checkpoint."""

    def setup(self, config: dict[str, Any], **more: Any) -> None:
        self.pauses: list[float] = []
        super().setup(config, **more)

    def _save(self) -> None:
        began = time.perf_counter()
        super()._save()
        self.pauses.append(time.perf_counter() - began)


class PatientSlot(TimedSlot):
    kind = PatientWorker


def throttled(rate: float) -> Callable[[HashingFile, memoryview | bytes], None]:
    """Return a write that takes at most so many bytes per second."""
    real = HashingFile._write

    def write(file: HashingFile, chunk: memoryview | bytes) -> None:
        began = time.perf_counter()
        real(file, chunk)
        time.sleep(max(0.0, len(chunk) / rate - (time.perf_counter() - began)))

    return write


def trial(steps: int) -> TrialSpec:
    """Return a trial of ResNet-50 on sketches, long enough for every turn."""
    config = make(
        quickstart()
        | {
            "losses": ["contrastive"],
            "protocols": ["fixed_validation"],
            "backbone": "resnet50",
            "train": "all",
            "weights": "none",
            "embedding_size": 512,
            "image_size": 64,
            "batch_size": 16,
            "images_per_class": 4,
            "max_classes": 10,
            "steps_per_epoch": steps,
            "epochs": 1000,
            "baselines": False,
        }
    )
    plan = expand(config)
    cell = plan.cells[0]
    return plan.spec(cell, "search", config.seed, plan.published(cell.loss))


def settle(slot: Slot) -> None:
    """Wait until nothing is being written."""
    assert isinstance(slot.worker, Worker)
    while slot.worker.saver.progress().is_busy:
        time.sleep(0.01)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=6, help="of each slot in a turn")
    parser.add_argument("--steps", type=int, default=3, help="of an epoch")
    parser.add_argument("--seconds", type=float, default=10.0, help="checkpoint_seconds")
    parser.add_argument("--rate", type=float, default=150.0, help="of the disk, MB/s")
    chosen = parser.parse_args()
    spec = trial(chosen.steps)
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} at the start", flush=True)
    with (
        tempfile.TemporaryDirectory() as place,
        mock.patch.object(HashingFile, "_write", throttled(chosen.rate * 1e6)),
    ):
        homes = {name: Path(place, name) for name in ("none", "background", "waited for")}
        kinds: list[tuple[type[TimedSlot], float]] = [
            (TimedSlot, NEVER),
            (TimedSlot, chosen.seconds),
            (PatientSlot, chosen.seconds),
        ]
        slots = {
            name: kind({"spec": spec, "saving": Saving(str(home), seconds)})
            for (name, home), (kind, seconds) in zip(homes.items(), kinds, strict=True)
        }
        for slot in slots.values():
            slot.step()  # builds the network
            settle(slot)
        taken: dict[str, list[float]] = {name: [] for name in slots}
        for _ in range(chosen.turns):
            for name, slot in slots.items():
                began = time.perf_counter()
                for _ in range(chosen.epochs):
                    slot.step()
                taken[name].append((time.perf_counter() - began) / chosen.epochs)
                settle(slot)
        newest = newest_whole(checkpoints_in(homes["background"]))
        assert newest is not None
        size = sum(path.stat().st_size for path in newest.iterdir()) / 1e6
        count = int(checkpoints_in(homes["background"])[-1].name[-6:])
        print(ROW.format("a checkpoint", f"{size:.0f} MB"))
        print(ROW.format(f"checkpoints in {chosen.turns * chosen.epochs} epochs", str(count)))
        for name, seconds in taken.items():
            spread = f"{statistics.mean(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f}) s"
            print(ROW.format(f"an epoch, checkpoints: {name}", spread))
        for name in ("background", "waited for"):
            ratio = sum(taken[name]) / sum(taken["none"])
            print(ROW.format(f"  time lost, checkpoints: {name}", f"{100 * (ratio - 1):+.1f} %"))
            pause = statistics.median(slots[name].pauses)
            print(ROW.format("  training stands still for each: median", f"{pause:.3f} s"))
    print(f"load {os.getloadavg()[0]:.1f} at the end", flush=True)


if __name__ == "__main__":
    main()
