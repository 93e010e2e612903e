"""Every number of a study, or of a paper, in one long frame: place, loss, setup, what stands beside, metric and cell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pandas as pd

from analysis.places import AXES, Place, places
from analysis.readings import DEFAULT, Parts, Reading, readings, split_queries
from analysis.tables.draws import draw
from analysis.tables.table import Cell
from analysis.tracking import StudyRows
from trainables.contract import PEEKING

KEYS = [*AXES, "protocol", "loss", "setup", "what"]
COLUMNS = [*KEYS, "metric", "cell"]
NOT_METRICS = {"run_id", "fold", "rule", "image", "class"}
SETUPS = {"default": 0, "validation": 1, "untrained": 2}  # in the order of every table


def scores(rows: StudyRows) -> pd.DataFrame:
    """All that the final trials of a study measured, each number with its interval where there is a row per query."""
    finals = rows.finals
    if finals.empty:
        return frame([])
    parts = split_queries(rows.queries)
    metrics = [name for name in rows.queries.columns if name not in NOT_METRICS]
    found = (line for place in places(rows.trials) for line in _of_place(place, finals, parts, metrics))
    return frame({tuple(line[key] for key in [*KEYS, "metric"]): line for line in found}.values())


def frame(lines: Iterable[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame(list(lines), columns=COLUMNS)


def own(found: pd.DataFrame) -> pd.DataFrame:
    """Each loss's own number: nothing that stands beside, no baseline."""
    return found[(found["what"] == "") & (found["setup"] != "untrained")]


def _of_place(place: Place, finals: pd.DataFrame, parts: Parts, metrics: Sequence[str]) -> Iterator[dict[str, Any]]:
    trained = place.trained(finals)
    if trained.empty:
        return
    for one in draw(readings(trained, place.untrained(finals), parts), parts, metrics):
        about = _about(place, one.reading)
        for metric, number in one.numbers.items():
            yield about | {"metric": metric, "cell": Cell.of(number)}
        if not one.reading.what:
            yield from (about | line for line in _without_queries(one.reading, finals, one.numbers))


def _without_queries(reading: Reading, finals: pd.DataFrame, there: Iterable[str]) -> Iterator[dict[str, Any]]:
    """What has one value for all queries, as NMI: the mean over the seeds, without an interval."""
    mine = finals[finals["run_id"].isin(reading.runs)]
    for name in mine.columns[mine.columns.str.startswith("test/")]:
        metric, values = name.removeprefix("test/"), mine[name].dropna().astype(float)
        if metric not in there and not metric.endswith("queries") and len(values):
            cell = Cell(values.mean(), rule=reading.rule, peeks=reading.rule == PEEKING, seeds=len(values), setting=reading.setting)
            yield {"metric": metric, "cell": cell}


def _about(place: Place, reading: Reading) -> dict[str, Any]:
    """The default setup is of no honest protocol, though it is read with each."""
    protocol = {DEFAULT: "default", "untrained": "none"}.get(reading.setup, place.protocol)
    about = {"dataset": place.dataset, "backbone": place.backbone, "embedding_size": place.embedding_size, "protocol": protocol}
    return about | {"loss": reading.loss, "setup": reading.setup, "what": reading.what}
