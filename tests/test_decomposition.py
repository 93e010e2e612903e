"""The decomposition holds every number that exists in its own cell, and is told only where it tells something."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from made import FOLDS, HONEST, LAST, PEEKS, RATIO, everything, final, rows_of, share

from analysis.decomposition import COLUMNS, Decomposition, decomposition
from analysis.exports import beside_frame, decomposition_frame, ranking_json, ranking_markdown
from analysis.tables import Ranking, rankings


@pytest.fixture(scope="module")
def found() -> list[Ranking]:
    return rankings(rows_of(everything()))


def parts_of(ranking: Ranking) -> Decomposition:
    parts = decomposition(ranking)
    assert parts
    return parts


def test_every_number_is_in_its_cell(found: list[Ranking]) -> None:
    cells = {place: numbers["recall_at_1"].value for place, numbers in parts_of(found[0]).cells["triplet"].items()}
    assert cells == {
        ("published", "all", PEEKS): pytest.approx(share(3)),
        ("published", "all", LAST): pytest.approx(share(2)),
        ("published", "fewer", HONEST): pytest.approx(share(1)),
        ("published", "fewer", LAST): pytest.approx(share(0)),
        ("tuned", "all", PEEKS): pytest.approx(share(4)),
        ("tuned", "all", "refit"): pytest.approx(share(3)),
        ("tuned", "all", LAST): pytest.approx(share(3)),
        ("tuned", "fewer", HONEST): pytest.approx(share(2)),
        ("tuned", "fewer", LAST): pytest.approx(share(1)),
    }


def test_missing_cells_are_empty_and_empty_columns_are_left_out(found: list[Ranking]) -> None:
    parts = parts_of(found[0])
    assert parts.columns == list(COLUMNS)
    (loss, setting, cells), *_ = parts.lines()
    assert (loss, setting, [bool(cell) for cell in cells]) == ("triplet", "published", [True, False, True, True, True])
    folded = parts_of(found[1])
    assert ("all", "refit") not in folded.columns
    assert [bool(cell) for cell in folded.lines()[0][2]] == [True, True, False, False]


def test_the_models_of_all_folds_as_one_are_no_cell(found: list[Ranking]) -> None:
    number = parts_of(found[1]).cells["triplet"]["tuned", "fewer", HONEST]["recall_at_1"]
    assert number.value == pytest.approx(share(1, 2))


def test_peeking_cells_are_starred(found: list[Ranking]) -> None:
    starred = {(line["setting"], line["train_classes"], line["rule"]) for line in parts_of(found[0]).plain() if line["peeks"]}
    assert starred == {("published", "all", PEEKS), ("tuned", "all", PEEKS), ("tuned", "all", LAST)}


def test_an_untuned_default_setup_is_in_the_published_row() -> None:
    made = [
        final("triplet", "default", "final", 1, tuned=False),
        *(final("triplet", RATIO, role, 1) for role in ("final", "published", "refit")),
    ]
    cells = parts_of(rankings(rows_of(made))[0]).cells["triplet"]
    assert ("published", "all", PEEKS) in cells
    assert not cells["published", "all", LAST]["recall_at_1"].peeks


def test_with_fewer_than_three_cells_beyond_the_rankings_own_there_is_none() -> None:
    """The last epoch and the published setting are two; the refit is the third."""
    published, refit = final("triplet", RATIO, "published", 1), final("triplet", RATIO, "refit", 1)
    del published.queries["0", LAST]
    made = [final("triplet", RATIO, "final", 1), published]
    (two,) = rankings(rows_of(made))
    assert decomposition(two) is None
    assert ranking_json([two])[0]["decomposition"] == []
    assert decomposition_frame([two]).empty
    (three,) = rankings(rows_of([*made, refit]))
    assert len(parts_of(three).cells["triplet"]) == 4


def test_every_export_has_the_rule_of_every_number(found: list[Ranking]) -> None:
    frame = decomposition_frame(found)
    assert len(frame) == 2 * 2 * (9 + 6)  # losses, metrics, cells under the ratio and under folds
    one = frame.query("protocol == @RATIO and loss == 'triplet' and setting == 'tuned' and metric == 'recall_at_1'").set_index(
        ["train_classes", "epoch"]
    )
    assert one.loc[("all", "validation epoch"), "rule"] == "refit"
    assert one.loc[("fewer", "validation epoch"), "rule"] == HONEST
    assert one.loc[("fewer", "last epoch"), "value"] == pytest.approx(share(1))
    others = beside_frame(found)
    assert others["rule"].notna().all()
    assert others.loc[others["difference"].notna(), "difference_rule"].notna().all()
    (told, _) = json.loads(json.dumps(ranking_json(found)))
    assert len(told["decomposition"]) == 2 * 2 * 9
    assert {len(numbers) for each in told["rows"] for one in each["beside"] for numbers in one["numbers"].values() if numbers["rule"]} == {
        6
    }


def test_markdown_shows_what_stands_beside_and_the_decomposition(found: list[Ranking]) -> None:
    text = ranking_markdown(found)
    assert "| triplet | validation | refit | recall_at_1 | refit | tuned | 61.7 [" in text
    assert "| triplet | validation | concatenated | recall_at_1 | selected-on-validation | tuned | 81.7 [" in text
    assert "| loss | setting | all train classes, best-on-test | all train classes, refit |" in text
    (line,) = [
        each for each in text.split(f"sketches, tiny, 16 dimensions, {FOLDS}")[0].splitlines() if each.startswith("| triplet | published |")
    ]
    assert [cell.split(" [")[0].strip() for cell in line.split("|")[3:-1]] == ["61.7\\*", "–", "41.7", "21.7", "1.7"]


def test_a_table_in_markdown_has_as_many_cells_in_every_line(found: list[Ranking]) -> None:
    for block in ranking_markdown(found).split("\n\n"):
        assert len({line.count("|") for line in block.splitlines() if line.startswith("|")}) <= 1


def test_the_csv_is_there_only_with_numbers(tmp_path: Path) -> None:
    from analysis.report import write_report
    from analysis.tables.catalogue import Study

    ratio = [one for one in everything() if one.protocol in ("default", RATIO) and one.loss == "triplet"]
    write_report(study := Study(rows_of(ratio)), folder=tmp_path, config_yaml="name: made")
    assert len(pd.read_csv(tmp_path / "decomposition.csv")) == len(decomposition_frame(study.rankings)) > 0
    write_report(Study(rows_of([final("triplet", RATIO, "final", 1)])), folder=tmp_path, config_yaml="name: made")
    assert not (tmp_path / "decomposition.csv").exists()
