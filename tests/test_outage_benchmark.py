"""How benchmarks/outage.py reads a pace off a ledger."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.outage import Progress, study
from study.ledger import LEDGER


def test_the_pace_is_that_after_the_first_trial_and_waiting_is_what_no_epoch_took(tmp_path: Path) -> None:
    progress = Progress(study(tmp_path, "http://127.0.0.1:1", "well", trials=1))
    told: list[dict[str, Any]] = []
    for key, began, each in (("first", 0, 2500), ("second", 20_000, 500)):
        rows = [{"event": "row", "key": key, "at": began + each * i, "metrics": {"seconds": 0.3}} for i in range(1, 9)]
        told += [*rows, {"event": "end", "key": key, "at": began + each * 8}]
    progress.folder.mkdir()
    (progress.folder / LEDGER).write_text("".join(f"{json.dumps(event)}\n" for event in told[:12]))
    assert progress.started()
    assert progress.over(0.5)
    assert not progress.over()
    (progress.folder / LEDGER).write_text("".join(f"{json.dumps(event)}\n" for event in told))
    assert progress.over()
    assert progress.pace() == (2.0, 200.0)
