"""The report says what is well, what is not, and what no machine without a GPU can show."""

import json
from dataclasses import replace

import pytest

from study.gpu_check import report as module
from study.gpu_check.losses import LossCheck
from study.gpu_check.pair import PairCheck
from study.gpu_check.report import GpuReport, about, check_gpu
from study.gpu_check.speed import CheckpointCost, Speed
from study.gpu_check.trials import ON_GPU
from tests.support.pretend_gpu import pretend_gpu

GOOD = LossCheck("triplet", 1.0, 1e-6, 2e-6, 1, 1.0, 0.01)
SPEED = Speed("bfloat16", ON_GPU, 3000.0, 2000.0, 1900.0, 12 * 10**9)


def made(**changes: object) -> GpuReport:
    start = {
        "about": {"device": "A100", "memory": "80 GB"},
        "losses": [GOOD],
        "pair": PairCheck("nccl", (0.5, 0.5), 0.5),
        "speeds": [SPEED],
        "checkpoint": CheckpointCost(10**8, 0.01, 0.5),
    }
    return GpuReport(**{**start, **changes})


def verdicts(report: GpuReport) -> dict[str, str]:
    return {line.name: line.verdict for line in report.lines()}


def test_on_a_gpu_every_line_has_been_seen():
    found = made()
    assert set(verdicts(found).values()) == {"ok"}
    text = " ".join(line.text for line in found.lines())
    assert "input 3,000, steps 2,000, both 1,900: 95% busy" in text
    assert "12.0 GB at most, of 80 GB" in text
    assert "100 MB in 0.50 s" in text


def test_without_a_gpu_the_lines_that_need_one_say_so():
    found = made(
        about={"device": "CPU", "memory": "none"},
        losses=[replace(GOOD, value_off=None, gradient_off=None, waits=None)],
        pair=PairCheck("gloo", (0.5, 0.5), 0.5),
        speeds=[replace(SPEED, peak_bytes=None)],
    )
    lacking = {name for name, verdict in verdicts(found).items() if verdict == "no GPU"}
    assert lacking == {"CPU against GPU", "waits", "nccl", "memory"}
    assert "FAIL" not in verdicts(found).values()


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"losses": [replace(GOOD, waits=9)]}, "waits"),
        ({"losses": [replace(GOOD, error="broke")]}, "losses"),
        ({"losses": [replace(GOOD, value_off=1.0)]}, "CPU against GPU"),
        ({"pair": PairCheck("nccl", (0.5, 0.6), 0.5)}, "two workers"),
        ({"pair": PairCheck("nccl", (0.6, 0.6), 0.5)}, "two workers"),
        ({"errors": {"checkpoint": "OSError: full"}}, "checkpoint"),
    ],
)
def test_what_is_wrong_fails_its_line(changes, line):
    assert verdicts(made(**changes))[line] == "FAIL"


def test_a_part_that_breaks_leaves_the_others(monkeypatch, tmp_path):
    def hang() -> None:
        raise TimeoutError("two workers by nccl did not end")

    monkeypatch.setattr(module, "small_trials", list)
    monkeypatch.setattr(module, "check_pair", hang)
    monkeypatch.setattr(module, "measure_speeds", lambda work: [SPEED])
    monkeypatch.setattr(module, "measure_checkpoint", lambda work, folder: made().checkpoint)
    found = check_gpu(tmp_path)
    assert found.errors == {"pair": "TimeoutError: two workers by nccl did not end"}
    assert verdicts(found)["checkpoint"] == "ok"


def test_the_report_survives_json_and_has_a_row_for_every_loss():
    found = made(losses=[GOOD, LossCheck("margin", error="broke")])
    data = json.loads(json.dumps(found.as_dict()))
    assert data["speeds"][0]["busy"] == pytest.approx(0.95)
    assert [row.split()[0] for row in found.table()] == ["loss", "triplet", "margin"]
    assert all(len(row) <= 100 for row in found.table())


def test_the_device_is_named():
    assert about()["device"] == "CPU"
    with pretend_gpu():
        assert about()["device"] == "Pretended GPU"
        assert about()["memory"] == "17.2 GB"
