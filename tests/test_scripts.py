"""Every preset has its script, and a script is that preset's study."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

import study.run
from study.config import StudyConfig
from study.presets import PRESETS
from study.sources import resolve

SCRIPTS = Path(__file__).parent.parent / "study" / "scripts"


class Reached(Exception):
    """The study would begin now."""


def test_every_preset_has_a_script_and_every_script_a_preset() -> None:
    assert {path.stem for path in SCRIPTS.glob("*.py")} - {"__init__"} == set(PRESETS)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_script_runs_its_preset_with_what_was_typed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[StudyConfig] = []

    def begin(config: StudyConfig, **options: Any) -> None:
        begun.append(config)
        raise Reached

    monkeypatch.setattr(study.run, "run_study", begin)
    monkeypatch.setattr(sys, "argv", [name, "--smoke", "--set", f"studies={tmp_path}", "--set", "seed=7"])
    with pytest.raises(Reached):
        runpy.run_module(f"study.scripts.{name}", run_name="__main__")
    assert begun == [resolve(name, smoke=True, sets=[f"studies={tmp_path}", "seed=7"]).config]
