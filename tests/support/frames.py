"""Compare the frames of two readings of a study."""

from __future__ import annotations

import pandas as pd

from analysis.record.frames import StudyRows


def assert_same(one: StudyRows, other: StudyRows) -> None:
    """All frames and specs are equal; the order of columns and of metrics does not matter."""
    assert one.name == other.name
    pd.testing.assert_frame_equal(one.trials, other.trials, check_like=True, check_dtype=False)
    keys = ["metric", "run_id", "epoch"]
    curves = [rows.curves.sort_values(keys, ignore_index=True) for rows in (one, other)]
    pd.testing.assert_frame_equal(*curves)
    pd.testing.assert_frame_equal(one.queries, other.queries)
    assert one.specs == other.specs
    for run in one.trials["run_id"]:
        assert one.spec(run) == other.spec(run)
