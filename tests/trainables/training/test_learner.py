"""The learner, from the first epoch to the artifacts."""

import csv
import math
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
import torch

from tests.support.specs import FEW, SPLIT, final, search, sketches, timeless
from trainables.contract import ARTIFACTS, UNTRAINED, EpochRow, LawError, Outputs, Split, TrialSpec
from trainables.metrics.retrieval import Retrieval, score_retrieval
from trainables.outputs.artifacts import SEAL, write_outputs
from trainables.training.learner import Learner

OTHER = Split(train=tuple(range(20, 32)), select=tuple(range(32, 37)), test=SPLIT.test)


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def make(spec: TrialSpec) -> Learner:
    return Learner(spec, sketches())


def run(learner: Learner) -> list[EpochRow]:
    """Train to the end, and return the new rows without their times."""
    rows = []
    while not learner.done:
        rows.append(timeless(learner.epoch()))
    return rows


@pytest.mark.parametrize("loss", FEW)
def test_the_same_seed_gives_the_same_rows_and_another_seed_others(loss):
    first, again, other = (run(make(search(loss, seed=seed))) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert [row.epoch for row in first] == [1, 2, 3]
    assert [row.done for row in first] == [False, False, True]


@pytest.mark.parametrize("saved_after", [0, 1, 2])
@pytest.mark.parametrize("loss", FEW)
def test_a_trial_resumed_from_a_file_gives_exactly_the_remaining_rows(loss, saved_after, tmp_path):
    spec = final(loss, epochs=4, lr_step=2, warm_up=1)
    learner = make(spec)
    for _ in range(saved_after):
        learner.epoch()
    torch.save(learner.state(), tmp_path / "state.pt")
    resumed = make(spec)
    resumed.load(torch.load(tmp_path / "state.pt", weights_only=True))
    assert list(map(timeless, resumed.rows)) == list(map(timeless, learner.rows))
    rest = run(learner)
    assert len(rest) == 4 - saved_after
    assert run(resumed) == rest
    assert resumed.read_test() == learner.read_test()


def test_a_finished_trial_that_is_loaded_is_finished_and_reads_the_same_test(tmp_path):
    learner, resumed = make(final()), make(final())
    run(learner)
    torch.save(learner.state(), tmp_path / "state.pt")
    resumed.load(torch.load(tmp_path / "state.pt", weights_only=True))
    assert resumed.done
    assert resumed.read_test() == learner.read_test()


def test_best_is_the_best_score_so_far_of_the_select_metric():
    learner = make(search("triplet", epochs=6, learning_rate=0.02, select_metric="recall_at_4"))
    rows = run(learner)
    scores = [row.select["recall_at_4"] for row in rows]
    assert [row.best for row in rows] == [max(scores[: i + 1]) for i in range(6)]
    assert [row.best_epochs for row in rows] == [
        (scores.index(max(scores[: i + 1])) + 1,) for i in range(6)
    ]
    assert scores != sorted(scores), (
        "this trial should go down at least once, or the test proves nothing"
    )


def scripted(monkeypatch: pytest.MonkeyPatch, learner: Learner, scores: list[float]) -> None:
    """Let the select classes of the first fit score as written; everything else is real."""
    fit, script = learner.fits[0], iter(scores)
    real = fit.score

    def score(images):
        result = real(images)
        if images is fit.select:
            result = replace(result, means=dict.fromkeys(result.means, next(script)))
        return result

    monkeypatch.setattr(fit, "score", score)


@pytest.mark.parametrize(
    ("scores", "chosen"),
    [([0.1, 0.3, 0.2], 2), ([0.3, 0.2, 0.1], 1), ([0.1, 0.2, 0.3], 3), ([0.2, 0.2, 0.2], 1)],
)
def test_the_test_classes_are_read_with_the_weights_of_the_best_epoch(monkeypatch, scores, chosen):
    learner = make(final())
    scripted(monkeypatch, learner, scores)
    snapshots = []
    while not learner.done:
        learner.epoch()
        snapshots.append(
            {name: value.clone() for name, value in learner.fits[0].network.state_dict().items()}
        )
    row = learner.read_test()
    assert row.epochs == (chosen,)

    network = learner.fits[0].network
    network.load_state_dict(snapshots[chosen - 1])
    images = learner.fits[0].images(SPLIT.test)
    with torch.no_grad():
        embeddings = network.eval()(images.plain(np.arange(len(images))).now())
    labels = torch.tensor([SPLIT.test.index(label) for label in images.labels])
    expected = score_retrieval(embeddings, labels, learner.spec.training.metrics)
    assert row.test == pytest.approx(expected.means, abs=1e-6)
    assert (row.queries, row.lone_queries) == (360, 0)


def test_the_test_classes_are_read_once():
    learner = make(final(epochs=1))
    run(learner)
    learner.read_test()
    with pytest.raises(LawError, match="test classes are read once"):
        learner.read_test()


def test_the_test_classes_are_not_read_before_the_end():
    learner = make(final(epochs=2))
    learner.epoch()
    with pytest.raises(LawError, match="test classes are read at the end"):
        learner.read_test()


def test_a_search_trial_holds_no_test_classes_and_refuses_to_read_them():
    learner = make(search(epochs=1))
    run(learner)
    assert learner.spec.splits[0].test == ()
    with pytest.raises(LawError, match="search trials never read test classes"):
        learner.read_test()


@pytest.mark.parametrize("classes", [SPLIT.test, SPLIT.test[:1], (SPLIT.train[0], SPLIT.test[0])])
def test_a_search_trial_that_asks_for_images_of_test_classes_gets_none(classes):
    """A fit refuses classes that its split does not name, whatever they are called."""
    learner = make(search(epochs=1))
    with pytest.raises(LawError, match="a trial sees the classes of its split only"):
        learner.fits[0].images(classes)
    assert len(make(final(epochs=1)).fits[0].images(classes))


def broken_after(monkeypatch: pytest.MonkeyPatch, learner: Learner, steps: int) -> None:
    """Make the loss NaN from here on."""
    fit, real, calls = learner.fits[0], learner.fits[0].objective.forward, []

    def objective(embeddings, targets):
        calls.append(1)
        return real(embeddings, targets) * (math.nan if len(calls) > steps else 1.0)

    monkeypatch.setattr(fit.objective, "forward", objective)


@pytest.mark.parametrize("steps", [0, 3])
@pytest.mark.parametrize("loss", FEW)
def test_a_diverged_trial_ends_with_the_worst_score_and_finite_metrics(monkeypatch, loss, steps):
    learner = make(final(loss))
    broken_after(monkeypatch, learner, steps)
    rows = run(learner)
    assert len(rows) == steps // 2 + 1
    last = rows[-1]
    assert (last.done, last.diverged, last.best) == (True, True, 0.0)
    assert all(math.isfinite(value) for value in last.metrics().values())
    assert not any(row.diverged for row in rows[:-1])
    test = learner.read_test()  # with the last weights that were sound
    assert test.epochs == max((row.best_epochs for row in rows[:-1]), default=(0,))
    assert all(0 < value <= 1 for value in test.test.values())


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("loss", FEW)
def test_an_absurd_learning_rate_diverges_and_still_gives_finite_rows(loss, steps):
    rows = run(make(search(loss, learning_rate=1e30, steps_per_epoch=steps)))
    for row in rows:  # with one step to an epoch the first row scores weights that are already lost
        assert all(math.isfinite(value) for value in row.metrics().values())
        assert row.best == 0
    assert (rows[-1].done, rows[-1].diverged) == (True, True)


def scores(learner: Learner, monkeypatch: pytest.MonkeyPatch, *scripted: float) -> None:
    """Let the learner's epochs score so on the select classes, in place of training."""
    left = iter(scripted)
    fit = learner.fits[0]
    monkeypatch.setattr(fit, "train_epoch", lambda _: 1.0)
    monkeypatch.setattr(
        fit, "score", lambda _: Retrieval({"map_at_r": next(left)}, {}, torch.empty(0), 0)
    )


@pytest.mark.parametrize("warm_up", [0, 2])
@pytest.mark.parametrize("trial", [search, final])
def test_patience_ends_a_trial_whose_score_has_not_grown_for_so_long(monkeypatch, trial, warm_up):
    learner = make(trial(epochs=9, patience=3, warm_up=warm_up))
    scores(learner, monkeypatch, *[0.1] * warm_up, 0.2, 0.3, 0.3, 0.1, 0.2)
    rows = run(learner)
    assert [row.out_of_patience for row in rows] == [False] * (4 + warm_up) + [True]
    assert rows[-1].done
    assert rows[-1].best == 0.3
    assert rows[-1].best_epochs == (2 + warm_up,)
    again = make(trial(epochs=9, patience=3, warm_up=warm_up))
    again.load(learner.state())
    assert again.done


def test_a_score_that_grows_in_time_keeps_a_trial_and_its_last_epoch_finishes_it(monkeypatch):
    learner = make(search(epochs=6, patience=2))
    scores(learner, monkeypatch, 0.1, 0.1, 0.2, 0.3, 0.3, 0.3)
    rows = run(learner)
    assert len(rows) == 6
    assert not any(row.out_of_patience for row in rows)


def test_a_trial_that_holds_nothing_out_knows_no_patience():
    everything = (Split((*SPLIT.train, *SPLIT.select), (), SPLIT.test),)
    refit = replace(final(epochs=4, patience=1), rule="refit", splits=everything)
    assert len(run(make(refit))) == 4


def out_of_memory(*_: object) -> None:
    raise torch.OutOfMemoryError("CUDA out of memory")


def test_a_search_trial_whose_setting_needs_too_much_memory_ends_with_the_worst_score(monkeypatch):
    learner = make(search())
    sound = learner.epoch()
    monkeypatch.setattr(learner.fits[0], "train_epoch", out_of_memory)
    row = learner.epoch()
    assert (row.epoch, row.done, row.out_of_memory, row.diverged, row.best) == (
        2,
        True,
        True,
        False,
        0.0,
    )
    assert row.best_epochs == (sound.epoch,)
    assert learner.done
    assert all(math.isfinite(value) for value in row.metrics().values())
    again = make(search())
    again.load(learner.state())
    assert again.rows[-1] == row


@pytest.mark.parametrize("error", [MemoryError, RuntimeError])
def test_any_other_error_of_a_search_trial_is_one_of_the_machine(monkeypatch, error):
    def fails(*_: object) -> None:
        raise error

    learner = make(search())
    monkeypatch.setattr(learner.fits[0], "train_epoch", fails)
    with pytest.raises(error):
        learner.epoch()
    assert learner.rows == []


def test_a_final_trial_that_runs_out_of_memory_has_failed(monkeypatch):
    learner = make(final())
    monkeypatch.setattr(learner.fits[0], "train_epoch", out_of_memory)
    with pytest.raises(torch.OutOfMemoryError):
        learner.epoch()


def test_one_diverged_split_ends_the_whole_trial(monkeypatch):
    learner = make(replace(search(), splits=(SPLIT.sealed(), OTHER.sealed())))
    broken_after(monkeypatch, learner, 0)
    (row,) = run(learner)
    assert (row.done, row.diverged, row.best) == (True, True, 0.0)
    assert all(math.isfinite(value) for value in row.metrics().values())


@pytest.mark.parametrize("loss", ["contrastive", "proxy_anchor"])
def test_two_splits_report_the_mean_of_the_two(loss):
    both = make(replace(final(loss), splits=(SPLIT, OTHER)))
    alone = make(final(loss))
    for _ in range(3):
        row, first = both.epoch(), alone.epoch()
        assert row.folds[0] == first.select
        assert row.folds[1] != first.select
        for name in row.select:
            assert row.select[name] == pytest.approx((row.folds[0][name] + row.folds[1][name]) / 2)
    means = [row.select["map_at_r"] for row in both.rows]
    assert both.rows[-1].best == max(means)
    assert both.read_test().queries == 2 * 6 * 60
    assert alone.read_test().queries == 6 * 60


def test_equal_splits_are_trained_on_batches_of_their_own():
    row = make(replace(search(), splits=(SPLIT.sealed(), SPLIT.sealed()))).epoch()
    assert row.folds[0] != row.folds[1]


@pytest.mark.parametrize("splits", [(SPLIT,), (SPLIT, OTHER)])
def test_queries_csv_has_one_row_per_test_query_and_its_mean_is_the_reported_one(tmp_path, splits):
    learner = make(replace(final("multi_similarity"), splits=splits))
    run(learner)
    reported = learner.read_test()
    write_outputs(tmp_path, {"state": learner.state(), "artifacts": learner.artifacts()})
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([SEAL, *ARTIFACTS[:2]])
    rows = list(csv.DictReader((tmp_path / "queries.csv").open()))
    assert list(rows[0]) == ["fold", "rule", "image", "class", *learner.spec.training.metrics]
    joined = [row for row in rows if row["fold"] == "concatenated"]
    rows = [row for row in rows if row["fold"] != "concatenated"]
    assert len(joined) == (360 if len(splits) > 1 else 0)
    assert {row["rule"] for row in rows + joined} == {"selected-on-validation"}
    labels = sketches().index.labels
    for fold, split in enumerate(splits):
        mine = [row for row in rows if int(row["fold"]) == fold]
        assert sorted(int(row["image"]) for row in mine) == sorted(
            i for i, label in enumerate(labels) if label in split.test
        )
        assert all(labels[int(row["image"])] == int(row["class"]) for row in mine)
    assert len(rows) == reported.queries
    for name, value in reported.test.items():
        by_fold = [
            fmean(float(row[name]) for row in rows if int(row["fold"]) == fold)
            for fold in range(len(splits))
        ]
        assert fmean(by_fold) == pytest.approx(value, rel=1e-6)


def test_the_saved_weights_of_every_split_load_without_pickle_and_are_the_chosen_ones(
    tmp_path: Path,
):
    learner = make(replace(final(), splits=(SPLIT, OTHER)))
    run(learner)
    learner.read_test()
    write_outputs(tmp_path, {"state": learner.state(), "artifacts": learner.artifacts()})
    saved = torch.load(tmp_path / "best.pt", weights_only=True)
    assert len(saved) == 2
    for weights, (i, fit) in zip(saved, learner.fits.items(), strict=True):
        fit.network.load_state_dict(weights)
        assert (
            fit.score(fit.images(SPLIT.test)).means
            == learner.readings[i]["selected-on-validation"][1].means
        )
    assert any(not torch.equal(saved[0][name], saved[1][name]) for name in saved[0])


def untrained(backbone: str) -> TrialSpec:
    return replace(
        final(UNTRAINED, backbone=backbone, epochs=0),
        rule="untrained",
        splits=(Split((), SPLIT.select, SPLIT.test),),
    )


@pytest.mark.parametrize("backbone", ["pixels", "tiny"])
def test_an_untrained_trial_is_done_at_once_and_reads_the_test_classes(backbone, tmp_path):
    learner = make(untrained(backbone))
    assert learner.done
    row = learner.read_test()
    assert row.epochs == (0,)
    assert row.queries == 360
    assert all(0 < value < 1 for value in row.test.values())
    write_outputs(tmp_path, {"state": learner.state(), "artifacts": learner.artifacts()})
    assert (tmp_path / "queries.csv").read_text().count("\n") == 361


def test_an_untrained_trial_on_raw_pixels_is_retrieval_among_raw_pixels():
    spec = untrained("pixels")
    images = make(spec).fits[0].images(SPLIT.test)
    labels = torch.tensor([SPLIT.test.index(label) for label in images.labels])
    expected = score_retrieval(
        images.plain(np.arange(len(images))).now().flatten(1).float(), labels, spec.training.metrics
    )
    assert make(spec).read_test().test == pytest.approx(expected.means)


def test_an_untrained_state_can_be_saved_and_loaded(tmp_path):
    learner = make(untrained("tiny"))
    torch.save(learner.state(), tmp_path / "state.pt")
    resumed = make(untrained("tiny"))
    resumed.load(torch.load(tmp_path / "state.pt", weights_only=True))
    assert resumed.read_test() == learner.read_test()


def test_the_models_of_all_splits_as_one_are_normalised_concatenated_and_normalised():
    learner = make(replace(final("triplet"), splits=(SPLIT, OTHER)))
    run(learner)
    row = learner.read_test()
    parts = []
    for i, fit in learner.fits.items():
        fit.network.load_state_dict(learner.weights[i])
        images = fit.images(SPLIT.test)
        part = fit.embed(images, {"embedding"})["embedding"].double()
        parts.append(part / part.norm(dim=1, keepdim=True))
    labels = torch.tensor([SPLIT.test.index(label) for label in images.labels])
    # Two unit vectors: all have one length.
    expected = score_retrieval(torch.cat(parts, dim=1), labels, learner.spec.training.metrics)
    assert row.concatenated == pytest.approx(expected.means, abs=1e-3)
    assert row.concatenated != row.test
    assert row.metrics()["concatenated/map_at_r"] == row.concatenated["map_at_r"]
    assert make(final()).spec.splits == (SPLIT,)


def test_the_last_epoch_is_read_beside_the_chosen_one_if_asked(monkeypatch):
    learner = make(replace(final(), outputs=Outputs(last=True, embeddings=False)))
    scripted(monkeypatch, learner, [0.9, 0.5, 0.1])
    run(learner)
    last = {name: value.clone() for name, value in learner.fits[0].network.state_dict().items()}
    row = learner.read_test()
    assert row.epochs == (1,)
    assert row.last != row.test
    # A saved state must hold the last epoch.
    assert all(
        torch.equal(last[name], value)
        for name, value in learner.fits[0].network.state_dict().items()
    )
    expected = learner.fits[0].score(learner.fits[0].images(SPLIT.test))
    assert row.last == expected.means
    assert set(learner.artifacts()["folds"][0]["queries"]) == {
        "last-epoch",
        "selected-on-validation",
    }


def test_a_refit_chooses_nothing_and_reads_its_last_epoch():
    spec = replace(
        final(), rule="refit", splits=(Split(SPLIT.train + SPLIT.select, (), SPLIT.test),)
    )
    learner = make(spec)
    rows = run(learner)
    assert [row.select for row in rows] == [{}] * 3
    row = learner.read_test()
    assert row.epochs == (3,)
    assert row.test == learner.fits[0].score(learner.fits[0].images(SPLIT.test)).means


def test_kept_embeddings_are_those_of_all_images_of_the_split(tmp_path):
    learner = make(
        replace(final(), splits=(SPLIT, OTHER), outputs=Outputs(last=False, embeddings=True))
    )
    run(learner)
    learner.read_test()
    write_outputs(tmp_path, {"state": learner.state(), "artifacts": learner.artifacts()})
    kept = np.load(tmp_path / "embeddings.npz", allow_pickle=False)
    assert sorted(kept.files) == sorted(
        f"{i}/{name}" for i in (0, 1) for name in ("image", "class", "embedding", "pooled")
    )
    for i, split in enumerate((SPLIT, OTHER)):
        assert set(kept[f"{i}/class"]) == {*split.train, *split.select, *split.test}
        fit = learner.fits[i]
        fit.network.load_state_dict(learner.weights[i])
        rows = np.isin(kept[f"{i}/class"], split.test)
        images = fit.images(split.test)
        assert kept[f"{i}/image"][rows].tolist() == images.ids.tolist()
        expected = fit.embed(images, {"embedding"})["embedding"].numpy()
        assert kept[f"{i}/embedding"].dtype == kept[f"{i}/pooled"].dtype == np.float32
        np.testing.assert_array_equal(kept[f"{i}/embedding"][rows], expected)
