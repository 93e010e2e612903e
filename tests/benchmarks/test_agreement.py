"""benchmarks/agreement.py: studies agree unless two of them say the opposite of one pair."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from analysis.statistics import Sample
from tests.support import ROOT
from tests.support.synthetic_study import RATIO, replicated, write_study


@pytest.fixture
def agreement(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("agreement")


def study(**values: float) -> dict[str, Sample]:
    """Return losses with these means, whose differences vary by a fraction of a point."""
    rng = np.random.default_rng(0)
    return {
        loss: Sample(value + 0.02 * rng.normal(size=(3, 40)), np.ones(40), (1, 2, 3))
        for loss, value in values.items()
    }


def test_every_study_has_its_sign_of_every_pair_and_the_best_loss_comes_first(
    agreement: ModuleType,
) -> None:
    signs = agreement.agreement([study(a=0.1, b=0.5, c=0.498), study(a=0.1, b=0.5), study(a=0.1)])
    assert signs == {
        ("b", "c"): ["=", "?", "?"],
        ("b", "a"): [">", ">", "?"],
        ("c", "a"): [">", "?", "?"],
    }
    assert agreement.contradicted(signs) == []
    assert agreement.lines(signs)[-1] == (
        "Of 3 pairs the studies tell 2, 1, 0 apart. No pair is told apart in opposite directions."
    )


def test_opposite_directions_are_a_contradiction_and_no_difference_is_none(
    agreement: ModuleType,
) -> None:
    first, second, third = study(a=0.5, b=0.1), study(a=0.1, b=0.4), study(a=0.3, b=0.3)
    assert agreement.contradicted(agreement.agreement([first, third])) == []
    signs = agreement.agreement([first, second, third])
    assert signs == {("a", "b"): [">", "<", "="]}
    assert agreement.contradicted(signs) == [("a", "b")]
    assert agreement.lines(signs)[-1].endswith("CONTRADICTED: a, b.")


def test_folders_of_finished_studies_give_a_table(
    agreement: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = str(write_study(tmp_path, replicated()))
    monkeypatch.setattr(sys, "argv", ["agreement.py", folder, folder])
    agreement.main()
    text = capsys.readouterr().out
    assert f"sketches, tiny, 16, {RATIO}" in text
    assert "| pair | study 1 | study 2 |" in text
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| triplet, ")]
    assert rows
    assert all(row[1] == row[2].removesuffix(" |") for row in rows), "a study agrees with itself"
