"""The benchmark of the search runs, and says what misses."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def test_two_seeds_of_every_loss_are_raced_and_counted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    search = importlib.import_module("search")
    monkeypatch.setattr(search, "thousand", lambda: "")  # tests/test_simulation.py has a thousand trials
    monkeypatch.setattr(sys, "argv", ["search.py", "--seeds", "2", "--trials", "4"])
    search.main()
    lines = capsys.readouterr().out.splitlines()
    assert "grace 2, reduction 2, seeds 1 to 2:" in lines[1]
    rows = {line.split()[0]: line for line in lines[-4:]}
    assert list(rows) == ["margin", "multi_similarity", "proxy_anchor", "all"]
    assert all(row.split()[1] == str(4 * 24) for row in rows.values())
    never = [int(row.split()[-3]) for row in rows.values()]
    assert sum(never[:3]) == never[3]
    assert rows["all"].endswith(" of 6")
