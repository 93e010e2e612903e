"""Tables of made rows hold what one counts by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import stdev

import numpy as np
import pandas as pd
import pytest

from analysis import read_study
from analysis.figures.from_scores import OF_SCORES
from analysis.published import published_table
from analysis.published.files import read_published
from analysis.ranking.measurement import Measurement
from analysis.ranking.notes import ONE_SEARCH
from analysis.record.frames import StudyRows, of_dataset
from analysis.tables.catalogue import COMPARE, OWN_BRACKETS, Study, make_table
from analysis.tables.effects import effects
from analysis.tables.improvement import improvement
from analysis.tables.mean_ranks import mean_ranks
from analysis.tables.retrieval import doubted
from analysis.tables.scores import frame
from analysis.tables.table import Table
from analysis.tables.tournament import tournament
from analysis.tables.with_published import with_published
from tests.support.synthetic_study import (
    CLASSES,
    FOLDS,
    HERE,
    HONEST,
    LAST,
    MEASURED,
    PEEKS,
    PER_CLASS,
    RATIO,
    SyntheticTrial,
    everything,
    final,
    large_study,
    replicated_study,
    rows_of,
    share,
    spec,
    write_study,
)
from trainables.contract import EMBEDDINGS

ONE, THREE = Study(large_study()), Study(replicated_study())


@pytest.fixture(scope="module")
def study() -> Study:
    return Study(rows_of(everything()))


def rows_with(table: Table, **words: object) -> list[dict[str, object]]:
    return [
        dict(row) for row in table.rows if all(row.get(key) == word for key, word in words.items())
    ]


def one(table: Table, **words: object) -> dict[str, object]:
    (row,) = rows_with(table, **words)
    return row


def value(entry: object) -> float:
    return entry.value if isinstance(entry, Measurement) else float(entry)  # type: ignore[arg-type]


def test_retrieval_has_every_loss_under_every_setup_and_marks_by_rule(study: Study) -> None:
    table = make_table("retrieval", study)
    assert len(table.rows) == 2 * 3
    cell = one(table, loss="triplet", protocol=RATIO)["recall_at_1"]
    assert isinstance(cell, Measurement)
    assert (cell.value, cell.rule, cell.peeks, cell.replicates) == (
        pytest.approx(share(2)),
        HONEST,
        False,
        2,
    )
    assert one(table, loss="triplet", protocol="default")["recall_at_1"].rule == PEEKS  # type: ignore[attr-defined]


def test_setups_are_never_in_one_tournament(study: Study) -> None:
    table = make_table("tournament", study)
    default, honest = (
        one(table, setup="default", loss="triplet"),
        one(table, setup="validation", loss="triplet"),
    )
    assert value(default["total"]) == 1
    assert value(honest["total"]) == 2  # under a ratio and under folds
    assert not (default.keys() & honest.keys()) - {"setup", "loss", "total", "mean", "deviation"}


def test_equal_losses_share_the_mean_of_their_ranks_and_a_lone_one_has_none() -> None:
    place = {
        "backbone": "b",
        "embedding_size": 1,
        "protocol": "p",
        "setup": "validation",
        "what": "",
        "metric": "recall_at_1",
    }
    scores = [("d", "x", 0.5), ("d", "y", 0.5), ("d", "z", 0.1), ("e", "x", 0.9)]
    table = tournament(
        frame(
            {**place, "dataset": data, "loss": loss, "measurement": Measurement(score)}
            for data, loss, score in scores
        )
    )
    assert {row["loss"]: value(row["mean"]) for row in table.rows} == {"x": 1.5, "y": 1.5, "z": 3}


def test_a_recall_that_falls_is_doubted_until_it_is_above_the_highest_again() -> None:
    cells = {
        f"recall_at_{k}": Measurement(score)
        for k, score in ((1, 0.5), (10, 0.4), (100, 0.45), (1000, 0.6))
    }
    assert [name for name, cell in doubted(cells).items() if cell.doubt] == [
        "recall_at_10",
        "recall_at_100",
    ]


def test_a_pair_is_told_apart_by_classes_and_replicates_together() -> None:
    """Twenty classes: in replicate 1 triplet is ahead of contrastive, in replicate 2 it is not."""
    rows = rows_of(
        [
            final(loss, RATIO, "final", seed)
            for loss in ("triplet", "contrastive", "margin")
            for seed in (1, 2)
        ]
    )
    hits = {"triplet": {1: 3, 2: 2}, "contrastive": {1: 2, 2: 2}, "margin": {1: 0, 2: 0}}
    queries = [
        {
            "run_id": f"{loss}/{RATIO}/final-{seed}",
            "fold": "0",
            "rule": HONEST,
            "class": label,
            "recall_at_1": float(query < count),
        }
        for loss, seeds in hits.items()
        for seed, count in seeds.items()
        for label in range(20)
        for query in range(4 + label % 3)
    ]
    queries += [
        line | {"class": 20, "recall_at_1": float(line["run_id"].startswith("margin"))}
        for line in queries
        if line["class"] == 0
    ]
    rows = replace(rows, queries=pd.DataFrame(queries))
    table = make_table("significance", Study(rows))
    row = one(table, loss="triplet", other="contrastive")
    means = pd.DataFrame(queries).groupby("run_id")["recall_at_1"].mean()
    expected = (
        sum(
            means[f"triplet/{RATIO}/final-{seed}"] - means[f"contrastive/{RATIO}/final-{seed}"]
            for seed in (1, 2)
        )
        / 2
    )
    assert value(row["difference"]) == pytest.approx(expected)  # as the ranking has it: by queries
    gap = row["difference"]
    assert isinstance(gap, Measurement)
    assert gap.low < 0 < gap.high
    assert (row["apart"], row["classes"], row["replicates"]) == ("no", 21, 2)
    assert 0.5 < row["ahead"] < 0.9  # type: ignore[operator]
    assert table.notes[0].startswith("WARNING: ")
    assert "paired by test class and replicate" in table.notes[1]
    assert ONE_SEARCH in table.notes


def test_the_significance_of_a_setup_agrees_with_the_letters_of_the_ranking(study: Study) -> None:
    ranking = {
        (row["protocol"], row["loss"]): row["groups"] for row in make_table("ranking", study).rows
    }
    for row in make_table("significance", study).rows:
        if row["setup"] == "validation":
            shared = set(ranking[row["protocol"], row["loss"]]) & set(
                ranking[row["protocol"], row["other"]]
            )
            assert row["apart"] == ("no" if shared else "yes")


def test_folds_are_told_one_by_one_with_their_own_validation_score() -> None:
    made = [final("triplet", FOLDS, "final", seed) for seed in (1, 2)]
    rows = rows_of(made)
    curves = [
        {
            "run_id": each.key,
            "metric": f"fold{fold}/select/recall_at_1",
            "epoch": epoch,
            "value": (epoch + fold) / 10,
        }
        for each in made
        for fold in (0, 1)
        for epoch in (1, 2, 3)
    ]
    trials = rows.trials.assign(**{"fold0/chosen_epoch": 2.0, "fold1/chosen_epoch": 1.0})
    table = make_table(
        "cross_validation",
        Study(replace(rows, trials=trials, curves=pd.concat([rows.curves, pd.DataFrame(curves)]))),
    )
    first, second, every = table.rows
    assert [value(first["test"]), value(second["test"])] == pytest.approx([share(1), share(2)])
    assert [first["validation"], second["validation"]] == pytest.approx([0.2, 0.2])
    assert every["deviation"] == pytest.approx(stdev([share(1), share(2)]))


def test_with_a_split_for_every_replicate_no_fold_is_averaged_with_another_of_other_classes(
    tmp_path: Path,
) -> None:
    folds = {"chosen_epoch": 2.0, "fold0/chosen_epoch": 2.0, "fold1/chosen_epoch": 2.0}
    made = [
        final("triplet", FOLDS, "final", number, split=f"{each}", end_metrics=folds, replicate=each)
        for each, number in ((1, 1), (2, 2))
    ]
    table = make_table("cross_validation", Study(read_study(write_study(tmp_path, made))))
    found = {str(row["fold"]): value(row["test"]) for row in table.rows}
    hits = {
        "replicate 1, fold 0": 7,
        "replicate 1, fold 1": 13,
        "replicate 2, fold 0": 6,
        "replicate 2, fold 1": 12,
    }  # of 30; seed 1 hits once more
    assert found == pytest.approx(
        {fold: count / 30 for fold, count in hits.items()} | {"all": 38 / 120}
    )
    assert table.rows[-1]["deviation"] == pytest.approx(
        stdev(count / 30 for count in hits.values())
    )


def test_split_ratio_counts_classes_and_reads_validation_at_the_chosen_epoch(study: Study) -> None:
    row = one(make_table("split_ratio", study), loss="triplet")
    assert (row["train_classes"], row["validation_classes"]) == (18, 2)
    assert row["validation"] == pytest.approx(0.2)  # epoch 2
    assert value(row["test"]) == pytest.approx(share(2))


def test_hyperparameters_have_sources_start_found_and_edge(study: Study) -> None:
    row = one(make_table("hyperparameters", study), loss="contrastive", protocol=RATIO)
    assert (row["parameter"], row["paper"], row["start"], row["found"], row["range"]) == (
        "margin",
        "0.5",
        "0.1",
        "0",
        "0 to 0.1",
    )  # as far as it was tried
    assert row["edge"] == "the best may lie outside"
    peeked = one(make_table("hyperparameters", study), loss="contrastive", protocol="default")
    assert (peeked["start"], peeked["found"]) == ("0.1", Measurement(0.0, peeks=True))


def test_where_no_search_trial_had_a_score_nothing_was_found_and_no_edge_was_chosen(
    tmp_path: Path,
) -> None:
    """The published 0 would lie at the edge of what was tried."""
    made = [
        SyntheticTrial("contrastive", RATIO, "search", number, chosen=0.1 * number, status="FAILED")
        for number in (0, 1)
    ]
    made += [final("contrastive", RATIO, "final", seed, tuned=False, chosen=0.0) for seed in (1, 2)]
    row = one(
        make_table("hyperparameters", Study(read_study(write_study(tmp_path, made)))),
        loss="contrastive",
    )
    assert (row["start"], row["found"], row["edge"]) == (
        "0",
        None,
        "no search trial had a score: nothing was chosen",
    )


def test_the_difference_of_the_setups_is_signed_and_marked(study: Study) -> None:
    gap = one(make_table("default_vs_validation", study), loss="triplet", protocol=RATIO)[
        "difference_recall_at_1"
    ]
    assert isinstance(gap, Measurement)
    assert gap.value == pytest.approx(share(2) - share(4))
    assert gap.peeks


def test_concatenated_stands_beside_separated_under_folds_only(study: Study) -> None:
    table = make_table("concatenated", study)
    assert {row["protocol"] for row in table.rows} == {FOLDS}
    row = one(table, loss="triplet")
    assert value(row["concatenated_recall_at_1"]) == pytest.approx(share(4))
    assert value(row["separated_recall_at_1"]) == pytest.approx(share(1, 2))


def test_a_tournament_of_one_dataset_ranks_in_its_cells_alone() -> None:
    here = [final(loss, RATIO, "final", 1) for loss in ("triplet", "contrastive")]
    there = [replace(each, axes=("drawings", "tiny", 16)) for each in here]
    rows = rows_of([*here, *there])
    for whole, cells in ((rows, 2), (of_dataset(rows, "drawings"), 1)):
        table = make_table("tournament", Study(whole))
        assert {value(row["total"]) for row in table.rows} <= {cells * rank for rank in (1, 1.5, 2)}
    with pytest.raises(ValueError, match="Unknown dataset of this study 'cub200'"):
        of_dataset(rows, "cub200")


def test_the_pretrained_row_of_the_reality_check_has_both_widths_and_the_papers_numbers() -> None:
    axes = ("cub200", "bn_inception", 128)
    narrow, wide = ({("0", "untrained"): [hits] * CLASSES} for hits in (2, 3))
    made = [
        replace(final("triplet", FOLDS, "final", 1), axes=axes),
        SyntheticTrial("pca", "none", "final", 1, narrow, axes=axes),
        SyntheticTrial("pca", "none", "final", 1, wide, axes=(*axes[:2], 2 * axes[2])),
    ]
    table = make_table("concatenated", Study(rows_of(made)))
    theirs = published_table("reality_check", "concatenated")
    row = one(with_published(table, theirs, "reality_check"), loss="PCA of bn_inception")
    assert value(row["separated_recall_at_1"]) == pytest.approx(2 / PER_CLASS)
    assert value(row["concatenated_recall_at_1"]) == pytest.approx(3 / PER_CLASS)
    assert value(row["separated_recall_at_1_published"]) == pytest.approx(0.5054)
    assert value(row["concatenated_recall_at_1_published"]) == pytest.approx(0.5105)
    assert row["embedding_size"] == 128


def test_the_triplet_report_has_the_train_loss_of_the_epoch_that_its_row_is_about() -> None:
    made = [
        final("triplet", protocol, "final", seed)
        for protocol in ("default", RATIO, FOLDS)
        for seed in (1, 2)
    ]
    rows = rows_of(made)
    curves = pd.DataFrame(
        [
            {"run_id": each.key, "metric": "train/loss", "epoch": e, "value": 1.0 / e}
            for each in made
            for e in (1, 2, 3)
        ]
    )
    columns = {
        "test/triplet_accuracy": 0.8,
        "last/triplet_accuracy": 0.7,
        "train/loss": 1 / 3,
        "fold0/chosen_epoch": 1.0,
    }
    trials = rows.trials.assign(**columns, **{"fold1/chosen_epoch": 2.0})
    table = make_table("triplet_report", Study(replace(rows, trials=trials, curves=curves)))
    found = {
        (row["protocol"], row["rule"]): (row["train_loss"], row["triplet_accuracy"].peeks)
        for row in table.rows
    }
    assert found == {
        ("default", PEEKS): (0.5, True),
        ("default", LAST): (pytest.approx(1 / 3), True),  # its setting was tuned on test
        (RATIO, HONEST): (0.5, False),
        (RATIO, LAST): (pytest.approx(1 / 3), False),
        (FOLDS, HONEST): (0.75, False),  # epochs 1 and 2
        (FOLDS, LAST): (pytest.approx(1 / 3), False),
    }
    plain = make_table(
        "triplet_report", Study(replace(rows, trials=trials.assign(tuned=False), curves=curves))
    )
    assert not one(plain, protocol="default", rule=LAST)["triplet_accuracy"].peeks  # type: ignore[attr-defined]


def test_the_train_loss_of_a_real_study_is_read_back(tmp_path: Path) -> None:
    made = [
        final("triplet", RATIO, "final", seed, end_metrics={"chosen_epoch": 2.0, **MEASURED})
        for seed in (1, 2)
    ]
    table = make_table("triplet_report", Study(read_study(write_study(tmp_path, made))))
    assert {row["rule"]: row["train_loss"] for row in table.rows} == pytest.approx(
        {HONEST: 1 / 2, LAST: 1 / 3}
    )


def test_improvement_is_over_the_variant_that_is_there_and_says_which() -> None:
    place = {
        "dataset": "d",
        "backbone": "b",
        "embedding_size": 1,
        "protocol": "p",
        "setup": "validation",
        "what": "",
    }
    scores = {"contrastive_euclidean": 0.5, "triplet@wide": 0.4, "margin": 0.6}
    table = improvement(
        frame(
            {**place, "metric": "recall_at_1", "loss": loss, "measurement": Measurement(score)}
            for loss, score in scores.items()
        )
    )
    row = one(table, loss="margin")
    assert (value(row["over_contrastive"]), value(row["over_triplet"])) == (
        pytest.approx(0.2),
        pytest.approx(0.5),
    )
    assert table.notes == (
        "over contrastive: that is contrastive_euclidean here.",
        "over triplet: that is triplet@wide here.",
    )


def test_effects_compare_embedding_with_classification_losses_by_their_means_in_each_cell() -> None:
    """Thesis section 4.2.4.1, from its own numbers: the means of six and of four losses."""
    rows = rows_with(published_table("thesis", "effects"), axis="kind of loss")
    assert [(row["level"], row["cells"]) for row in rows] == [
        ("classification", rows[0]["cells"]),
        ("embedding", rows[0]["cells"]),
    ]
    printed = read_published("thesis_recall")
    ours = printed[(printed["metric"] == "recall_at_1") & (printed["loss"] != "thesis_loss")]
    ours = ours.drop_duplicates(["dataset", "backbone", "embedding_size", "loss"])
    kinds = ours["loss"].isin(["arcface", "proxy_nca", "soft_triple", "proxy_anchor"])
    cells = ["dataset", "backbone", "embedding_size"]
    expected = {
        level: part.groupby(cells)["value"].mean().mean() / 100
        for level, part in (("classification", ours[kinds]), ("embedding", ours[~kinds]))
    }
    found = {str(row["level"]): value(row["mean"]) for row in rows}
    assert found["embedding"] == pytest.approx(expected["embedding"], abs=1e-9)
    assert found["classification"] == pytest.approx(expected["classification"], abs=0.002)


def test_effects_compare_only_what_all_levels_have() -> None:
    place = {
        "dataset": "d",
        "embedding_size": 1,
        "protocol": "default",
        "setup": "default",
        "what": "",
        "metric": "recall_at_1",
    }
    scores = [("a", "x", 0.5), ("b", "x", 0.7), ("a", "y", 0.1), ("b", "y", 0.2), ("a", "z", 0.9)]
    table = effects(
        frame(
            {
                **place,
                "backbone": network,
                "loss": loss,
                "measurement": Measurement(score, rule=PEEKS),
            }
            for network, loss, score in scores
        )
    )
    first, second = table.rows
    assert (first["cells"], value(first["mean"]), value(second["mean"])) == (
        2,
        pytest.approx(0.3),
        pytest.approx(0.45),
    )
    gap = second["difference"]
    assert (gap.value, gap.rule, gap.peeks) == (pytest.approx(0.15), PEEKS, True)
    # Differences of 0.2 and 0.1: a deviation of 0.05 sqrt(2), and t of one degree of freedom is
    # 12.706.
    assert (gap.low, gap.high) == pytest.approx(
        (0.15 - 12.706 * 0.05, 0.15 + 12.706 * 0.05), abs=1e-4
    )
    assert first["difference"].low is None


def test_effects_compare_shares_of_the_labels_by_the_losses_that_have_all_of_them() -> None:
    place = {
        "dataset": "d",
        "backbone": "n",
        "embedding_size": 1,
        "protocol": RATIO,
        "setup": "validation",
        "what": "",
        "metric": "recall_at_1",
    }
    scores = {"a@labels_0.1": 0.2, "a": 0.5, "b@labels_0.1": 0.3, "b": 0.7, "c": 0.9}
    table = effects(
        frame({**place, "loss": loss, "measurement": Measurement(x)} for loss, x in scores.items())
    )
    few, all_of_them = rows_with(table, axis="share of the labels")
    assert (few["level"], few["cells"], value(few["mean"])) == ("0.1", 2, pytest.approx(0.25))
    assert value(all_of_them["difference"]) == pytest.approx((0.3 + 0.4) / 2)


def test_convergence_is_read_off_the_curve() -> None:
    rows = rows_of([final("triplet", "default", "final", 1), final("triplet", RATIO, "final", 1)])
    values = {1: 0.2, 2: 0.595, 3: 0.6, 4: 0.5}
    curves = pd.DataFrame(
        [
            {"run_id": run, "metric": "select/recall_at_1", "epoch": e, "value": v}
            for run in rows.trials["run_id"]
            for e, v in values.items()
        ]
    )
    row = one(make_table("convergence", Study(replace(rows, curves=curves))), protocol=RATIO)
    assert (value(row["peak"]), value(row["peak_minus_last"])) == (0.6, pytest.approx(0.1))
    assert (row["near"], row["best_epoch"], row["epochs"]) == (2, 3, 4)
    gap = row["peak_minus_chosen"]
    assert isinstance(gap, Measurement)
    assert (gap.value, gap.rule, row["peak"].rule) == (
        pytest.approx((25 - 13) / 30),
        PEEKS,
        HONEST,
    )  # hits of seed 1 under default, and held out
    assert (gap.low, gap.high) == pytest.approx((0.4, 0.4))  # every class has two hits more of five


def test_the_peak_minus_the_chosen_is_the_difference_of_the_setups_the_other_way_with_its_interval(
    study: Study,
) -> None:
    (row,) = [row for row in study.rankings[0].rows if row.loss == "triplet"]
    number = row.difference["recall_at_1"]
    gap = one(make_table("convergence", study), loss="triplet", protocol=RATIO)["peak_minus_chosen"]
    assert number.replicates == 2
    assert gap == replace(number, value=-number.value, low=-number.high, high=-number.low)
    assert gap.low < gap.value < gap.high


def test_negatives_are_counted_from_the_batch_or_the_classes() -> None:
    made = [final(loss, RATIO, "final", 1) for loss in ("triplet", "n_pair", "proxy_anchor")]
    rows = rows_of(made)
    rows = replace(rows, trials=rows.trials.assign(**{"train/tuple_share": [0.5, None, None]}))
    table = make_table("side_by_side", Study(rows))
    # 20 images of 4 classes, 5 each; n_pair has one pair of each of 10 classes; a proxy for each of
    # 18 train classes.
    assert [row["negatives"] for row in table.rows] == [15, 9, 17]
    assert [row["inputs"] for row in table.rows] == [20, 20, 20]
    assert table.rows[0]["tuple_share"] == 0.5


def test_the_search_table_has_the_best_so_far_and_the_share_near_the_best(study: Study) -> None:
    rows = study.rows
    trials = rows.trials.assign(
        **{"select/best": np.where(rows.trials["trial"] == "search-1", 0.4, 0.3)}
    )
    row = one(
        make_table("search", Study(replace(rows, trials=trials))), loss="triplet", protocol=RATIO
    )
    names = ("after_1", "after_2", "after_3_epochs", "after_6_epochs", "best")
    assert [value(row[name]) for name in names] == pytest.approx([0.3, 0.4, 0.3, 0.4, 0.4])
    assert (row["searches"], row["trials"], row["epochs"], row["parameters"]) == (1, 2, 6, 1)
    assert value(row["within_a_point"]) == 0.5
    assert one(make_table("search", study), loss="triplet", protocol="default")[
        "within_a_point"
    ].peeks  # type: ignore[attr-defined]


def test_searches_of_several_replicates_are_averaged_with_their_range() -> None:
    """Replicate r begins with 0.2 + r / 10; each of the next three trials is better by 0.1."""
    row = one(make_table("search", Study(replicated_study())), loss="triplet", protocol=RATIO)
    assert (row["searches"], row["trials"], row["parameters"]) == (3, 24, 2)
    for name, first in (("after_1", 0.3), ("after_4", 0.6), ("after_8", 0.6), ("best", 0.6)):
        number = row[name]
        assert isinstance(number, Measurement)
        assert (number.low, number.value, number.high) == pytest.approx(
            (first, first + 0.1, first + 0.2)
        )
    assert value(row["after_6_epochs"]) == pytest.approx(0.5)  # two trials of three epochs
    assert value(row["within_a_point"]) == pytest.approx(1 / 4)


def test_hyperparameters_have_a_value_for_every_search() -> None:
    rows = replicated_study()
    table = make_table("hyperparameters", Study(rows))
    row = one(table, loss="contrastive", protocol=RATIO, parameter="margin")
    assert (row["start"], row["found"]) == ("0", "0, 0.1, 0.2")
    assert row["edge"] == "in 1 of 3 searches: the best may lie outside"
    peeked = one(table, loss="contrastive", protocol="default", parameter="margin")
    assert peeked["found"] == "0, 0.1, 0.2 (by test feedback)"
    failed = (rows.trials["replicate"] == 2) & (rows.trials["role"] != "search")
    lost = replace(rows, trials=rows.trials[~failed])
    row = one(
        make_table("hyperparameters", Study(lost)),
        loss="contrastive",
        protocol=RATIO,
        parameter="margin",
    )
    assert row["found"] == "0, –, 0.2"


def test_importance_and_transfer_compare_trials_within_a_replicate() -> None:
    """The split of each further replicate is easier, which no parameter explains."""
    study = Study(replicated_study())
    row = one(make_table("importance", study), loss="triplet", protocol=RATIO, parameter="margin")
    assert (value(row["importance"]), row["trials"]) == (pytest.approx(1, abs=0.03), 24)
    found = one(make_table("transfer", study), loss="triplet", protocol=RATIO, way="recall_at_1")
    assert (found["replicates"], found["trials"]) == (3, 24)
    assert found["rank_correlation"] == pytest.approx(-1)
    assert value(found["regret"]) == pytest.approx(0.3)


@pytest.mark.parametrize("reproductions", [1, 2])
def test_counts_are_of_replicates_and_of_trials(reproductions: int) -> None:
    study = Study(replicated_study(reproductions))
    for row in rows_with(make_table("convergence", study), loss="triplet"):
        assert (row["replicates"], row["trials"]) == (3, 3 * reproductions)
    spent = one(make_table("compute", study), loss="triplet", role="search")
    assert (spent["replicates"], spent["trials"]) == (3, 3 * 3 * 8)
    folds = make_table("cross_validation", study)
    assert {row["fold"] for row in folds.rows} == {"0", "1", "all"}  # one split for all replicates


@pytest.mark.parametrize("name", sorted(COMPARE))
@pytest.mark.parametrize("replicates", [1, 3])
def test_every_table_that_compares_says_if_there_was_one_search_and_warns_first(
    name: str, replicates: int
) -> None:
    study = {1: ONE, 3: THREE}[replicates]
    notes = make_table(name, study).notes
    assert notes[0].startswith("WARNING: ")
    assert notes.count(ONE_SEARCH) == (replicates == 1)
    contents = [note for note in notes if note.startswith("[low, high]: 95% interval")]
    has = any(number.low is not None for number in make_table(name, study).measurements())
    assert len(contents) >= (has and name not in OWN_BRACKETS)
    if contents and name not in OWN_BRACKETS:
        told = "splits, searches and initial weights vary, over 3 replicates" in " ".join(contents)
        assert told == (replicates == 3)


def test_mean_ranks_are_those_of_the_cells_and_two_datasets_give_no_test() -> None:
    """In two cells triplet is first and contrastive second, elsewhere the other way round; margin
    is last in all five.
    """
    table = make_table("mean_ranks", Study(large_study()))
    found = {(row["setup"], row["loss"]): value(row["mean_rank"]) for row in table.rows}
    assert {
        loss: rank for (setup, loss), rank in found.items() if setup == "validation"
    } == pytest.approx(
        {"contrastive": (2 * 2 + 3 * 1) / 5, "triplet": (2 * 1 + 3 * 2) / 5, "margin": 3}
    )
    assert {
        loss: rank for (setup, loss), rank in found.items() if setup == "default"
    } == pytest.approx({"contrastive": (2 + 3 * 1) / 4, "triplet": (1 + 3 * 2) / 4, "margin": 3})
    told = " ".join(table.notes)
    assert "validation: mean over 5 cells. No rank test: 5 cells of 2 datasets" in told
    assert "default: mean over 4 cells. No rank test: 4 cells of 2 datasets" in told
    assert {row["setup"] for row in table.rows if row["mean_rank"].peeks} == {"default"}


def test_mean_ranks_are_those_of_the_test_where_there_is_one() -> None:
    """Thirteen datasets, the first of them with two cells: a dataset counts once."""
    rng, losses = np.random.default_rng(0), ("triplet", "contrastive", "margin")
    cells = [("d0", 16), *((f"d{i}", 32) for i in range(13))]
    values = {cell: rng.permutation([0.3, 0.5, 0.7]) for cell in cells}
    lines = [
        {"dataset": dataset, "backbone": "tiny", "embedding_size": size, "loss": loss}
        | {"protocol": RATIO, "setup": "validation", "what": "", "metric": "recall_at_1"}
        | {"measurement": Measurement(float(value)), "peeks": False}
        for (dataset, size), mine in values.items()
        for loss, value in zip(losses, mine, strict=True)
    ]
    blocks = {name: [] for name, _ in cells}
    for (name, _), mine in values.items():
        blocks[name].append([1 + sum(mine > value) for value in mine])
    ranks = pd.DataFrame([np.mean(each, axis=0) for each in blocks.values()]).rank(axis=1).mean()
    table = mean_ranks(frame(lines))
    found = {row["loss"]: value(row["mean_rank"]) for row in table.rows}
    assert found == pytest.approx(dict(zip(losses, ranks, strict=True)))
    assert "mean over 13 datasets, which rank losses by their mean ranks in 14 cells" in str(
        table.notes
    )


def test_a_study_of_one_cell_has_no_mean_ranks_and_no_critical_difference() -> None:
    rows = replicated_study()
    kept = rows.trials[rows.trials["protocol"].isin(["default", RATIO])]
    here = kept[["dataset", "backbone", "embedding_size"]].eq(list(HERE)).all(axis=1)
    one_cell = Study(replace(rows, trials=kept[here]))
    assert make_table("ranking", one_cell).rows
    assert not make_table("mean_ranks", one_cell).rows
    assert OF_SCORES["critical_difference"].draw(one_cell.scores) == []
    assert OF_SCORES["critical_difference"].draw(Study(rows).scores)


def test_the_parameter_that_moves_a_search_has_its_importance() -> None:
    """On the grid of more() the score is the margin's alone; on one of two equal effects each has
    half.
    """
    rows = large_study()
    table = make_table("importance", Study(rows))
    assert len(table.rows) == 3 * 2 * 2  # losses, setups, parameters
    row = one(table, loss="triplet", protocol=RATIO, parameter="margin")
    assert (value(row["importance"]), row["trials"]) == (pytest.approx(1, abs=0.03), 8)
    assert value(
        one(table, loss="triplet", protocol=RATIO, parameter="smooth")["importance"]
    ) == pytest.approx(0, abs=0.03)
    assert all(row["importance"].peeks == (row["protocol"] == "default") for row in table.rows)
    grid = [{"margin": float(n % 2), "smooth": float(n // 2 % 2)} for n in range(len(rows.trials))]
    halves = rows.trials.assign(
        setting=grid, **{"select/best": [sum(setting.values()) for setting in grid]}
    )
    table = make_table(
        "importance", Study(replace(rows, trials=halves[halves["role"] == "search"]))
    )
    assert [value(row["importance"]) for row in table.rows] == pytest.approx(
        [0.5] * len(table.rows), abs=0.1
    )


def test_compute_adds_up(study: Study) -> None:
    table = make_table("compute", study)
    every = one(table, loss="all")
    assert (
        every["trials"]
        == len(study.rows.trials)
        == sum(int(str(row["trials"])) for row in table.rows[:-1])
    )
    assert every["epochs"] == 3 * len(study.rows.trials)


def test_hours_are_those_of_epochs_and_not_the_time_that_a_study_lay_still(tmp_path: Path) -> None:
    """Three epochs of a second each, however long ago they began."""
    rows = read_study(
        write_study(
            tmp_path,
            [final("triplet", RATIO, "final", 1), SyntheticTrial("triplet", RATIO, "search", 0)],
        )
    )
    still = replace(rows, trials=rows.trials.assign(start=rows.trials["start"] - 86_400_000))
    for study in (rows, still):
        table = make_table("compute", Study(study))
        assert [row["hours"] for row in table.rows] == pytest.approx([3 / 3600, 3 / 3600, 6 / 3600])
    assert "pauses of the study" in table.notes[0]


def test_transfer_appears_once_an_audit_has_scored_the_checkpoints_at_their_chosen_epochs(
    study: Study,
) -> None:
    """By its chosen epoch the first trial validates best, by its last one the second would."""
    rows = study.rows
    first = rows.trials["trial"] == "search-0"
    scores = {
        "audit/select/recall_at_1": (0.6, 0.5),
        "audit/recall_at_1": (0.4, 0.3),
        "select/recall_at_1": (0.1, 0.5),
    }
    trials = rows.trials.assign(**{name: np.where(first, *pair) for name, pair in scores.items()})
    table = make_table("transfer", Study(replace(rows, trials=trials[trials["role"] == "search"])))
    assert {row["protocol"] for row in table.rows} == {
        RATIO
    }  # under default validation is the test
    for row in table.rows:
        assert row["rank_correlation"] == pytest.approx(1)
        assert (value(row["chosen"]), value(row["regret"])) == (0.4, 0)
    assert all(number.peeks for number in table.measurements())


def test_train_recall_comes_from_the_kept_embeddings_of_train_classes(tmp_path: Path) -> None:
    """Two train classes apart, one test class on top of them: by the embedding all train images are
    right, by the pooled features none.
    """
    fc = np.array([[1, 0], [1, 0.1], [0, 1], [0.1, 1], [1, 1]], dtype=np.float16)
    gap = np.array([[1, 0], [0.9, 0.5], [1, 0.01], [0.9, 0.55], [0, 1]], dtype=np.float16)
    np.savez(
        tmp_path / "embeddings.npz",
        **{
            "0/image": np.arange(5),
            "0/class": np.array([0, 0, 1, 1, 25]),
            "0/embedding": fc,
            "0/pooled": gap,
        },
    )
    rows = rows_of([final("triplet", "default", "final", 1)])
    queries = rows.queries[rows.queries["rule"] == PEEKS].assign(pooled_recall_at_1=0.5)
    fetched: list[str] = []

    def fetch(run: str, name: str) -> Path:
        fetched.append(run)
        return tmp_path / name

    row = one(
        make_table(
            "generalisation",
            Study(
                StudyRows(
                    "x",
                    rows.trials,
                    rows.curves,
                    queries,
                    rows.specs,
                    fetch,
                    lambda run: spec("default"),
                )
            ),
        ),
        loss="triplet",
    )
    assert (value(row["fc_train"]), value(row["gap_train"])) == (1.0, 0.0)
    assert (value(row["fc_test"]), value(row["gap_test"])) == (pytest.approx(25 / 30), 0.5)
    assert value(row["fc_drop"]) == pytest.approx(5 / 30)
    assert {cell.rule for cell in row.values() if isinstance(cell, Measurement)} == {PEEKS}
    test = row["fc_test"]
    assert isinstance(test, Measurement)
    assert test.low < test.value < test.high
    assert set(fetched) == {"triplet/default/final-1"}


def test_with_a_split_for_every_seed_train_recall_is_of_the_classes_that_each_was_trained_on(
    tmp_path: Path,
) -> None:
    """Classes 0 and 1 lie apart, 2 and 3 on each other; the first seed is trained on those, the
    second on these.
    """
    splits = {
        1: {"train": [0, 1], "select": [2, 3], "test": [4]},
        2: {"train": [2, 3], "select": [0, 1], "test": [4]},
    }
    made = [
        final("triplet", RATIO, "final", seed, trial_yaml={**spec(RATIO), "splits": [split]})
        for seed, split in splits.items()
    ]
    folder = write_study(tmp_path, made)
    vectors = np.array(
        [[1, 0], [1, 0.1], [0, 1], [0.1, 1], [1, 0], [0.8, 0.6], [1, 0.01], [0.8, 0.61]],
        dtype=np.float16,
    )
    arrays = {
        "image": np.arange(8),
        "class": np.repeat(np.arange(4), 2),
        "embedding": vectors,
        "pooled": vectors,
    }
    for home in (folder / "kept").iterdir():
        np.savez(home / EMBEDDINGS, **{f"0/{name}": array for name, array in arrays.items()})
    row = one(make_table("generalisation", Study(read_study(folder))), loss="triplet")
    assert value(row["fc_train"]) == pytest.approx(
        0.5
    )  # all of the first seed's, none of the second's
