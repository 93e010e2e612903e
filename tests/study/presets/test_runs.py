"""A smoke study of every preset, from its name to its page."""

from __future__ import annotations

from pathlib import Path

import pytest

from study import run_study
from study.config.plan import expand
from study.config.sources import resolve
from study.estimate.counts import count_cells, totals
from study.presets import PRESETS

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.usefixtures("local_ray"),
    pytest.mark.timeout(900),
]


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_the_smoke_study_of_a_preset_ends_well(name: str, tmp_path: Path) -> None:
    run_smoke(name, tmp_path, sets=[])


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_preset_narrowed_to_its_last_loss_and_protocol_ends_well(
    name: str, tmp_path: Path
) -> None:
    whole = resolve(name, smoke=True).config
    run_smoke(
        name, tmp_path, sets=[f"losses={whole.losses[-1]}", f"protocols={whole.protocols[-1]}"]
    )


def run_smoke(name: str, folder: Path, *, sets: list[str]) -> None:
    """Run a preset's smoke study, and check that all of it ended and was ranked."""
    config = resolve(name, smoke=True, sets=[f"studies={folder / 'studies'}", *sets]).config
    plan = expand(config)
    counts = totals(plan, count_cells(plan))
    done = run_study(config)
    assert (done.failed, done.interrupted) == (0, False)
    assert (
        done.trials == counts["search_trials"] + counts["final_trials"] + counts["baseline_trials"]
    )
    assert {row.loss for ranking in done.rankings for row in ranking.rows} == set(config.losses)
    assert done.page is not None
    assert done.page.stat().st_size > 10_000
