"""A table that says nothing about a study is named with a reason; every other one is shown."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from analysis.record.frames import StudyRows
from analysis.report.tables_shown import left_out
from analysis.tables.catalogue import OF_EMBEDDINGS, TABLES, Study, make_table
from analysis.tables.table import Table
from tests.support.synthetic_study import RATIO, SyntheticTrial, empty, final, large_study, rows_of

SEVERAL = ("tournament", "effects", "concatenated")


def reasons(
    rows: StudyRows, *, maps: bool = True, names: Collection[str] = tuple(TABLES)
) -> dict[str, str]:
    study = Study(rows)
    made: dict[str, Table] = {name: make_table(name, study) for name in names}
    return {each.name: each.why for each in left_out(made, study, maps=maps)}


@pytest.fixture(scope="module")
def one_cell() -> dict[str, str]:
    """Return what is left out of two losses with one parameter in one cell."""
    made = [final(loss, RATIO, "final", 1) for loss in ("triplet", "contrastive", "margin")]
    made += [SyntheticTrial("triplet", RATIO, "search", number) for number in range(8)]
    return reasons(rows_of(made))


def test_a_tournament_of_one_cell_repeats_the_ranking(one_cell: dict[str, str]) -> None:
    assert one_cell["tournament"] == "with one cell it repeats the ranking"
    assert "several cells" in one_cell["mean_ranks"]


def test_what_else_one_cell_has_nothing_for(one_cell: dict[str, str]) -> None:
    assert "folds" in one_cell["concatenated"]
    assert "several" in one_cell["split_ratio"]
    assert "several datasets" in one_cell["over_datasets"]
    assert "repeat" in one_cell["retrieval"]
    assert {"significance", "search", "hyperparameters", "convergence"}.isdisjoint(one_cell)


def test_a_study_of_several_cells_shows_what_compares_them() -> None:
    assert {"tournament", "effects", "concatenated"}.isdisjoint(
        reasons(large_study(), names=SEVERAL)
    )


def test_every_table_of_an_empty_study_is_left_out_with_a_reason() -> None:
    found = reasons(empty())
    assert found.keys() == TABLES.keys()
    assert all(found.values())


def test_what_reads_embeddings_is_left_out_until_maps_are_asked_for() -> None:
    assert all("takes a while" in reasons(empty(), maps=False)[name] for name in OF_EMBEDDINGS)
