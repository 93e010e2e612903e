"""The decomposition holds every number that exists in its own cell, and is told only where it tells
something.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from analysis.ranking.decomposition import COLUMNS, Decomposition, decomposition, plain
from analysis.ranking.ranking import Ranking, rankings
from analysis.report.report import ranking_markdown
from analysis.tables.beside import beside_table
from analysis.tables.decomposition import long_decomposition
from analysis.tables.steps import steps_table
from analysis.tables.writers import as_text
from tests.support.synthetic_study import (
    CLASSES,
    FOLDS,
    HONEST,
    LAST,
    PEEKS,
    PER_CLASS,
    RATIO,
    SEEDS,
    SyntheticTrial,
    everything,
    final,
    rows_of,
    share,
)


@pytest.fixture(scope="module")
def found() -> list[Ranking]:
    return rankings(rows_of(everything()))


def parts_of(ranking: Ranking) -> Decomposition:
    parts = decomposition(ranking)
    assert parts
    return parts


def test_every_number_is_in_its_cell(found: list[Ranking]) -> None:
    cells = {
        place: numbers["recall_at_1"].value
        for place, numbers in parts_of(found[0]).numbers["triplet"].items()
    }
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
    assert (loss, setting, [bool(cell) for cell in cells]) == (
        "triplet",
        "published",
        [True, False, True, True, True],
    )
    folded = parts_of(found[1])
    assert ("all", "refit") not in folded.columns
    assert [bool(cell) for cell in folded.lines()[0][2]] == [True, True, False, False]


def test_the_models_of_all_folds_as_one_are_no_cell(found: list[Ranking]) -> None:
    number = parts_of(found[1]).numbers["triplet"]["tuned", "fewer", HONEST]["recall_at_1"]
    assert number.value == pytest.approx(share(1, 2))


def test_peeking_cells_are_starred(found: list[Ranking]) -> None:
    starred = {
        (line["setting"], line["train_classes"], line["rule"])
        for line in parts_of(found[0]).plain()
        if line["peeks"]
    }
    assert starred == {("published", "all", PEEKS), ("tuned", "all", PEEKS), ("tuned", "all", LAST)}


def test_an_untuned_default_setup_is_in_the_published_row() -> None:
    made = [
        final("triplet", "default", "final", 1, tuned=False),
        *(final("triplet", RATIO, role, 1) for role in ("final", "published", "refit")),
    ]
    cells = parts_of(rankings(rows_of(made))[0]).numbers["triplet"]
    assert ("published", "all", PEEKS) in cells
    assert not cells["published", "all", LAST]["recall_at_1"].peeks


def test_a_loss_whose_search_chose_nothing_keeps_its_own_number() -> None:
    """Its final trials have the published setting, as those with that setting on purpose do."""
    made = [
        final("triplet", "default", "final", 1),
        final("triplet", RATIO, "final", 1, tuned=False, more=2),
        *(final("triplet", RATIO, role, 1) for role in ("published", "refit")),
    ]
    (ranking,) = rankings(rows_of(made))
    cells = parts_of(ranking).numbers["triplet"]
    own = ranking.rows[0].validation
    assert cells["published", "fewer", HONEST] == own
    beside = {one.what: one.numbers for one in ranking.rows[0].beside}
    assert beside["published setting"] != own


def test_with_fewer_than_three_cells_beyond_the_rankings_own_there_is_none() -> None:
    """The last epoch and the published setting are two; the refit is the third."""
    published, refit = final("triplet", RATIO, "published", 1), final("triplet", RATIO, "refit", 1)
    del published.queries["0", LAST]
    made = [final("triplet", RATIO, "final", 1), published]
    (two,) = rankings(rows_of(made))
    assert decomposition(two) is None
    assert plain(two)["decomposition"] == []
    assert not long_decomposition([two]).rows
    (three,) = rankings(rows_of([*made, refit]))
    assert len(parts_of(three).numbers["triplet"]) == 4


def test_every_export_has_the_rule_of_every_number(found: list[Ranking]) -> None:
    frame = long_decomposition(found).frame()
    assert len(frame) == 2 * 2 * (9 + 6)  # losses, metrics, cells under the ratio and under folds
    one = frame.query(
        "protocol == @RATIO and loss == 'triplet' and setting == 'tuned' and metric == "
        "'recall_at_1'"
    ).set_index(["train_classes", "epoch"])
    assert one.loc[("all", "validation epoch"), "rule"] == "refit"
    assert one.loc[("fewer", "validation epoch"), "rule"] == HONEST
    assert one.loc[("fewer", "last epoch"), "value"] == pytest.approx(share(1))
    others = beside_table(found).frame()
    assert others["rule"].notna().all()
    assert others.loc[others["difference"].notna(), "difference_rule"].notna().all()
    read = json.loads(json.dumps(plain(found[0])))
    assert len(read["decomposition"]) == 2 * 2 * 9
    assert {
        len(numbers)
        for each in read["rows"]
        for one in each["beside"]
        for numbers in one["numbers"].values()
        if numbers["rule"]
    } == {9}


def test_markdown_shows_what_stands_beside_and_the_decomposition(found: list[Ranking]) -> None:
    text = ranking_markdown(found)
    assert "| triplet | validation | refit | recall_at_1 | refit | tuned | 61.7 [" in text
    assert (
        "| triplet | validation | concatenated | recall_at_1 | selected-on-validation | tuned | "
        "81.7 [" in text
    )
    assert "| loss | setting | all train classes, best-on-test | all train classes, refit |" in text
    (line,) = [
        each
        for each in text.split(f"sketches, tiny, 16 dimensions, {FOLDS}")[0].splitlines()
        if each.startswith("| triplet | published |")
    ]
    assert [cell.split(" [")[0].strip() for cell in line.split("|")[3:-1]] == [
        "61.7\\*",
        "–",
        "41.7",
        "21.7",
        "1.7",
    ]


def test_a_table_in_markdown_has_as_many_cells_in_every_line(found: list[Ranking]) -> None:
    for block in ranking_markdown(found).split("\n\n"):
        assert len({line.count("|") for line in block.splitlines() if line.startswith("|")}) <= 1


def whole() -> list[SyntheticTrial]:
    """Of one loss all that leads from the default to the validation setup; a class's hits differ,
    so that intervals have a width.
    """
    made = [
        final("triplet", *each, seed)
        for each in (("default", "published"), (RATIO, "published"), (RATIO, "final"))
        for seed in SEEDS
    ]
    refits = [
        replace(one, role="published_refit", queries={("0", "refit"): [2, 3, 2, 2, 2, 2]})
        for one in made
        if one.key.startswith(f"triplet/{RATIO}/published")
    ]
    return [
        replace(one, role="final") if one.protocol == "default" else one for one in [*made, *refits]
    ]


def test_each_step_is_a_paired_difference_and_together_they_are_that_of_the_setups() -> None:
    (ranking,) = rankings(rows_of(whole()))
    (row,) = ranking.rows
    steps = {step.name: step.difference["recall_at_1"] for step in row.steps}
    refit = 13 / (CLASSES * PER_CLASS)
    assert [step.value for step in steps.values()] == pytest.approx(
        [refit - share(3), share(1) - refit, share(2) - share(1)]
    )
    assert sum(step.value for step in steps.values()) == pytest.approx(
        row.difference["recall_at_1"].value
    )
    assert steps["no peeking"].low < steps["no peeking"].value < steps["no peeking"].high
    # Every class and seed has one hit more: paired there is nothing that varies, although each side
    # does.
    assert (steps["tuning"].low, steps["tuning"].high) == pytest.approx((0.2, 0.2))
    assert row.validation["recall_at_1"].low < row.validation["recall_at_1"].high
    assert [(name, step.peeks) for name, step in steps.items()] == [
        ("no peeking", True),
        ("fewer train classes", False),
        ("tuning", False),
    ]


def test_a_step_is_the_same_pair_for_all_losses_and_one_that_is_missing_says_why() -> None:
    lone = [final("contrastive", RATIO, "final", seed) for seed in SEEDS]
    (ranking,) = rankings(rows_of([*whole(), *lone]))
    table = steps_table([ranking])
    assert len(table.rows) == 2 * 3
    assert len({row["what"] for row in table.rows}) == 3
    contrastive = {
        row["step"]: (row["difference"], row["why_not"])
        for row in table.rows
        if row["loss"] == "contrastive"
    }
    assert contrastive["tuning"] == (
        None,
        "no final trial finished with published setting, fewer train classes, "
        "selected-on-validation",
    )
    assert [why for row in table.rows if row["loss"] == "triplet" for why in (row["why_not"],)] == [
        ""
    ] * 3


def test_without_refits_of_the_published_setting_the_next_pair_counts_and_notes_say_what_lacks(
    found: list[Ranking],
) -> None:
    table = steps_table(found)
    what = {(row["protocol"], row["step"]): row["what"] for row in table.rows}
    assert what[RATIO, "no peeking"] == "refit minus best-on-test; tuned setting, all train classes"
    assert (
        what[FOLDS, "no peeking"]
        == "last-epoch minus best-on-test; published setting, all train classes"
    )
    assert (FOLDS, "tuning") not in what
    assert (
        f"tuning under {FOLDS}: no number, because that takes a search and published_too."
        in as_text(table)
    )


def test_the_csv_is_there_only_with_numbers(tmp_path: Path) -> None:
    from analysis.report.report import write_report
    from analysis.tables.catalogue import Study

    ratio = [
        one for one in everything() if one.protocol in ("default", RATIO) and one.loss == "triplet"
    ]
    write_report(
        study := Study(rows_of(ratio)),
        folder=tmp_path,
        config_yaml="name: made",
        readings=Counter(),
    )
    assert (
        len(pd.read_csv(tmp_path / "decomposition.csv"))
        == len(long_decomposition(study.rankings).rows)
        > 0
    )
    write_report(
        Study(rows_of([final("triplet", RATIO, "final", 1)])),
        folder=tmp_path,
        config_yaml="name: made",
        readings=Counter(),
    )
    assert not (tmp_path / "decomposition.csv").exists()
