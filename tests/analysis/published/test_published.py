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
from analysis.tables.frames import records
from analysis.tables.papers_versus_reality import TREND
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


def test_every_number_of_the_reality_check_is_written_as_the_paper_prints_it() -> None:
    printed = {
        f"{line['mean']:.2f}" + (f" ± {line['ci95']:.2f}" if line["ci95"] == line["ci95"] else "")
        for line in records(read_published("reality_check"))
    }
    shown = published_table("reality_check", "concatenated").for_readers()
    texts = {text for row in lines_of(shown) for text in row if re.match(r"[\d.]+( ±|$)", text)}
    assert texts == printed
    assert "68.13 ± 0.31" in FORMATS["text"](shown)
    assert r"68.13 $\pm$ 0.31" in FORMATS["latex"](shown)
    assert "59.73 ± 0.40" in FORMATS["text"](published_table("reality_check", "retrieval"))


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


def test_papers_versus_reality_has_the_claims_that_the_thesis_quotes_and_both_trends() -> None:
    rows = {
        (row["dataset"], row.get("loss", TREND)): row
        for row in published_table("reality_check", "papers_versus_reality").rows
    }
    claims = {
        place: 100 * value(row["claimed"])
        for place, row in rows.items()
        if "loss" in row and "claimed" in row
    }
    assert claims["cub200", "soft_triple"] == pytest.approx(65.4)
    assert claims["cars196", "soft_triple"] == pytest.approx(84.5)
    assert claims["cars196", "margin"] == pytest.approx(79.6)
    assert len(claims) == 7
    assert all(rows[place]["claimed"].peeks and rows[place]["source"] for place in claims)
    gap = rows["cars196", "margin"]["gap"]
    assert 100 * value(gap) == pytest.approx(68.24 - 79.6)
    # The slope by hand: margin 2017, soft_triple 2019, proxy_anchor 2020.
    x, y = (2017, 2019, 2020), (79.6, 84.5, 86.4)
    slope = statistics.linear_regression(x, y).slope
    assert 100 * value(rows["cars196", TREND]["claimed"]) == pytest.approx(slope)
    measured = [row for row in rows.values() if row["dataset"] == "cub200" and "measured" in row]
    years = [row["year"] for row in measured if "year" in row]
    scores = [100 * value(row["measured"]) for row in measured if "year" in row]
    slope = statistics.linear_regression(years, scores).slope
    assert 100 * value(rows["cub200", TREND]["measured"]) == pytest.approx(slope)
    assert abs(slope) < 0.1 < 3 < 100 * value(rows["cub200", TREND]["claimed"])


def test_numbers_of_the_triplet_report_and_of_generalisation_are_as_printed() -> None:
    rows = {
        (row["backbone"], row["loss"]): row
        for row in published_table("triplet_report", "triplet_report").rows
    }
    assert len(rows) == 10
    best = rows["resnet18", "triplet_p_norm@6"]
    assert (100 * value(best["precision_at_1"]), value(best["loss_value"])) == (
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


def test_the_triplet_report_is_of_a_closed_set_and_has_243_queries() -> None:
    """Every printed share is the rounded share of a whole number of images or neighbours."""

    def fits(percent: float, of: int) -> bool:
        return any(
            round(100 * count / of, 2) == percent
            for count in (int(percent * of / 100), int(percent * of / 100) + 1)
        )

    table = published_table("triplet_report", "triplet_report")
    queries = {"precision_at_1": 243, "precision_at_5": 5 * 243, "precision_at_10": 10 * 243}
    for row in table.rows:
        assert fits(round(100 * value(row["triplet_accuracy"]), 2), 5794)
        assert all(fits(round(100 * value(row[name]), 2), of) for name, of in queries.items())
    assert all(number.closed for number in table.measurements())
    assert "standard error of 3.0 points" in " ".join(table.notes)


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
