"""The pace of trials: from a real store of earlier ones, and by what they were alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.tracking import Tracker
from study.config.plan import expand
from study.config.study_config import StudyConfig
from study.driver.folder import config_yaml, embedded_uri
from study.estimate import pace
from study.estimate.costs import estimate
from study.estimate.counts import count_cells
from study.estimate.pace import EarlierPaces, Pace, Probe, StepShape, earlier_paces, epoch_work
from tests.conftest import MakeConfig
from trainables.contract import Cell

ALIKE = StepShape("sketches", "tiny", 28, 20, 1)


def write(
    config: StudyConfig,
    seconds: dict[str, list[float]],
    *,
    study: str = "before",
    text: str | None = None,
    **tags: Any,
) -> None:
    """Trials of one loss, by protocol, each with the seconds of its last epoch."""
    Path(config.studies).mkdir(parents=True, exist_ok=True)
    tracker = Tracker(
        embedded_uri(Path(config.studies)),
        study,
        artifacts=Path(config.studies) / "artifacts" / study,
    )
    for protocol, lasts in seconds.items():
        cell = {
            "dataset": "sketches",
            "backbone": "tiny",
            "embedding_size": 16,
            "loss": "triplet",
            "protocol": protocol,
        }
        tracker.start_cell(
            protocol,
            params={},
            tags=cell,
            files={"config.yaml": config_yaml(config) if text is None else text},
        )
        for number, last in enumerate(lasts):
            key = f"{protocol}-{number}"
            tracker.start_trial(key, cell=protocol, name=key, params={}, tags=cell, files={})
            # The first epoch warms up.
            tracker.log_points(key, [("seconds", 100.0, 1, 1), ("seconds", last, 2, 2)])
            tracker.end(key, "FINISHED", tags={"outcome": "finished"} | tags)


def test_without_a_store_nothing_is_known_and_mlflow_is_not_asked(
    config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "tracking_uri", lambda config: pytest.fail("asked"))
    assert earlier_paces(expand(config())) == EarlierPaces({})


def test_a_pace_is_the_median_of_earlier_epochs_over_their_work(config: MakeConfig) -> None:
    before = config(losses=["triplet"])
    # 2 steps of 20 images, each trained at the cost of three, and 4 held-out classes of 60 images:
    # 360; default scores 40 classes: 2,520.
    write(before, {"fixed_validation": [3.6, 7.2, 0.36], "default": [25.2]})
    found = earlier_paces(
        expand(config(losses=["contrastive", "triplet"], epochs=7, steps_per_epoch=5, name="next"))
    )
    assert found.paces == {ALIKE: Pace(pytest.approx(0.6), pytest.approx(0.01))}
    assert (found.trials, found.studies) == (4, ("before",))


def test_mining_looks_at_the_train_images_once_in_so_many_epochs(config: MakeConfig) -> None:
    (cell,) = expand(config(losses=["triplet"], protocols=["fixed_validation"])).cells
    sizes = [(1000, 300), (900, 400)]
    assert epoch_work(expand(config(steps_per_epoch=2)), cell, sizes) == (4, 700)
    assert epoch_work(expand(config(steps_per_epoch=2, batches="mined")), cell, sizes) == (
        4,
        700 + 1900,
    )
    assert epoch_work(
        expand(config(steps_per_epoch=2, batches="mined", mine_every=5)), cell, sizes
    ) == (
        4,
        700 + 380,
    )


def test_a_timed_step_does_not_mine(config: MakeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    mined = config(losses=["triplet"], protocols=["fixed_validation"], batches="mined")
    plan = expand(mined)
    monkeypatch.setattr(
        "trainables.training.fit.hardest_neighbours", lambda *known: pytest.fail("mined")
    )
    assert Probe(plan).pace(plan.cells[0]).step > 0


def test_only_what_is_alike_counts_and_the_rest_is_timed(
    config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(config(losses=["triplet"]), {"fixed_validation": [3.6]})
    timed: list[Cell] = []
    monkeypatch.setattr(
        pace, "_measure", lambda config, cell: timed.append(cell) or Pace(0.6, 0.01)
    )
    study = config(
        losses=["triplet", "contrastive"],
        protocols=["fixed_validation"],
        where=[{"loss": "contrastive", "batch_size": 40}],
    )
    plan = expand(study)
    found = estimate(plan, count_cells(plan), slots=1)
    assert [cell.loss for cell in timed] == ["contrastive"]
    assert found["time_from"] == (
        "1 earlier trial of before in MLflow; for 1 cell without one, a few steps that were "
        "timed here"
    )
    # 2 cells of 2 search trials, the first of 2 epochs and the other of 1.5 to 2, and 2 final
    # trials of 2 epochs, each of 2 steps and 240 images; 2,400 test images.
    low, high = (2 * ((2 * searched + 2 * 2) * (2 * 0.6 + 2.4) + 2 * 24) for searched in (1.75, 2))
    assert found["worker_hours"] == [round(low / 3600, 3), round(high / 3600, 3)]


def test_known_paces_need_no_timing(config: MakeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    study = config(losses=["triplet"], protocols=["fixed_validation"])
    plan = expand(study)
    write(study, {"fixed_validation": [3.6]})
    monkeypatch.setattr(pace, "_measure", lambda plan, cell: pytest.fail("timed"))
    found = estimate(plan, count_cells(plan), slots=1)
    assert found["unknown"] is None
    assert found["time_from"] == "1 earlier trial of before in MLflow"
    assert found["worker"]


def test_the_work_of_several_workers_is_all_of_theirs(config: MakeConfig) -> None:
    before = config(losses=["triplet"], workers=2)
    write(before, {"fixed_validation": [3.6]})
    assert earlier_paces(expand(config(losses=["triplet"]))) == EarlierPaces({})
    assert earlier_paces(expand(before)).paces == {
        ALIKE._replace(workers=2): Pace(pytest.approx(1.2), pytest.approx(0.02))
    }


@pytest.mark.parametrize(
    ("text", "outcome"),
    [("name: x", "finished"), ("[", "finished"), (None, "diverged"), (None, "out of memory")],
)
def test_a_config_of_another_version_and_a_trial_that_got_lost_say_nothing(
    config: MakeConfig, text: str | None, outcome: str
) -> None:
    study = config(losses=["triplet"])
    write(study, {"fixed_validation": [3.6]}, text=text, outcome=outcome)
    assert earlier_paces(expand(study)) == EarlierPaces({})


def test_a_store_that_cannot_be_read_is_no_obstacle(config: MakeConfig) -> None:
    study = config(losses=["triplet"])
    Path(study.studies).mkdir()
    (Path(study.studies) / "mlflow.db").write_text("no database")
    assert earlier_paces(expand(study)) == EarlierPaces({})


def test_the_newest_studies_count(config: MakeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    study = config(losses=["triplet"])
    monkeypatch.setattr("analysis.tracking.earlier.STUDIES", 1)
    write(study, {"fixed_validation": [36.0]}, study="old")
    write(study, {"fixed_validation": [3.6]}, study="new")
    assert earlier_paces(expand(study)).studies == ("new",)
