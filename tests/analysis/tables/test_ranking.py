"""The ranking's tables hold what the ranking holds, in every format."""

import json
from io import StringIO

import pandas as pd

from analysis.ranking.decomposition import plain
from analysis.ranking.measurement import Measurement
from analysis.ranking.notes import ONE_SEARCH
from analysis.ranking.ranking import Ranking, RankingRow, rankings
from analysis.report.report import ranking_markdown
from analysis.tables.beside import beside_table
from analysis.tables.ranking import compact_ranking, ranking_table
from analysis.tables.writers import as_csv
from tests.support.synthetic_study import everything, replicated, rows_of


def side(value: float, rule: str) -> dict[str, Measurement]:
    return {
        metric: Measurement(value, value - 0.02, value + 0.02, rule, replicates=3)
        for metric in ("recall_at_1", "map_at_r")
    }


def row(loss: str, rank: int) -> RankingRow:
    honest = side(0.5 - rank / 10, "selected-on-validation")
    return RankingRow(
        loss, side(0.6, "best-on-test"), honest, side(-0.1, "best-on-test"), rank, (1, 2)
    )


RANKINGS = [
    Ranking(
        "sketches",
        "tiny",
        16,
        [row("contrastive", 1), row("triplet", 2)],
        {"raw pixels": side(0.47, "untrained")},
        ["a note"],
        [("contrastive", "triplet")],
    )
]


def test_json_holds_every_loss_baseline_and_rule_and_who_is_ahead():
    there = json.loads(json.dumps(plain(RANKINGS[0])))
    assert [row["loss"] for row in there["rows"]] == ["contrastive", "triplet"]
    assert there["rows"][0]["default"]["recall_at_1"]["rule"] == "best-on-test"
    assert there["baselines"]["raw pixels"]["recall_at_1"]["value"] == 0.47
    assert there["ahead"] == [["contrastive", "triplet"]]


def test_markdown_has_ranking_baselines_notes_and_every_mark():
    text = ranking_markdown(RANKINGS)
    assert (
        "| raw pixels | untrained | baseline | recall_at_1 | untrained | 47.0 [45.0, 49.0] |"
        in text
    )
    assert "| default Recall@1\\* (best-on-test) |" in text
    assert "| validation Recall@1 (selected-on-validation) |" in text
    assert "60.0\\* [58.0, 62.0]" in text
    assert "40.0 [38.0, 42.0]" in text
    assert "- a note" in text
    for part in text.split("\n## "):
        assert len({line.count("|") for line in part.splitlines() if line.startswith("|")}) == 1


def test_baselines_are_in_the_long_file_with_their_rule():
    frame = beside_table(RANKINGS).frame()
    assert frame[["loss", "what", "metric", "value", "rule", "value_peeks"]].values.tolist() == [
        ["raw pixels", "baseline", "recall_at_1", 0.47, "untrained", False],
        ["raw pixels", "baseline", "map_at_r", 0.47, "untrained", False],
    ]
    assert beside_table([]).frame().columns.tolist() == frame.columns.tolist()


def test_a_frame_survives_its_own_csv():
    frame = ranking_table(RANKINGS).frame()
    again = pd.read_csv(StringIO(as_csv(ranking_table(RANKINGS))))
    assert (
        again.columns.tolist()
        == frame.columns.tolist()
        == ranking_table([]).frame().columns.tolist()
    )
    assert again["validation_recall_at_1"].tolist() == [0.4, 0.3]
    assert again["rank"].tolist() == [1, 2]


def test_the_compact_ranking_says_what_its_intervals_lack_if_there_was_one_search():
    one, several = (
        compact_ranking(rankings(rows_of(made))[0]).notes
        for made in (everything(), replicated(reproductions=2))
    )
    assert ONE_SEARCH in one
    assert any("[low, high]: 95% interval over test classes and 2 seeds." in note for note in one)
    assert ONE_SEARCH not in several
    assert any("interval over test classes and 3 replicates." in note for note in several)
