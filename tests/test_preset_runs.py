"""A smoke study of every preset, from its name to its page."""

from __future__ import annotations

from pathlib import Path

import pytest

from study import run_study
from study.planning import plan_cells, totals
from study.presets import PRESETS
from study.sources import resolve

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("local_ray"), pytest.mark.timeout(900)]
# In every run of the tests: folds; the coordinate sweep beside the default setup; a tagged loss with batches of triplets.
ALWAYS = ["thesis_cross_validation", "thesis_fixed_validation", "triplet_report"]


def ends_well(name: str, folder: Path) -> None:
    config = resolve(name, smoke=True, sets=[f"studies={folder}"]).config
    counts = totals(config, plan_cells(config))
    done = run_study(config)
    assert (done.failed, done.interrupted) == (0, False)
    assert done.trials == counts["search_trials"] + counts["final_trials"] + counts["baseline_trials"]
    assert {row.loss for ranking in done.rankings for row in ranking.rows} == set(config.losses)
    assert done.page is not None
    assert done.page.stat().st_size > 10_000


@pytest.mark.parametrize("name", ALWAYS)
def test_a_smoke_study_ends_well(name: str, tmp_path: Path) -> None:
    ends_well(name, tmp_path / "studies")


@pytest.mark.presets
@pytest.mark.parametrize("name", sorted(PRESETS))
def test_the_smoke_study_of_every_preset_ends_well(name: str, tmp_path: Path) -> None:
    ends_well(name, tmp_path / "studies")
