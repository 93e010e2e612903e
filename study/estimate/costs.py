"""Estimate what a study costs: hours from the pace of its trials and what comes before them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from study.config.plan import StudyPlan
from study.driver.preflight import feature_passes, images_to_decode
from study.estimate.counts import CellCounts
from study.estimate.disk import cache_disk, count_images, disk
from study.estimate.pace import (
    EarlierPaces,
    Pace,
    Probe,
    StepShape,
    earlier_paces,
    epoch_work,
    split_sizes,
    step_shape,
    timed,
)
from trainables.datasets.indexing import index
from trainables.datasets.pixels import cache_bytes, decode_at, is_decoded
from trainables.distributed.process import own_device, prepare_process
from trainables.inputs.feature_cache import FeaturePass

SAMPLED = 16  # images that are timed, at least
SAMPLED_PIXELS = 2**19  # per channel, that go through a trunk when it is timed
START_UP = 35  # seconds until the first epoch of a study; measured on two cores
CONTENTION = 1.4  # how much slots on one machine slow each other, at most; measured on two cores


def estimate(plan: StudyPlan, counts: Sequence[CellCounts], *, slots: int) -> dict[str, Any]:
    """Return wall seconds, hours of one worker and bytes; ranges are [low, high].

    A worker is a GPU, or without one a core: its hours do not depend on what else this machine
    does, but the wall seconds do.
    """
    costs: dict[str, Any] = {
        "seconds": None,
        "worker_hours": None,
        "worker": None,
        "preparation": [],
        "time_from": None,
        "slots": slots,
        "disk_bytes": None,
        "cache_bytes": cache_disk(plan),
        "unknown": obstacle(plan),
    }
    costs["disk_bytes"] = disk(plan, counts, slots=slots)
    if costs["unknown"]:
        return costs
    earlier = earlier_paces(plan)
    missing = [cell for cell in plan.cells if step_shape(plan, cell) not in earlier.paces]
    low, high = trial_seconds(plan, counts, earlier.paces)
    first = preparation(plan)
    before = sum(each.core_seconds for each in first)
    at_once = slots * plan.config.workers  # as if a trial's workers shared its work without loss
    start = START_UP + before / (os.cpu_count() or 1)
    wall = start + low / at_once, start + CONTENTION * high / at_once
    return costs | {
        "seconds": [round(part) for part in wall],
        "worker_hours": [round((before + part) / 3600, 3) for part in (low, high)],
        "worker": "GPU" if own_device().type == "cuda" else "core",
        "preparation": [asdict(each) for each in first],
        "time_from": _time_source(earlier, timed=len(missing)),
    }


@dataclass(frozen=True)
class Preparation:
    """Hold what is done once for this machine before the first trial, and what it takes."""

    what: str
    images: int
    core_seconds: float


def preparation(plan: StudyPlan) -> list[Preparation]:
    """Return what is still to decode and to compute, timed on a few images."""
    found, side, resize = [], plan.config.cache_size, plan.config.resize
    for dataset in images_to_decode(plan):
        ref = plan.dataset_ref(dataset)
        if cache_bytes(ref, side, resize) and not is_decoded(ref, side, resize):
            listed = index(ref)
            files = [listed.files[i] for i in listed.ids(listed.train + listed.test)]
            few = files[:: max(1, len(files) // SAMPLED)][:SAMPLED]
            decode = partial(decode_at, listed.root, side=side, resize=resize)
            each = timed(lambda: [decode(file) for file in few]) / len(few)  # noqa: B023
            found.append(Preparation(f"decode {dataset}", len(files), each * len(files)))
    for wanted in feature_passes(plan):
        if not wanted.is_cached:
            crops = "" if wanted.view is None else f", view {wanted.view + 1}"
            what = f"compute the features of {wanted.dataset_ref.dataset}{crops}"
            images = len(wanted.ids)
            found.append(Preparation(what, images, images * _seconds_of_image(wanted)))
    return found


def _seconds_of_image(wanted: FeaturePass) -> float:
    """Return the core-seconds of cropping one image and its way through the trunk.

    Neither depends on what the image shows, nor on the trunk's weights.
    """
    import torch

    from study.estimate.pretended import pretended_images
    from trainables.inputs.images import Images
    from trainables.networks.network import HeadConfig, build_network

    prepare_process()
    data = pretended_images(wanted.dataset_ref, wanted.transform)
    network = build_network(
        wanted.backbone,
        data.index.channels,
        head=HeadConfig(0),
        pooling=wanted.pooling,
        weights=None,
        freeze_bn=True,
        bf16=wanted.precision == "bfloat16",
        seed=0,
    )
    device = own_device()
    network = network.to(device).eval()
    count = max(SAMPLED, SAMPLED_PIXELS // wanted.transform.image_size**2)
    images = Images(data, wanted.ids[:count], wanted.transform)
    rows, numbers = np.arange(len(images)), images.draws((0,))

    def work() -> torch.Tensor:
        crops = images.plain(rows) if wanted.view is None else images.augmented(rows, numbers)
        return network.pooled(crops.now().to(device)).cpu()

    with torch.inference_mode():
        work()  # warms up
        return timed(work) / len(images)


def _time_source(earlier: EarlierPaces, *, timed: int) -> str:
    here = "a few steps that were timed here"
    if not earlier.trials:
        return here
    trials = (
        f"{_counted(earlier.trials, 'earlier trial')} of {', '.join(earlier.studies)} in MLflow"
    )
    return f"{trials}; for {_counted(timed, 'cell')} without one, {here}" if timed else trials


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' if count > 1 else ''}"


def obstacle(plan: StudyPlan) -> str | None:
    """Return why no time can be estimated yet: data that are not here."""
    try:
        for dataset in plan.config.dataset:
            index(plan.dataset_ref(dataset))
    except ValueError as error:
        return str(error)
    return None


def trial_seconds(
    plan: StudyPlan, counts: Sequence[CellCounts], known: Mapping[StepShape, Pace]
) -> tuple[float, float]:
    """Return the seconds of all trials in a row, timing cells whose pace is unknown."""
    probe, low, high = Probe(plan), 0.0, 0.0
    sizes = cache(lambda dataset, protocol: split_sizes(plan, dataset, protocol))
    for cell, count in zip(plan.cells, counts, strict=True):
        pace = known.get(step_shape(plan, cell)) or probe.pace(cell)
        steps, select = epoch_work(plan, cell, sizes(cell.dataset, cell.protocol))
        epoch = (steps * pace.step + select * pace.image) / count.models
        tests = count.final_trials * count.models * count_images(plan, cell.dataset)[1]
        low += count.model_epochs[0] * epoch + tests * pace.image
        high += count.model_epochs[1] * epoch + tests * pace.image
    return low, high
