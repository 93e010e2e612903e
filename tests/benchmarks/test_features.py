"""benchmarks/features.py compares like with like, at a size that takes seconds."""

from __future__ import annotations

import sys

import pytest

from benchmarks import features

SMALL = ["--images=16", "--vectors=240", "--width=8", "--trials=3", "--epochs=1", "--repeats=1"]


@pytest.mark.slow
def test_both_sides_compute_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["features", *SMALL])
    features.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Extraction, 16 files")
    assert "3 head trials, 1 epochs" in lines[5]
    assert float(lines[3].split("cosine ")[1]) > 0.99
    assert float(lines[8].split("differ by ")[1].split()[0]) < 1e-4
