"""The ranking on a terminal."""

from __future__ import annotations

import io

from rich.console import Console

from analysis.tables import Number, Ranking, RankingRow, rankings
from study.printing import print_rankings
from tests.support.made import everything, rows_of

DEFAULT = {"recall_at_1": Number(0.25, 0.2, 0.3, "best-on-test"), "map_at_r": Number(0.05, 0.04, 0.06, "best-on-test")}
HONEST = {"recall_at_1": Number(0.231, 0.2, 0.26, "selected-on-validation"), "map_at_r": Number(0.04, 0.03, 0.05, "selected-on-validation")}
GAP = {"recall_at_1": Number(-0.019, -0.03, 0.01, "best-on-test")}
PIXELS = {"raw pixels": {"recall_at_1": Number(0.17, 0.15, 0.19, "untrained"), "map_at_r": Number(0.02, 0.01, 0.03, "untrained")}}


def printed(ranking: list[Ranking], width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_rankings(console, ranking)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_a_row_has_rank_group_both_setups_and_the_signed_difference_each_number_with_its_interval() -> None:
    rows = [RankingRow("triplet", DEFAULT, HONEST, GAP, 1, (1, 2), groups="ab")]
    text = printed([Ranking("sketches", "tiny", 64, rows, PIXELS, ["a note [with brackets]"])])
    for part in (
        "1 [1-2]",
        "\nab ",
        "triplet",
        "25.0* [20.0, 30.0]",
        "5.0* [4.0, 6.0]",
        "23.1 [20.0, 26.0]",
        "4.0 [3.0, 5.0]",
        "-1.9* [-3.0, +1.0]",
        "raw pixels",
        "17.0 [15.0, 19.0]",
        "2.0 [1.0, 3.0]",
        "a note [with brackets]",
    ):
        assert part in text
    assert text.index("raw pixels") < text.index("triplet")


def test_the_table_fits_eighty_columns() -> None:
    rows = [RankingRow("multi_similarity", DEFAULT, HONEST, GAP, 1, (1, 2))]
    text = printed([Ranking("sketches", "tiny", 64, rows, PIXELS)], width=80)
    assert "multi_similarity" in text
    assert "25.0* [20.0, 30.0] 23.1 [20.0, 26.0] -1.9* [-3.0, +1.0]" in text


def test_a_loss_without_the_validation_setup_has_no_rank() -> None:
    text = printed([Ranking("sketches", "tiny", 64, [RankingRow("triplet", DEFAULT, {}, {})], {})])
    assert "25.0* [20.0, 30.0]" in text
    assert "\n-  " in text


def test_every_number_has_its_rule_in_sight() -> None:
    text = " ".join(printed([Ranking("sketches", "tiny", 64, [RankingRow("triplet", DEFAULT, HONEST, GAP, 1, (1, 1))], PIXELS)]).split())
    assert "MAP@R 2.0 [1.0, 3.0] rule untrained" in text
    assert "default, rule best-on-test: published setting, epoch chosen on the test classes." in text
    assert "valid., rule selected-on-validation: setting and epoch chosen on held-out train classes." in text
    assert "Beside these" not in text


def test_what_stands_beside_and_the_decomposition_are_printed_with_their_rules() -> None:
    ratio, folds = rankings(rows_of(everything()))
    lines = [" ".join(line.split()) for line in printed([ratio]).splitlines()]
    assert "sketches, tiny, 16 dimensions, fixed_validation:0.1: scores on the test classes, in percent" in lines
    told = {(one.setup, one.what): one for one in ratio.rows[0].beside}
    for (setup, what), words in {
        ("validation", "refit"): "valid., refit refit",
        ("default", "last epoch"): "default, last epoch last-",
    }.items():
        one = told[setup, what]
        at = lines.index(f"triplet {words} {one.numbers['recall_at_1'].percent_interval()} {one.difference['recall_at_1'].signed()}")
        assert f"{one.numbers['map_at_r'].percent_interval()} {one.difference['map_at_r'].signed()}" in lines[at + 1]
    assert "triplet tuned 81.7* 61.7 61.7* 41.7 21.7" in lines
    assert "triplet published 61.7* 41.7 21.7 1.7" in lines
    text = " ".join(lines)
    assert "default, rule best-on-test: setting and epoch chosen on the test classes." in text
    assert "(fixed_validation:0.1)" in text
    assert "triplet valid., concatenated selected-on- 81.7 [" in " ".join(printed([folds]).split())


def test_tables_of_everything_fit_eighty_columns() -> None:
    text = printed(rankings(rows_of(everything())), width=80)
    assert "…" not in text
    assert "contrastive" in text


def test_nothing_to_rank_is_said() -> None:
    assert "nothing to rank" in printed([])
