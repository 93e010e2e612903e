"""The plain data that a trial takes and gives."""

import json
import math
from dataclasses import replace

import pytest

from search_spaces import LOSSES
from tests.support.specs import SPLIT, final, search
from trainables.contract import UNTRAINED, Cell, EpochRow, FinalRow, LawError, Split, TrialSpec


@pytest.mark.parametrize("loss", [*sorted(LOSSES), UNTRAINED])
def test_a_spec_survives_json(loss):
    for spec in (
        search(loss),
        final(loss, seed=7),
        replace(final(loss), splits=(SPLIT, Split((50, 51), (60,), (101,)))),
    ):
        again = TrialSpec.from_dict(json.loads(json.dumps(spec.as_dict())))
        assert again == spec
        assert again.as_dict() == spec.as_dict()
        assert isinstance(again.splits[0].train, tuple)
        assert isinstance(again.training.metrics, tuple)
        assert isinstance(again.transform.crop_scale, tuple)


def test_a_search_that_holds_test_classes_must_say_that_it_peeks():
    with pytest.raises(LawError, match="only a search that says it peeks may hold test classes"):
        replace(search(), splits=(SPLIT,))
    with pytest.raises(LawError, match="peeks"):
        replace(search(), splits=(SPLIT.sealed(), SPLIT))
    with pytest.raises(LawError, match="peeks"):
        TrialSpec.from_dict({**final().as_dict(), "phase": "search"})
    assert replace(search(), splits=(SPLIT,), rule="best-on-test").peeks


def test_a_trial_that_selects_on_test_classes_must_say_that_it_peeks():
    peeking = (Split(SPLIT.train, SPLIT.test, SPLIT.test),)
    with pytest.raises(LawError, match="who selects on test classes peeks"):
        replace(final(), splits=peeking)
    assert replace(final(), splits=peeking, rule="best-on-test").peeks


@pytest.mark.parametrize(
    ("rule", "peeks"),
    [("best-on-test", True), ("selected-on-validation", False), ("untrained", False)],
)
def test_only_best_on_test_peeks(rule, peeks):
    assert replace(final(), rule=rule).peeks is peeks


def test_a_sealed_split_is_the_same_without_its_test_classes():
    assert SPLIT.sealed() == Split(SPLIT.train, SPLIT.select, ())
    assert SPLIT.test


def test_a_cell_reads_as_a_path():
    assert str(Cell("sketches", "tiny", 64, "triplet", "half")) == "sketches/tiny-64/triplet/half"


def epoch_row(**changes) -> EpochRow:
    row = EpochRow(
        epoch=2,
        loss=0.5,
        select={"map_at_r": 0.3},
        folds=({"map_at_r": 0.3},),
        best=0.4,
        best_epochs=(1,),
        seconds=1.5,
        done=False,
    )
    return replace(row, **changes)


def test_an_epochs_metrics_are_flat():
    assert epoch_row().metrics() == {
        "train/loss": 0.5,
        "select/best": 0.4,
        "seconds": 1.5,
        "select/map_at_r": 0.3,
    }


def test_folds_have_names_of_their_own_only_when_there_are_several():
    folds = ({"map_at_r": 0.2}, {"map_at_r": 0.4})
    flat = epoch_row(folds=folds).metrics()
    assert flat.keys() - epoch_row().metrics().keys() == {
        "fold0/select/map_at_r",
        "fold1/select/map_at_r",
    }
    assert (flat["fold0/select/map_at_r"], flat["fold1/select/map_at_r"]) == (0.2, 0.4)


def test_a_diverged_epochs_metrics_are_finite():
    flat = epoch_row(loss=0.0, select={}, folds=({}, {}), best=0.0, diverged=True).metrics()
    assert all(math.isfinite(value) for value in flat.values())
    assert flat["select/best"] == 0


def test_a_final_rows_metrics_name_the_test_classes():
    row = FinalRow(epochs=(3,), test={"map_at_r": 0.25}, queries=360, lone_queries=2)
    assert row.metrics() == {
        "test/map_at_r": 0.25,
        "test/queries": 360,
        "test/lone_queries": 2,
        "chosen_epoch": 3,
    }
