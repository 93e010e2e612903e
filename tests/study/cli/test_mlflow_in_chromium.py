"""MLflow's pages of a study, opened in Chromium as a user opens them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from analysis.record.trial_id import TrialId
from analysis.tracking import links_of, open_store
from benchmarks.outage import free_port
from study.driver.folder import tracking_uri
from tests.conftest import ROOT, MakeConfig
from tests.support.record import WrittenStudy
from tests.support.waiting import await_that

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def served(config: MakeConfig, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The address of MLflow's UI on a finished study, and the number of its experiment."""
    written = WrittenStudy(config(losses=["triplet"], name="shown"))
    written.begin()
    mirror = written.mirror()
    written.finish()
    mirror.close()
    found = open_store(tracking_uri(written.plan.config)).get_experiment_by_name("shown")
    port, log = free_port(), tmp_path / "ui.log"
    words = ["ui", "--no-browser", "--port", str(port), "--studies", str(written.folder.parent)]
    with log.open("w") as output:
        ui = subprocess.Popen(
            [sys.executable, "-m", "study", *words], cwd=ROOT, stdout=output, stderr=output
        )
    try:
        await_that(
            lambda: "MLflow answers on" in log.read_text(),
            lambda: "" if ui.poll() is None else log.read_text(),
        )
        yield f"http://127.0.0.1:{port}", str(found.experiment_id)
    finally:
        ui.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            ui.wait(30)
        ui.kill()


def page(address: str, profile: Path) -> str:
    """Return what Chromium shows there."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if not chromium:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    options = ["--headless", "--disable-gpu", "--window-size=1500,1000"]
    options += ["--no-sandbox"] if os.getuid() == 0 else []
    return subprocess.run(
        [chromium, *options, f"--user-data-dir={profile}", "--virtual-time-budget=25000"]
        + ["--dump-dom", address],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout


def test_an_experiment_opens_in_model_training_mode_and_its_runs_differ_early(
    served: tuple[str, str], tmp_path: Path
) -> None:
    address, experiment = served
    shown = page(f"{address}/#/experiments/{experiment}", tmp_path / "profile")
    assert "GenAI" in shown, "the switch is there"
    assert ">Runs<" in shown, "the page of model training; that of GenAI begins with traces"
    assert "triplet · fixed_validation" in shown
    assert "sketches/tiny" not in shown, "no name begins with what all have in common"
    assert "How good is triplet on sketches" in shown, "its description"
    home = page(f"{address}/", tmp_path / "profile")
    assert "Information about UI telemetry" not in home
    assert "shown" in home


def test_a_browser_that_chose_genai_keeps_it(served: tuple[str, str], tmp_path: Path) -> None:
    """Also shows that the first test can fail: this is what MLflow does by itself."""
    address, experiment = served
    asked = f"{address}/#/experiments/{experiment}?workflowType=genai"
    shown = page(asked, tmp_path / "profile")
    assert "triplet · fixed_validation" not in shown


def test_the_link_of_a_report_page_opens_its_trial(served: tuple[str, str], tmp_path: Path) -> None:
    """As analysis/report/assets/trials.js writes it."""
    address, experiment = served
    links = links_of(address, "shown")
    assert links.study == f"{address}/#/experiments/{experiment}"
    run = next(run for trial, run in links.runs.items() if TrialId.parse(trial).role == "search")
    shown = page(f"{links.study}/runs/{run}", tmp_path / "profile")
    assert "triplet · fixed_validation · search" in shown
