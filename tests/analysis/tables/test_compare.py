"""Two studies side by side, a paper beside a study, and what is not equal between them."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis import read_study
from analysis.ranking.fairness import COMPARED, HARMLESS, PARTS, fairness
from analysis.ranking.measurement import Measurement
from analysis.ranking.notes import ONE_SEARCH
from analysis.ranking.ranking import rankings
from analysis.record.frames import StudyRows
from analysis.tables.catalogue import Study, make_table
from analysis.tables.compare import compare
from analysis.tables.table import Column, measured, table
from analysis.tables.with_published import with_published
from analysis.tables.writers import as_text
from tests.support.synthetic_study import (
    FOLDS,
    RATIO,
    SyntheticTrial,
    empty,
    everything,
    final,
    partly_failed,
    replicated_study,
    rows_of,
    share,
    spec,
    write_study,
)


def small(more: int = 0, name: str = "made") -> StudyRows:
    rows = rows_of(
        [
            final(loss, RATIO, "final", seed, more=more)
            for loss in ("triplet", "contrastive")
            for seed in (1, 2)
        ]
    )
    return replace(rows, name=name)


def value(entry: object) -> float:
    assert isinstance(entry, Measurement)
    return entry.value


def width(entry: object) -> float:
    assert isinstance(entry, Measurement)
    low, high = entry.interval
    return high - low


def test_differences_are_second_minus_first_and_paired_over_the_same_classes() -> None:
    found = compare(small(name="old"), small(more=1, name="new"))
    assert [row["loss"] for row in found.rows] == ["contrastive", "triplet"]
    for row in found.rows:
        assert value(row["first_recall_at_1"]) == pytest.approx(share(2))
        assert value(row["second_recall_at_1"]) == pytest.approx(share(3))
        gap = row["difference_recall_at_1"]
        assert gap.value == pytest.approx(0.2)
        assert gap.low - 1e-9 <= 0.2 <= gap.high + 1e-9
    assert "new minus old, Recall@1" in " ".join(column.title for column in found.columns)


def test_a_study_against_itself_differs_by_nothing_but_seeds() -> None:
    for row in compare(small(), small()).rows:
        gap = row["difference_map_at_r"]
        assert gap.value == 0
        assert gap.low <= 0 <= gap.high


def test_with_other_test_classes_nothing_is_paired_and_the_interval_is_wider() -> None:
    other = small(more=1)
    other = replace(other, queries=other.queries.assign(**{"class": other.queries["class"] + 100}))
    found = compare(small(), other)
    paired = compare(small(), small(more=1))
    for row, same in zip(found.rows, paired.rows, strict=True):
        assert value(row["difference_recall_at_1"]) == pytest.approx(
            value(same["difference_recall_at_1"])
        )
        assert width(row["difference_recall_at_1"]) > width(same["difference_recall_at_1"])
    assert "nothing is paired" in found.notes[-1]


def test_studies_with_other_replicates_are_paired_by_class_only() -> None:
    other = small(more=1)
    other = replace(other, trials=other.trials.assign(seed=other.trials["seed"] + 10))
    found = compare(small(), other)
    assert value(found.rows[0]["difference_recall_at_1"]) == pytest.approx(0.2)
    assert "paired by test class only" in found.notes[-1]


def test_replicates_of_other_seeds_are_not_the_same_replicates() -> None:
    one = replicated_study()
    other = replace(one, trials=one.trials.assign(seed=one.trials["seed"] + 100))
    assert not any("paired" in note for note in compare(one, one).notes)
    assert "paired by test class only" in compare(one, other).notes[-1]


def test_notes_say_what_the_intervals_of_each_study_contain() -> None:
    found = compare(replace(replicated_study(), name="new"), small(name="old"))
    assert found.notes[0].startswith("WARNING: ")
    told = " ".join(found.notes)
    assert "new: [low, high]: 95% interval. Under" in told
    assert f"old: {ONE_SEARCH}" in found.notes


def test_a_loss_has_the_numbers_of_its_own_ranking() -> None:
    (ranking,) = rankings(small())
    own = {row.loss: row.validation["recall_at_1"] for row in ranking.rows}
    found = compare(small(), small(more=1))
    assert {row["loss"]: row["first_recall_at_1"] for row in found.rows} == own


def written(folder: Path, **changes: dict[str, Any]) -> list[StudyRows]:
    """Studies by name, each with these changes to its two final trials."""
    for name, change in changes.items():
        write_study(
            folder,
            [
                final("triplet", RATIO, "final", seed, **{"split": "one"} | change)
                for seed in (1, 2)
            ],
            name,
        )
    return [read_study(folder / name) for name in changes]


def trained(**values: object) -> dict[str, Any]:
    return {"trial_yaml": spec(RATIO) | {"training": {**spec(RATIO)["training"], **values}}}


DIFFERENT = {
    "loss margin 0.1 and 0.9": ({"tuned": False, "chosen": 0.1}, {"tuned": False, "chosen": 0.9}),
    "tuned True and False": ({}, {"tuned": False, "chosen": 0.0}),
    "split": ({}, {"split": "other"}),
    "select metric map_at_r and recall_at_1": (
        trained(select_metric="map_at_r"),
        trained(select_metric="recall_at_1"),
    ),
    "mine every 1 and 2": (trained(mine_every=1), trained(mine_every=2)),
}


@pytest.mark.parametrize("told", DIFFERENT)
def test_studies_that_were_not_trained_alike_are_never_said_to_be(
    told: str, tmp_path: Path
) -> None:
    first, second = DIFFERENT[told]
    (sentence,) = compare(*written(tmp_path, old=first, new=second)).above
    # A split is told by its hash.
    sentence = re.sub("split [0-9a-f]{16} and [0-9a-f]{16}", "split", sentence)
    assert sentence == f"Fairness check: not equal, in old and new: {told}."


def test_what_a_search_chose_is_its_own_affair_and_what_it_held_is_not() -> None:
    def study(chosen: float, *tried: float) -> StudyRows:
        search = [
            SyntheticTrial("triplet", RATIO, "search", number, chosen=margin)
            for number, margin in enumerate(tried)
        ]
        return rows_of(
            [*search, *(final("triplet", RATIO, "final", seed, chosen=chosen) for seed in (1, 2))]
        )

    assert "trained alike" in compare(study(0.2, 0.1, 0.2), study(0.3, 0.1, 0.3)).above[0]
    assert "loss margin 0.1 and 0.9" in compare(study(0.1, 0.1, 0.1), study(0.9, 0.9, 0.9)).above[0]


def test_classes_of_other_images_are_not_the_same_though_their_numbers_are(tmp_path: Path) -> None:
    one, same, other = written(
        tmp_path,
        one={},
        same={},
        other={},
    )
    other = replace(other, trials=other.trials.assign(data="b"))
    (paired,), (apart,) = compare(one, same).rows, compare(one, other).rows
    assert width(paired["difference_recall_at_1"]) < width(apart["difference_recall_at_1"])
    assert "the same" not in " ".join(compare(one, same).notes)
    assert "data or test classes are not the same" in compare(one, other).notes[-1]
    assert "data f and b" in compare(one, other).above[0]


def with_birds(study: StudyRows) -> StudyRows:
    """The same once more on a second dataset, which has one test class less."""
    there = study.queries[study.queries["class"] > 0]
    twice = {
        "trials": (study.trials, {"dataset": "birds", "cell": "birds/" + study.trials["cell"]}),
        "queries": (there, {}),
        "curves": (study.curves, {}),
    }
    joined = {
        name: pd.concat(
            [getattr(study, name), frame.assign(run_id="birds/" + frame["run_id"], **more)],
            ignore_index=True,
        )
        for name, (frame, more) in twice.items()
    }
    return replace(study, **joined)


def test_datasets_need_not_have_the_same_number_of_test_classes() -> None:
    found = compare(with_birds(small()), with_birds(small(more=1)))
    assert [row["dataset"] for row in found.rows] == ["birds", "birds", "sketches", "sketches"]
    for row in found.rows:
        gap = row["difference_recall_at_1"]
        assert gap.low - 1e-9 <= 0.2 <= gap.high + 1e-9
    assert "pair" not in " ".join(found.notes)


def test_a_dataset_that_only_one_study_has_takes_no_interval_from_the_others() -> None:
    found = compare(small(), with_birds(small(more=1)))
    gaps = {(row["dataset"], row["loss"]): row["difference_recall_at_1"] for row in found.rows}
    assert gaps["birds", "triplet"] is None
    assert gaps["sketches", "triplet"].low is not None


def test_what_is_only_in_one_study_has_no_counterpart() -> None:
    found = compare(small(), rows_of(everything()))
    default = [row for row in found.rows if row["setup"] == "default"]
    assert default
    assert all(
        row["first_recall_at_1"] is None and row["second_recall_at_1"].peeks for row in default
    )


def test_studies_with_one_honest_protocol_each_meet_and_the_check_says_so() -> None:
    folds = rows_of([final("triplet", FOLDS, "final", seed) for seed in (1, 2)])
    (row,) = [row for row in compare(small(), folds).rows if row["loss"] == "triplet"]
    assert row["protocol"] == f"{RATIO} and {FOLDS}"
    assert value(row["difference_recall_at_1"]) == pytest.approx(share(1, 2) - share(2))
    assert f"protocol {RATIO} and {FOLDS}" in compare(small(), folds).above[0]


@pytest.mark.parametrize("other", [empty, partly_failed])
def test_an_empty_or_partly_failed_study_can_be_compared(other) -> None:  # type: ignore[no-untyped-def]
    assert as_text(compare(other(), small()))
    assert as_text(compare(empty(), empty()))


def test_what_is_not_equal_between_studies_is_told_above() -> None:
    one, other = small(name="old"), small(name="new")
    longer = {
        cell: {**each, "training": {**each["training"], "epochs": 9}}
        for cell, each in other.specs.items()
    }
    assert compare(one, other).above == (
        "Fairness check: rows of both studies were trained alike.",
    )
    assert compare(one, replace(other, specs=longer)).above == (
        "Fairness check: not equal, in old and new: epochs 3 and 9.",
    )


def test_fairness_names_who_differs_in_what() -> None:
    rows = rows_of(everything())
    assert fairness(rows) == [
        "Fairness check: equal between the losses compared: pooling, weights, batch norm, crop, "
        "optimiser, schedule, batches, epochs, "
        "replicates, final trials and search trials."
    ]
    cell = f"contrastive/{RATIO}"
    other = {**spec(RATIO), "model": {"pooling": "gmp", "weights": "none", "freeze_bn": True}}
    found = fairness(replace(rows, specs={**rows.specs, cell: other}))
    assert len(found) == 1
    assert (
        f"{RATIO}: pooling gap, but gmp for contrastive; freeze bn False, but True for contrastive."
        in found[0]
    )


@pytest.mark.parametrize("part", PARTS)
def test_fairness_compares_every_field_of_a_spec_that_may_change_a_number(part: str) -> None:
    rows = rows_of(everything())
    for name in {field.name for field in fields(PARTS[part])} - HARMLESS:
        one, other = ({**spec(RATIO), part: {name: value}} for value in ("this", "that"))
        found = fairness(
            replace(rows, specs=dict.fromkeys(rows.specs, one) | {f"contrastive/{RATIO}": other})
        )
        assert f"{name.replace('_', ' ')} this, but that for contrastive" in " ".join(found)


def test_fairness_counts_search_trials_epochs_parameters_and_finished_final_trials() -> None:
    rows = partly_failed()
    trials = rows.trials[
        ~((rows.trials["loss"] == "triplet") & (rows.trials["trial"] == "search-1"))
    ]
    told = " ".join(fairness(replace(rows, trials=trials)))
    assert "search trials 1, but 2 for contrastive" in told
    assert "final trials 2, but 1 for contrastive" in told
    assert (
        f"searches under {RATIO} spent 3 (triplet) to 6 (contrastive) epochs; searched parameters: "
        "0 (triplet) to 1 (contrastive)." in told
    )


def test_fairness_counts_replicates() -> None:
    rows = replicated_study()
    lost = (rows.trials["loss"] == "triplet") & (rows.trials["replicate"] == 2)
    trials = rows.trials.assign(status=rows.trials["status"].where(~lost, "FAILED"))
    told = " ".join(fairness(replace(rows, trials=trials)))
    assert "replicates 3, but 2 for triplet" in told
    assert "replicates" not in " ".join(fairness(rows)).replace(COMPARED, "")


def test_a_searched_learning_rate_is_no_unfairness() -> None:
    rows = rows_of(everything())
    other = spec(RATIO)
    other["training"] = {**other["training"], "learning_rate": 0.1}
    rows = replace(rows, specs={**rows.specs, f"contrastive/{RATIO}": other})
    assert "learning rate" in fairness(rows)[0]
    searched = rows.trials.assign(setting=[{"training.learning_rate": 0.1}] * len(rows.trials))
    assert "learning rate" not in " ".join(fairness(replace(rows, trials=searched)))


COLUMNS = [
    Column("dataset", in_title=True),
    Column("setup"),
    Column("loss"),
    measured("recall_at_1", "R@1"),
]


def test_published_values_and_gaps_stand_beside_every_cell_that_both_have() -> None:
    def row(dataset: str, setup: str, loss: str, recall: Measurement) -> dict[str, Any]:
        return {"dataset": dataset, "setup": setup, "loss": loss, "recall_at_1": recall}

    ours = [
        row("cub200", "validation", "triplet@wide", Measurement(0.6, 0.5, 0.7)),
        row("cub200", "default", "margin", Measurement(0.5, peeks=True)),
    ]
    theirs = [
        row("cub200", "default", "triplet", Measurement(0.55, peeks=True)),
        row("sop", "default", "margin", Measurement(0.9)),
    ]
    both = (table("retrieval", "t", COLUMNS, rows) for rows in (ours, theirs))
    found = with_published(*both, "thesis")
    triplet, margin = found.rows
    assert value(triplet["recall_at_1_published"]) == 0.55
    gap = triplet["recall_at_1_gap"]
    assert gap.value == pytest.approx(0.05)
    assert gap.peeks
    assert "recall_at_1_gap" not in margin
    assert found.notes == ("1 of 2 rows have a counterpart in thesis; gap: ours minus published.",)
    assert "+5.00*" in as_text(found)


def test_a_tagged_loss_meets_its_own_run_of_a_paper_which_leaves_other_words_open() -> None:
    from analysis.published import published_table

    theirs = published_table("triplet_report", "triplet_report")
    about = {
        "dataset": "cub200",
        "backbone": "resnet18",
        "embedding_size": 128,
        "protocol": "default",
        "rule": "last-epoch",
    }
    ours = [
        {
            **about,
            "loss": f"triplet_p_norm@{number}",
            "precision_at_1": Measurement(0.4, closed=number == 6),
        }
        for number in (2, 6)
    ]
    second, sixth = with_published(
        table("triplet_report", "t", theirs.columns, ours), theirs, "triplet_report"
    ).rows
    assert value(second["precision_at_1_published"]) == pytest.approx(0.2593)
    assert "precision_at_1_gap" not in second, "a closed set is another task"
    assert value(sixth["precision_at_1_gap"]) == pytest.approx(0.4 - 0.4691)


def test_a_study_without_a_counterpart_says_so() -> None:
    from analysis.published import published_table

    made = make_table("retrieval", Study(small()))
    assert (
        "0 of 2 rows"
        in with_published(made, published_table("thesis", "retrieval"), "thesis").notes[-1]
    )
