"""Every preset has its script, and a script is that preset's study."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

import study.driver.study_run
from study.config.sources import resolve
from study.config.study_config import StudyConfig
from study.driver.preflight import PreparedStudy
from study.presets import PRESETS
from tests.support import ROOT

SCRIPTS = ROOT / "study" / "scripts"


class Reached(BaseException):
    """The study would begin now."""


def test_every_preset_has_a_script_and_every_script_a_preset() -> None:
    assert {path.stem for path in SCRIPTS.glob("*.py")} - {"__init__"} == set(PRESETS)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_script_runs_its_preset_with_what_was_typed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[StudyConfig] = []

    def begin(prepared: PreparedStudy, **options: Any) -> None:
        begun.append(prepared.plan.config)
        raise Reached

    monkeypatch.setattr(study.driver.study_run, "drive", begin)
    monkeypatch.setattr(
        sys, "argv", [name, "--smoke", "--set", f"studies={tmp_path}", "--set", "seed=7"]
    )
    with pytest.raises(Reached):
        runpy.run_module(f"study.scripts.{name}", run_name="__main__")
    assert begun == [resolve(name, smoke=True, sets=[f"studies={tmp_path}", "seed=7"]).config]
