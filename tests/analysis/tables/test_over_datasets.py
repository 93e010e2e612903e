"""Pairs over datasets: the mean of datasets, not of cells, with wins and chances."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest

from analysis.ranking.measurement import Measurement
from analysis.ranking.pairs import setup_losses
from analysis.record.frames import StudyRows
from analysis.statistics import average, mean_of, pairs
from analysis.tables.catalogue import Study, make_table
from analysis.tables.over_datasets import over_datasets
from analysis.tables.table import Table
from tests.support.synthetic_study import HONEST, RATIO, final, large_study, rows_of


def row(found: Table, **wanted: str) -> dict[str, object]:
    (only,) = [each for each in found.rows if wanted.items() <= each.items()]
    return dict(only)


def own_mean(rows: StudyRows, loss: str, **where: object) -> float:
    trials = rows.trials[(rows.trials["loss"] == loss) & (rows.trials["role"] == "final")]
    for name, value in where.items():
        trials = trials[trials[name] == value]
    mine = rows.queries[rows.queries["run_id"].isin(trials["run_id"])]
    return float(mine.loc[mine["rule"] == HONEST, "recall_at_1"].mean())


def test_every_dataset_counts_once_however_many_cells_it_has() -> None:
    rows = large_study()
    found = row(over_datasets(rows), loss="triplet", other="contrastive", protocol=RATIO)
    cells = {"sketches": [("tiny", 16), ("tiny", 32), ("small", 16)], "drawings": [("tiny", 16)]}
    gaps = []
    for dataset, networks in cells.items():
        here = [
            own_mean(rows, "triplet", **at) - own_mean(rows, "contrastive", **at)
            for backbone, size in networks
            for at in (
                {
                    "dataset": dataset,
                    "backbone": backbone,
                    "embedding_size": size,
                    "protocol": RATIO,
                },
            )
        ]
        gaps.append(sum(here) / len(here))
    difference = found["difference"]
    assert isinstance(difference, Measurement)
    assert difference.value == pytest.approx(sum(gaps) / 2)
    assert found["wins"] == f"{sum(gap > 0 for gap in gaps)} of 2"
    assert not difference.peeks


def test_the_default_setup_is_starred_and_apart() -> None:
    found = over_datasets(large_study())
    starred = {each["setup"] for each in found.rows if each["difference"].peeks}
    assert starred == {"default"}
    assert {each["setup"] for each in found.rows} == {"default", "validation"}


def test_a_study_of_one_dataset_has_no_such_table() -> None:
    made = [
        final(loss, RATIO, "final", seed)
        for loss, seed in product(("triplet", "contrastive"), (1, 2))
    ]
    assert not make_table("over_datasets", Study(rows_of(made))).rows


def noisy(rows: StudyRows) -> StudyRows:
    rng = np.random.default_rng(0)
    queries = rows.queries.assign(recall_at_1=rng.random(len(rows.queries)).round())
    assert isinstance(queries, pd.DataFrame)
    return replace(rows, queries=queries)


def test_the_interval_is_that_of_the_mean_of_the_datasets_own_pairs() -> None:
    rows = noisy(large_study())
    every = [each for each in setup_losses(rows, "recall_at_1") if each.protocol == RATIO]
    by_dataset = []
    for dataset in ("sketches", "drawings"):
        cells = [each for each in every if each.dataset == dataset]
        samples = {
            loss: average(each.losses[loss].samples["recall_at_1"] for each in cells)
            for loss in ("triplet", "contrastive", "margin")
        }
        by_dataset.append(pairs(samples)["triplet", "contrastive"])
    variance = sum(float(each.variance) for each in by_dataset) / 4
    expected = mean_of(by_dataset)
    assert float(expected.variance) == pytest.approx(variance)
    found = over_datasets(rows)
    (line,) = [
        each
        for each in found.rows
        if {each["loss"], each["other"]} == {"triplet", "contrastive"} and each["protocol"] == RATIO
    ]
    turned = expected if line["loss"] == "triplet" else expected.turned()
    assert line["difference"].interval == pytest.approx(turned.interval(among=3))
    assert line["ahead"] == pytest.approx(turned.above())
    assert line["equivalent"] == pytest.approx(turned.above(-0.005) - turned.above(0.005))
    assert 0 <= line["equivalent"] <= 1
