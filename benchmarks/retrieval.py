"""Measure what exact retrieval costs, against the bare matrix product and against faiss.

The set is as large as the test half of SOP. Every contestant is a process of its own, and they take
turns, so that each meets the same machine. The bare product is what nothing exact can avoid: all
queries by all rows, in blocks, into one buffer; it first tries out which block and which order suit
it best. pytorch-metric-learning searches with faiss, also exactly. A ratio is the median of the
ratios to the bare product of the same turn. Memory is the peak of the process over what it held
before its turn: the embeddings and the libraries.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

FULL, QUICK = (60_502, 11_316, 512), (20_000, 3_740, 128)  # embeddings, classes, dimensions
LARGEST = 12  # images of a class, as in SOP; the smallest has 2
WIDTHS = (256, 512, 1024, 2048)
THREE = ("precision_at_1", "r_precision", "map_at_r")
SIX = ("recall_at_1", "recall_at_10", "recall_at_100", "recall_at_1000", "r_precision", "map_at_r")
ROW = "{:<50}{:>9}{:>8}{:>14}{:>8}{:>10}"
Means = dict[str, float]
Job = Callable[[], Means]


class Answer(NamedTuple):
    seconds: float
    worked: float  # seconds of all cores together, which do not depend on other work
    extra: float  # MB
    means: Means


def data(rows: int, classes: int, size: int) -> tuple[Tensor, Tensor]:
    """Return classes of 2 to LARGEST images around random centres; recall_at_1 is about 70 %."""
    generator = torch.Generator().manual_seed(0)
    free = (
        torch.randperm(classes * (LARGEST - 2), generator=generator)[: rows - 2 * classes] % classes
    )
    labels = torch.cat([torch.arange(classes).repeat(2), free])[
        torch.randperm(rows, generator=generator)
    ]
    noise = (size**0.5 / 3.6 - 1) ** 0.5
    centres = torch.randn(classes, size, generator=generator)
    return centres[labels] + noise * torch.randn(rows, size, generator=generator), labels


def bare(embeddings: Tensor, labels: Tensor) -> Job:
    unit = F.normalize(embeddings)

    def block(begin: int, width: int, *, across: bool, buffer: Tensor) -> None:
        queries = unit[begin : begin + width]
        left, right = (unit, queries) if across else (queries, unit)
        torch.mm(left, right.T, out=buffer[: len(left) * len(right)].view(len(left), len(right)))

    def seconds(width: int, across: bool) -> float:
        buffer, spent = torch.empty(width * len(unit)), []
        for begin in (0, width, 2 * width):
            began = time.perf_counter()
            block(begin, width, across=across, buffer=buffer)
            spent.append(time.perf_counter() - began)
        return min(spent) / width

    width, across = min(
        ((width, across) for width in WIDTHS for across in (True, False)),
        key=lambda way: seconds(*way),
    )

    def run() -> Means:
        buffer = torch.empty(width * len(unit))
        for begin in range(0, len(unit), width):
            block(begin, width, across=across, buffer=buffer)
        return {"width": width, "across": across}

    return run


def ours(names: tuple[str, ...]) -> Callable[[Tensor, Tensor], Job]:
    from trainables.metrics.retrieval import score_retrieval

    def prepare(embeddings: Tensor, labels: Tensor) -> Job:
        score_retrieval(embeddings[:1000], labels[:1000], names)
        return lambda: score_retrieval(embeddings, labels, names).means

    return prepare


def theirs(embeddings: Tensor, labels: Tensor) -> Job:
    import faiss
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

    faiss.omp_set_num_threads(torch.get_num_threads())
    names = ("precision_at_1", "r_precision", "mean_average_precision_at_r")
    calculator = AccuracyCalculator(include=names, k="max_bin_count", device=torch.device("cpu"))
    calculator.get_accuracy(embeddings[:1000], labels[:1000])
    unit = F.normalize(embeddings)

    def run() -> Means:
        means = calculator.get_accuracy(unit, labels)
        return {ours: float(means[name]) for ours, name in zip(THREE, names, strict=True)}

    return run


CONTESTANTS: dict[str, Callable[[Tensor, Tensor], Job]] = {
    "bare product": bare,
    "recall at 1/10/100/1000, r_precision, map_at_r": ours(SIX),
    "precision_at_1, r_precision, map_at_r": ours(THREE),
    "the same by pytorch-metric-learning with faiss": theirs,
}


def status(key: str) -> float:
    """Return a line of this process's memory status, in MB."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[key].split()[0]) / 1024


def contest(name: str, shape: tuple[int, int, int], threads: int, pipe: Connection) -> None:
    torch.set_num_threads(threads)
    job = CONTESTANTS[name](*data(*shape))
    while pipe.recv() == "go":
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        held, began, worked = status("VmRSS"), time.perf_counter(), time.process_time()
        means = job()
        pipe.send(
            Answer(
                time.perf_counter() - began,
                time.process_time() - worked,
                status("VmHWM") - held,
                means,
            )
        )


def compete(shape: tuple[int, int, int], threads: int, turns: int) -> list[dict[str, Answer]]:
    context = multiprocessing.get_context("spawn")
    pipes = {name: context.Pipe() for name in CONTESTANTS}
    for name, (_, far) in pipes.items():
        context.Process(target=contest, args=(name, shape, threads, far), daemon=True).start()
        far.close()  # so that a contestant that dies is noticed
    rows: list[dict[str, Answer]] = []
    for _ in range(turns):
        rows.append({})
        for name, (near, _) in pipes.items():
            near.send("go")
            rows[-1][name] = near.recv()
            print(f"  {name}: {rows[-1][name].seconds:.1f} s", file=sys.stderr, flush=True)
    for near, _ in pipes.values():
        near.send("stop")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"{QUICK[0]:,} x {QUICK[2]} instead of {FULL[0]:,} x {FULL[2]}",
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="for everybody")
    parser.add_argument("--turns", type=int, default=3)
    args = parser.parse_args()
    shape = QUICK if args.quick else FULL
    print(
        f"{shape[0]:,} embeddings of {shape[2]} dimensions in {shape[1]:,} classes; "
        f"{os.cpu_count()} cores, {args.threads} threads"
    )
    turns = compete(shape, args.threads, args.turns)
    header = ("seconds", "ratio", "core-seconds", "ratio", "extra MB")
    print(ROW.format(f"median of {args.turns} turns", *header))
    for name in CONTESTANTS:
        pairs = [(turn[name], turn["bare product"]) for turn in turns]
        seconds, worked = (
            median(it.seconds for it, _ in pairs),
            median(it.worked for it, _ in pairs),
        )
        slower, dearer = (
            median(it.seconds / bare.seconds for it, bare in pairs),
            median(it.worked / bare.worked for it, bare in pairs),
        )
        extra = max(it.extra for it, _ in pairs)
        numbers = (
            f"{seconds:.1f}",
            f"{slower:.2f}",
            f"{worked:.1f}",
            f"{dearer:.2f}",
            f"{extra:.0f}",
        )
        print(ROW.format(name, *numbers))
    for name in CONTESTANTS:
        print(
            f"{name}: "
            + ", ".join(f"{key} {value:.4g}" for key, value in turns[-1][name].means.items())
        )


if __name__ == "__main__":
    main()
