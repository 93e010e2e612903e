"""Collect every number of a study or of a paper in one long frame: comparison, loss, setup,
reading, metric and measurement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from analysis.ranking.comparisons import COMPARISON_KEYS, Comparison, comparisons
from analysis.ranking.measurement import Measurement
from analysis.ranking.readings import (
    BASELINE,
    DEFAULT,
    VALIDATION,
    Parts,
    Reading,
    readings,
    split_queries,
    unit_of,
)
from analysis.ranking.samples import sample
from analysis.record.frames import StudyRows
from trainables.contract import CLOSED_SET, CONCATENATED, PEEKING

KEYS = [*COMPARISON_KEYS, "protocol", "loss", "setup", "what"]
COLUMNS = [*KEYS, "metric", "measurement"]
NOT_METRICS = {"run_id", "fold", "rule", "image", "class"}
SETUPS = {DEFAULT: 0, VALIDATION: 1, BASELINE: 2, CLOSED_SET: 3}  # in the order of every table


def scores(rows: StudyRows) -> pd.DataFrame:
    """Return all that the final trials of a study measured, with an interval where there is a row
    per query.
    """
    finals = rows.finals
    if finals.empty:
        return frame([])
    parts, unit = split_queries(rows.queries), unit_of(rows.trials)
    metrics = [name for name in rows.queries.columns if name not in NOT_METRICS]
    found = (
        line
        for comparison in comparisons(rows.trials)
        for line in _of_comparison(comparison, finals, parts, metrics, unit=unit)
    )
    return frame({tuple(line[key] for key in [*KEYS, "metric"]): line for line in found}.values())


def frame(lines: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """Return lines as a frame of scores."""
    return pd.DataFrame(list(lines), columns=COLUMNS)


def own(found: pd.DataFrame) -> pd.DataFrame:
    """Return each loss's own numbers: no other reading, no baseline."""
    return found[(found["what"] == "") & (found["setup"] != "untrained")]


def _of_comparison(
    comparison: Comparison,
    finals: pd.DataFrame,
    parts: Parts,
    metrics: Sequence[str],
    *,
    unit: str,
) -> Iterator[dict[str, Any]]:
    trained = comparison.trained(finals)
    if trained.empty:
        return
    every = readings(trained, comparison.untrained(finals), parts, unit=unit)
    wider = readings(trained.iloc[:0], comparison.wider(finals), parts, unit=unit)
    every += [replace(one, what=CONCATENATED) for one in wider]
    for one in sample(every, parts, metrics):
        about = _about(comparison, one.reading)
        for metric, number in one.numbers.items():
            yield about | {"metric": metric, "measurement": number}
        if not one.reading.what:
            yield from (about | line for line in _without_queries(one.reading, finals, one.numbers))


def _without_queries(
    reading: Reading, finals: pd.DataFrame, there: Iterable[str]
) -> Iterator[dict[str, Any]]:
    """Yield what has one value for all queries, such as NMI: the mean over replicates, no
    interval."""
    mine = finals[finals["run_id"].isin(reading.runs)]
    for name in mine.columns[mine.columns.str.startswith("test/")]:
        metric = name.removeprefix("test/")
        units = mine["run_id"].map(dict(zip(reading.runs, reading.replicates, strict=True)))
        values = mine[name].dropna().astype(float).groupby(units).mean()
        if metric not in there and not metric.endswith("queries") and len(values):
            number = Measurement(
                float(values.mean()),
                rule=reading.rule,
                peeks=reading.rule == PEEKING,
                replicates=len(values),
                setting=reading.setting,
                closed=reading.closed,
            )
            yield {"metric": metric, "measurement": number}


def _about(comparison: Comparison, reading: Reading) -> dict[str, Any]:
    """Name what was read; the default setup belongs to no honest protocol, though it joins each."""
    protocol = {DEFAULT: "default", "untrained": "none"}.get(reading.setup, comparison.protocol)
    about = {
        "dataset": comparison.dataset,
        "backbone": comparison.backbone,
        "embedding_size": comparison.embedding_size,
        "protocol": protocol,
    }
    return about | {"loss": reading.loss, "setup": reading.setup, "what": reading.what}
