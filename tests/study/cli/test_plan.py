"""The sentences in which plan says what a study takes."""

from __future__ import annotations

from typing import Any

import pytest

from study.cli.plan import _cost_sentences
from study.cli.terminal import size_text
from trainables.fetch import home

COST: dict[str, Any] = {
    "seconds": [186, 240],
    "worker_hours": [0.083, 0.108],
    "worker": "core",
    "preparation": [
        {"what": "compute the features of sketches", "images": 12_000, "core_seconds": 23.7}
    ],
    "time_from": "a few steps that were timed here",
    "slots": 2,
    "disk_bytes": 396_000_000,
    "cache_bytes": 2_340_000_000,
    "unknown": None,
}


def said(**changes: Any) -> list[str]:
    return list(_cost_sentences(COST | changes))


def test_wall_time_work_and_what_comes_first_are_told_apart() -> None:
    *first, cache = said()
    assert first == [
        "About 3.1 to 4.0 minutes on 2 slots, if this machine does nothing else; 0.08 to 0.11 "
        "core-hours.",
        "First, once for this machine: compute the features of sketches (12,000 images, about 24 "
        "core-seconds).",
        "Time from a few steps that were timed here.",
        "Up to 396 MB of disk.",
    ]
    assert cache.startswith(f"Decoded images and features take 2.3 GB in {home()}, for all studies")


def test_long_studies_are_told_in_hours_of_their_worker() -> None:
    sentence = said(seconds=[36_000, 72_000], worker_hours=[9.994, 5000], worker="GPU", slots=1)[0]
    assert sentence == (
        "About 10.0 to 20.0 hours on 1 slot, if this machine does nothing else; 9.99 to 5,000 "
        "GPU-hours."
    )
    assert said(seconds=[60, 61], worker_hours=[0.01, 0.011])[0].startswith("About 1.0 minutes on")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1 core-seconds"), (179, "179 core-seconds"), (180, "3 core-minutes")]
    + [(10_800, "3 core-hours")],
)
def test_work_has_a_unit_that_fits(seconds: float, text: str) -> None:
    prepared = [{"what": "decode csv", "images": 3, "core_seconds": seconds}]
    assert said(preparation=prepared)[1] == (
        f"First, once for this machine: decode csv (3 images, about {text})."
    )


def test_what_is_not_known_is_not_told() -> None:
    unknown = {"seconds": None, "worker_hours": None, "worker": None, "time_from": None}
    assert said(
        **unknown, unknown="cub200 is not here yet.", disk_bytes=None, cache_bytes=None
    ) == ["Time unknown yet. cub200 is not here yet."]
    assert len(said(cache_bytes=0, preparation=[])) == 3


@pytest.mark.parametrize(
    ("count", "text"),
    [(12, "12 bytes"), (1500, "1.5 kB"), (154_321, "154 kB"), (9_940_000, "9.9 MB")]
    + [(396_000_000, "396 MB"), (23_600_000_000, "23.6 GB")],
)
def test_sizes_are_for_people(count: int, text: str) -> None:
    assert size_text(count) == text
