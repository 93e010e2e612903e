"""The papers' tables are recomputed from the papers' numbers."""

from __future__ import annotations

import json
import re
import statistics

import pytest
from typer.testing import CliRunner

from analysis.published import PAPERS, published_table
from analysis.published.files import read_published, thesis_scores
from analysis.ranking.measurement import Measurement
from analysis.tables.catalogue import TABLES
from analysis.tables.writers import FORMATS, lines_of
from search_spaces import LOSSES
from search_spaces.own import untagged
from study.__main__ import app

EVERY = [(paper, name) for paper, tables in PAPERS.items() for name in tables]


def value(entry: object) -> float:
    return entry.value if isinstance(entry, Measurement) else float(entry)  # type: ignore[arg-type]


@pytest.mark.parametrize(("paper", "name"), EVERY)
def test_every_published_table_has_the_name_and_columns_of_a_studys_and_every_format(
    paper: str, name: str
) -> None:
    table = published_table(paper, name)
    assert name in TABLES
    assert table.name == name
    assert table.rows
    assert all(write(table) for write in FORMATS.values())
    losses = {untagged(str(row["loss"])) for row in table.rows if "loss" in row}
    assert losses - {"pretrained bn_inception"} <= set(LOSSES)


@pytest.mark.parametrize("name", ["concatenated", "retrieval"])
def test_every_number_of_the_reality_check_has_one_decimal_with_an_interval_or_without(
    name: str,
) -> None:
    shown = published_table("reality_check", name).for_readers()
    texts = [text for row in lines_of(shown) for text in row if re.match(r"[\d.]+( \[|$)", text)]
    decimals = {len(text.split()[0].partition(".")[2]) for text in texts if "." in text}
    assert decimals == {1}


def test_table_11_comes_from_tables_6_to_8() -> None:
    table = published_table("thesis", "tournament")
    totals = {row["loss"]: value(row["total"]) for row in table.rows}
    assert list(totals.values()) == [12, 38, 51, 52, 54, 70, 79, 81, 103, 120]
    assert list(totals) == read_published("thesis_tournament")["loss"].tolist()
    for row in table.rows:
        for ours, printed in (
            ("mean", "printed_mean"),
            ("deviation", "printed_deviation"),
            ("total", "printed_total"),
        ):
            if (row["loss"], ours) != ("triplet", "mean"):
                assert value(row[ours]) == pytest.approx(value(row[printed]), abs=0.01)


def test_the_misprinted_mean_of_triplet_is_marked_and_no_other_number_of_table_11() -> None:
    table = published_table("thesis", "tournament")
    assert [cell.doubt for cell in table.measurements() if cell.doubt] == [
        "mean of triplet is printed as 8.85, and the tables that it is made of give 8.58"
    ]
    (triplet,) = [row for row in table.rows if row["loss"] == "triplet"]
    assert value(triplet["mean"]) == pytest.approx(103 / 12)
    assert "8.85†" in FORMATS["text"](table)


def test_ranks_of_table_11_are_those_of_a_plain_count() -> None:
    """A loss's rank is one more than the number of losses that are better in that cell."""
    lines = [
        line
        for line in read_published("thesis_recall").to_dict("records")
        if line["source"] in ("table 6", "table 7", "table 8")
    ]
    lines = [line for line in lines if line["metric"] == "recall_at_1"]
    for row in published_table("thesis", "tournament").rows:
        for line in (line for line in lines if line["loss"] == row["loss"]):
            rivals = [
                o["value"]
                for o in lines
                if (o["backbone"], o["embedding_size"])
                == (line["backbone"], line["embedding_size"])
            ]
            cell = f"{line['dataset']}/{line['backbone']}-{line['embedding_size']}"
            assert value(row[cell]) == 1 + sum(rival > line["value"] for rival in rivals)


def test_table_12_comes_from_table_13() -> None:
    lines = read_published("thesis_cross_validation")
    folds = lines.loc[lines["source"] == "table 13", "test_recall_at_1"].tolist()
    table = published_table("thesis", "cross_validation")
    (every,) = [
        row for row in table.rows if row["fold"] == "all" and row["loss"] == "multi_similarity"
    ]
    assert 100 * value(every["test"]) == pytest.approx(statistics.fmean(folds))
    assert 100 * value(every["deviation"]) == pytest.approx(statistics.stdev(folds))
    for ours, printed in (("test", "printed_test"), ("deviation", "printed_deviation")):
        assert 100 * value(every[ours]) == pytest.approx(100 * value(every[printed]), abs=0.01)
    assert "over 10 folds -0.60." in table.notes[0]


def test_only_the_two_cells_whose_recall_falls_with_k_are_marked() -> None:
    table = published_table("thesis", "retrieval")
    marked = [
        (row["loss"], row["embedding_size"], key)
        for row in table.rows
        for key, cell in row.items()
        if isinstance(cell, Measurement) and cell.doubt
    ]
    assert marked == [("arcface", 128, "recall_at_10"), ("arcface", 1024, "recall_at_1000")]


def test_table_16_has_the_signed_difference_that_the_thesis_does_not_print() -> None:
    rows = {
        row["loss"]: 100 * value(row["difference_recall_at_1"])
        for row in published_table("thesis", "default_vs_validation").rows
    }
    assert rows == pytest.approx(
        {"multi_similarity": 0.37, "soft_triple": -0.64, "proxy_anchor": -1.55}
    )


def test_table_15_marks_the_optimum_that_is_not_on_its_own_grid() -> None:
    edges = {
        (row["loss"], row["parameter"]): row["edge"]
        for row in published_table("thesis", "hyperparameters").rows
    }
    assert {key for key, edge in edges.items() if edge} == {("soft_triple", "gamma")}


def test_twelve_cells_of_one_dataset_are_no_blocks_for_a_rank_test() -> None:
    note = published_table("thesis", "mean_ranks").notes[0]
    assert "mean over 12 cells. No rank test: 12 cells of 1 dataset are 1 independent" in note


def test_the_reality_check_keeps_its_means_and_intervals() -> None:
    (row,) = [
        r
        for r in published_table("reality_check", "concatenated").rows
        if (r["dataset"], r["loss"]) == ("cub200", "contrastive_euclidean")
    ]
    cell = row["concatenated_recall_at_1"]
    assert [100 * number for number in (cell.value, cell.low, cell.high)] == pytest.approx(
        [68.13, 67.82, 68.44]
    )
    assert 100 * value(row["separated_map_at_r"]) == pytest.approx(21.18)


def test_relative_improvement_is_by_year_and_over_the_papers_own_contrastive_and_triplet() -> None:
    rows = [
        row
        for row in published_table("reality_check", "improvement").rows
        if row["dataset"] == "cub200"
    ]
    assert [row["year"] for row in rows] == sorted(row["year"] for row in rows)
    arcface = next(row for row in rows if row["loss"] == "arcface")
    assert value(arcface["over_contrastive"]) == pytest.approx(60.17 / 59.73 - 1)
    assert value(arcface["over_triplet"]) == pytest.approx(60.17 / 55.76 - 1)


def test_numbers_of_the_triplet_report_and_of_generalisation_are_as_printed() -> None:
    rows = {
        (row["backbone"], row["loss"]): row
        for row in published_table("triplet_report", "triplet_report").rows
    }
    assert len(rows) == 10
    best = rows["resnet18", "triplet_p_norm@6"]
    assert (100 * value(best["precision_at_1"]), best["train_loss"]) == (
        pytest.approx(46.91),
        0.3081,
    )
    cars = {
        row["loss"]: row
        for row in published_table("generalization", "generalisation").rows
        if row["dataset"] == "cars196"
    }
    assert 100 * value(cars["semi_hard_negative_nca"]["gap_test"]) == pytest.approx(80.20)
    assert 100 * value(cars["batch_all_nca"]["fc_drop"]) == pytest.approx(70.75 - 33.72)


def test_tables_17_to_19_repeat_what_the_earlier_tables_say_and_add_one_loss() -> None:
    lines = read_published("thesis_recall")
    later = lines[
        lines["source"].isin(["table 17", "table 18", "table 19"])
        & (lines["loss"] != "thesis_loss")
    ]
    keys = ["dataset", "backbone", "embedding_size", "loss", "metric"]
    earlier = lines[~lines["source"].isin(["table 17", "table 18", "table 19"])]
    both = later.merge(earlier, on=keys)
    assert len(both) == len(later)
    assert (both["value_x"] - both["value_y"]).abs().max() < 1e-9
    assert "thesis_loss_2" in set(thesis_scores()["loss"])


def test_the_command_prints_a_papers_table_for_programs() -> None:
    shown = CliRunner().invoke(
        app, ["report", "--published", "thesis", "--table", "tournament", "--json"]
    )
    rows = json.loads(shown.stdout)["rows"]
    assert [row["total"]["value"] for row in rows] == [12, 38, 51, 52, 54, 70, 79, 81, 103, 120]
    assert rows[8]["printed_mean"]["doubt"]
    every = json.loads(
        CliRunner().invoke(app, ["report", "--published", "reality_check", "--json"]).stdout
    )
    assert [table["table"] for table in every] == list(PAPERS["reality_check"])


def test_a_wrong_paper_or_table_is_one_sentence() -> None:
    for words, near in (
        (["--published", "thesys"], "'thesis'"),
        (["--published", "thesis", "--table", "retrival"], "'retrieval'"),
    ):
        shown = CliRunner().invoke(app, ["report", *words])
        assert shown.exit_code == 2
        assert f"Did you mean {near}?" in shown.stderr


def test_published_files_are_listed_with_their_source() -> None:
    from importlib.resources import files

    folder = files("analysis.published")
    readme = folder.joinpath("README.md").read_text(encoding="utf-8")
    names = [path.name for path in folder.iterdir() if path.name.endswith(".csv")]
    assert len(names) == 11
    assert all(f"`{name}`" in readme for name in names)


def test_the_thesis_chose_its_ratio_by_the_test_scores_and_its_setups_are_not_paired() -> None:
    ratios = published_table("thesis", "split_ratio")
    assert all(row["test"].peeks for row in ratios.rows)
    assert "The thesis chose the ratio by these test scores." in ratios.notes[0]
    assert "never chosen" not in ratios.notes[0]
    assert "paired" not in published_table("thesis", "default_vs_validation").notes[0]
