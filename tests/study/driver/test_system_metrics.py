"""system_metrics=true: what the machine does is in the study's own run, each step once."""

from __future__ import annotations

import pytest

from analysis.tracking import open_store, system_metrics
from analysis.tracking.system_metrics import monitored
from study.driver.folder import tracking_uri
from tests.conftest import MakeConfig
from tests.support.record import WrittenStudy
from tests.support.waiting import await_that


def test_a_resumed_study_continues_its_system_metrics(
    config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system_metrics, "SECONDS", 0.05)
    written = WrittenStudy(config(losses=["triplet"], name="watched"))
    written.begin()
    mirror = written.mirror()
    written.finish()
    mirror.close()
    client = open_store(tracking_uri(written.plan.config))
    experiment = client.get_experiment_by_name("watched").experiment_id

    def steps() -> list[int]:
        found = client.search_runs([experiment], "tags.kind = 'study'")
        if not found:
            return []
        name = "system/cpu_utilization_percentage"
        return [point.step for point in client.get_metric_history(found[0].info.run_id, name)]

    for _ in range(2):
        before = len(steps())
        with monitored(tracking_uri(written.plan.config), "watched", pytest.fail):
            await_that(lambda before=before: len(steps()) >= before + 2)
    assert steps() == list(range(len(steps())))
    (run,) = client.search_runs([experiment], "tags.kind = 'study'")
    assert run.info.status == "FINISHED"
    written.check(finished=True)


def test_a_store_that_is_away_costs_the_system_metrics_alone(config: MakeConfig) -> None:
    said: list[str] = []
    with monitored(tracking_uri(config()), "nowhere", said.append):
        pass
    assert len(said) == 1
    assert "the study continues" in said[0]
