"""The rankings on a terminal."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from analysis.ranking.fairness import COMPARED, FairnessCheck
from analysis.ranking.measurement import Measurement
from analysis.ranking.ranking import Ranking, RankingRow, rankings
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
EQUAL = f"Fairness check: equal between the losses compared: {COMPARED}."
PIXELS = {
    "raw pixels": {
        "recall_at_1": Measurement(0.17, 0.15, 0.19, "untrained"),
        "map_at_r": Measurement(0.02, 0.01, 0.03, "untrained"),
    }
}


def printed(found: list[Ranking], width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_rankings(console, found, study=Path("studies/mine"), fairness=FairnessCheck([], EQUAL))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def words(text: str) -> list[str]:
    """Return every line with single spaces."""
    return [" ".join(line.split()) for line in text.splitlines()]


def test_a_row_has_rank_letters_both_setups_and_the_signed_difference_with_intervals() -> None:
    rows = [RankingRow("triplet", DEFAULT, HONEST, GAP, 1, (1, 2), groups="ab")]
    lines = words(printed([Ranking("sketches", "tiny", 64, rows, PIXELS)]))
    row = "1 ab triplet 25.0* [20.0, 30.0] 23.1 [20.0, 26.0] -1.9* [-3.0, +1.0] 4.0"
    assert row in lines
    assert any(line.endswith("Baselines, Recall@1: raw pixels 17.0.") for line in lines)
    assert any("report mine --table ranking" in line for line in lines)


def test_the_answer_is_first_and_the_fairness_check_is_one_line_below_all_rankings() -> None:
    rows = [RankingRow("triplet", DEFAULT, HONEST, GAP, 1, (1, 1))]
    lines = words(printed([Ranking("sketches", "tiny", 64, rows, PIXELS)] * 2, width=100))
    heading = lines.index("sketches, tiny, 64 dimensions")
    assert "triplet, the only loss here, has a Recall@1 of 23.1" in " ".join(
        lines[heading + 1 :][:2]
    )
    assert "No loss is shown to beat raw pixels" in " ".join(lines[heading + 2 : heading + 4])
    (check,) = (i for i, line in enumerate(lines) if line.startswith("Fairness check"))
    assert check > max(i for i, line in enumerate(lines) if line.startswith("1 triplet"))


def test_ten_losses_and_two_setups_fit_a_screen_of_100_columns() -> None:
    row = RankingRow("multi_similarity", DEFAULT, HONEST, GAP, 10, (1, 10), groups="abc")
    text = printed([Ranking("sketches", "tiny", 64, [row] * 10, PIXELS)], width=100)
    lines = text.splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 100
    assert sum("multi_similarity" in line and "[20.0, 26.0]" in line for line in lines) == 10


def test_a_loss_without_the_validation_setup_has_no_rank() -> None:
    lines = words(printed([Ranking("s", "tiny", 64, [RankingRow("triplet", DEFAULT, {}, {})], {})]))
    assert "triplet 25.0* [20.0, 30.0] 5.0*" in lines
    rows = [
        RankingRow("triplet", DEFAULT, HONEST, GAP, 1, (1, 1)),
        RankingRow("angular", DEFAULT, {}, {}),
    ]
    assert "– angular 25.0* [20.0, 30.0] – – 5.0*" in words(
        printed([Ranking("s", "tiny", 64, rows, {})])
    )


def test_tables_of_everything_fit_eighty_columns() -> None:
    text = printed(rankings(rows_of(everything())), width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert "contrastive" in text


def test_nothing_to_rank_is_said() -> None:
    assert "nothing to rank" in printed([])
