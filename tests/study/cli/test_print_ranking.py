"""The rankings on a terminal."""

from __future__ import annotations

import io

from rich.console import Console

from analysis.ranking.measurement import Measurement
from analysis.ranking.ranking import Ranking, RankingRow, rankings
from analysis.tables.table import Column
from study.cli.print_ranking import print_rankings
from tests.support.synthetic_study import everything, rows_of

DEFAULT = {
    "recall_at_1": Measurement(0.25, 0.2, 0.3, "best-on-test"),
    "map_at_r": Measurement(0.05, 0.04, 0.06, "best-on-test"),
}
HONEST = {
    "recall_at_1": Measurement(0.231, 0.2, 0.26, "selected-on-validation"),
    "map_at_r": Measurement(0.04, 0.03, 0.05, "selected-on-validation"),
}
GAP = {"recall_at_1": Measurement(-0.019, -0.03, 0.01, "best-on-test")}
PIXELS = {
    "raw pixels": {
        "recall_at_1": Measurement(0.17, 0.15, 0.19, "untrained"),
        "map_at_r": Measurement(0.02, 0.01, 0.03, "untrained"),
    }
}


def printed(found: list[Ranking], width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_rankings(console, found)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def words(text: str) -> list[str]:
    """Return every line with single spaces."""
    return [" ".join(line.split()) for line in text.splitlines()]


def test_a_row_has_rank_group_both_setups_and_the_signed_difference_with_intervals() -> None:
    rows = [RankingRow("triplet", DEFAULT, HONEST, GAP, 1, (1, 2), groups="ab")]
    text = printed([Ranking("sketches", "tiny", 64, rows, PIXELS, ["a note [with brackets]"])])
    lines = words(text)
    first = "1 [1-2] triplet 25.0* [20.0, 30.0] 23.1 [20.0, 26.0] -1.9* [-3.0, +1.0]"
    assert first in lines
    assert lines[lines.index(first) + 1] == "ab 5.0* [4.0, 6.0] 4.0 [3.0, 5.0]"
    assert "raw pixels untrained 17.0 [15.0, 19.0] 2.0 [1.0, 3.0]" in lines
    assert "a note [with brackets]" in lines
    assert text.index("raw pixels") < text.index("triplet")


def test_the_table_fits_eighty_columns() -> None:
    rows = [RankingRow("multi_similarity", DEFAULT, HONEST, GAP, 1, (1, 2))]
    text = printed([Ranking("sketches", "tiny", 64, rows, PIXELS)], width=80)
    assert "multi_similarity 25.0* [20.0, 30.0] 23.1 [20.0, 26.0] -1.9* [-3.0, +1.0]" in text


def test_a_loss_without_the_validation_setup_has_no_rank() -> None:
    lines = words(printed([Ranking("s", "tiny", 64, [RankingRow("triplet", DEFAULT, {}, {})], {})]))
    assert "triplet 25.0* [20.0, 30.0]" in lines
    rows = [
        RankingRow("triplet", DEFAULT, HONEST, GAP, 1, (1, 1)),
        RankingRow("angular", DEFAULT, {}, {}),
    ]
    assert "– angular 25.0* [20.0, 30.0] – –" in words(
        printed([Ranking("s", "tiny", 64, rows, {})])
    )


def test_every_number_has_its_rule_in_sight() -> None:
    rows = [RankingRow("triplet", DEFAULT, HONEST, GAP, 1, (1, 1))]
    text = " ".join(printed([Ranking("sketches", "tiny", 64, rows, PIXELS)]).split())
    head = text[text.index("Ranking on") :].split("1 [1-1]")[0]
    assert "default setup*" in head
    assert "best-on-test" in head
    assert "selected-on- " in head
    assert (
        "Default setup, rule best-on-test: published setting, epoch chosen on the test classes."
        in text
    )
    assert (
        "Validation setup, rule selected-on-validation: setting and epoch chosen on held-out train "
        "classes." in text
    )
    assert "Beside" not in text


def test_other_readings_and_the_decomposition_are_printed_with_their_rules() -> None:
    ratio, folds = rankings(rows_of(everything()))
    lines = words(printed([ratio], width=200))
    assert "sketches, tiny, 16 dimensions, fixed_validation:0.1" in lines
    value, gap = Column("value", form="percent"), Column("gap", form="points")
    beside = {(one.setup, one.what): one for one in ratio.rows[0].beside}
    for (setup, what), rule in {
        ("validation", "refit"): "refit",
        ("default", "last epoch"): "last-epoch",
    }.items():
        one = beside[setup, what]
        recall, mean_precision = (
            f"{value.text(one.numbers[metric])} {gap.text(one.difference[metric])}"
            for metric in ("recall_at_1", "map_at_r")
        )
        at = lines.index(f"triplet {setup} {rule} {recall}")
        assert lines[at + 1] == f"{what} {mean_precision}"
    text = " ".join(lines)
    assert "Default setup, rule best-on-test: setting and epoch chosen on the test classes." in text
    assert "(fixed_validation:0.1)" in text
    assert "triplet validation selected-on-validation 81.7 [" in " ".join(
        printed([folds], width=200).split()
    )


def test_where_intervals_do_not_fit_the_values_stand_alone() -> None:
    ratio, _ = rankings(rows_of(everything()))
    assert any("triplet tuned 81.7* [" in line for line in words(printed([ratio], width=200)))
    lines = words(printed([ratio], width=80))
    assert "triplet tuned 81.7* 61.7 61.7* 41.7 21.7" in lines
    assert "triplet published 61.7* – 41.7 21.7 1.7" in lines


def test_tables_of_everything_fit_eighty_columns() -> None:
    text = printed(rankings(rows_of(everything())), width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert "contrastive" in text


def test_nothing_to_rank_is_said() -> None:
    assert "nothing to rank" in printed([])
