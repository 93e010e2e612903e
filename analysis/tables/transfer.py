"""Make the table of what validation scores say about test scores, once an audit has read them."""

from __future__ import annotations

import pandas as pd

from analysis.ranking.measurement import Measurement
from analysis.record.frames import StudyRows
from analysis.statistics.transfer import transfers
from analysis.tables.frames import records
from analysis.tables.table import Column, Form, Table, table

AUDITED = "audit/recall_at_1"  # what an audit records of every kept checkpoint
SHARES: dict[str, Form] = {"chosen": "percent", "best": "percent", "regret": "points"}
COLUMNS = [
    Column("cell"),
    Column("loss"),
    Column("protocol"),
    Column("way", "chosen by"),
    Column("replicates", form="count"),
    Column("trials", form="count"),
    Column("rank_correlation", form="number", digits=2),
    *(Column(name, form=form, digits=1, parts=("peeks",)) for name, form in SHARES.items()),
]
NOTES = [
    "regret: best test Recall@1 of any trial minus that of the trial which validation chooses. "
    "Nothing here ranks a loss.",
    "Validation and test scores are those of the epoch that each trial's own selection metric "
    "chose. Trials are compared within a replicate; a row has the means over replicates.",
]


def transfer(rows: StudyRows) -> Table:
    """Return rank correlation and regret by cell; empty until an audit has scored the kept
    checkpoints on the test classes.
    """
    trials = rows.trials if AUDITED in rows.trials else pd.DataFrame()
    lines = [
        line | {name: Measurement(line[name], peeks=True) for name in SHARES}
        for line in records(transfers(trials, test=AUDITED))
    ]
    return table(
        "transfer", "From validation to test", COLUMNS, lines, notes=NOTES if lines else []
    )
