"""Heads on features: the same Fit, Learner, losses and states as on images."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from search_spaces import LOSSES
from tests.support.specs import final, frozen_trunk, search, timeless
from trainables.contract import PCA, POOLED, UNTRAINED, Split, TrialSpec
from trainables.inputs.features import Features, load_data
from trainables.training.fit import EMBEDDING, Fit
from trainables.training.learner import Learner

CLASSES = Split(train=tuple(range(8)), select=(8, 9, 10, 11), test=tuple(range(100, 104)))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("features")


@pytest.fixture(autouse=True)
def _cache(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRTRIAL_DATA", str(home / "cache"))


def on_features(spec: TrialSpec, home: Path, *, head: str = "linear", views: int = 0) -> TrialSpec:
    """Return the trial with a frozen trunk, on the first twelve classes of each half."""
    return replace(
        spec,
        dataset_ref=replace(spec.dataset_ref, max_classes=12),
        splits=(CLASSES if spec.phase == "final" else CLASSES.sealed(),),
        model=replace(frozen_trunk(home), head=head, head_width=16),
        training=replace(spec.training, views=views),
    )


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_every_loss_trains_a_head(home: Path, loss: str) -> None:
    spec = on_features(search(loss, epochs=1), home)
    learner = Learner(spec, load_data(spec))
    row = learner.epoch()
    assert row.loss is not None
    assert not row.diverged
    before = Fit(spec, spec.splits[0], load_data(spec)).network.state_dict()
    moved = learner.fits[0].network.state_dict()
    assert any(not torch.equal(before[name], moved[name]) for name in before)


@pytest.mark.parametrize("head", ["linear", "mlp"])
def test_a_step_on_features_is_that_of_a_whole_network_with_a_frozen_trunk(
    home: Path, head: str
) -> None:
    spec = on_features(search("contrastive"), home, head=head)
    spec = replace(spec, transform=replace(spec.transform, max_shift=0, flip=False))
    mine = Fit(spec, spec.splits[0], load_data(spec))
    images = replace(spec, model=replace(spec.model, train="all"))
    whole = Fit(images, spec.splits[0], load_data(images))
    whole.network.head.load_state_dict(mine.network.head.state_dict())
    for group in whole.optimizer.param_groups:
        if group["name"] == "trunk":
            group["base_lr"] = 0.0
            group["weight_decay"] = 0.0
    losses = [fit.train_epoch(1) for fit in (mine, whole)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for name, value in mine.network.head.state_dict().items():
        torch.testing.assert_close(
            value, whole.network.head.state_dict()[name], rtol=1e-4, atol=1e-5
        )
    scores = [fit.score(fit.select).means for fit in (mine, whole)]
    assert scores[0] == pytest.approx(scores[1], abs=0.02)


def test_an_epoch_takes_one_view_of_each_image_drawn_by_epoch_and_image(home: Path) -> None:
    spec = on_features(search(), home, views=3)
    data = load_data(spec)
    assert isinstance(data, Features)
    fit = Fit(spec, spec.splits[0], data)
    rows = np.arange(40)
    numbers = fit.train.draws((0, 0, 1, 1))
    found = fit.train.augmented(rows, numbers).now().numpy()
    assert data.view_rows is not None
    for row, image in enumerate(fit.train.ids[:40]):
        view = data.views[int(numbers[image] * 3)]
        assert np.array_equal(found[row], view[data.view_rows[image]])
    again = fit.train.augmented(rows[10:20], numbers).now().numpy()
    assert np.array_equal(again, found[10:20])  # whatever batch or rank an image is in
    other = fit.train.augmented(rows, fit.train.draws((0, 0, 2, 1))).now().numpy()
    assert not np.array_equal(other, found)


def test_a_state_continues_exactly_where_it_was_saved(home: Path) -> None:
    spec = on_features(final(epochs=3), home, views=2)
    whole, cut = (Learner(spec, load_data(spec)) for _ in range(2))
    rows = [timeless(whole.epoch()) for _ in range(3)]
    cut.epoch()
    resumed = Learner(spec, load_data(spec))
    resumed.load(cut.state())
    assert [timeless(resumed.epoch()) for _ in range(2)] == rows[1:]
    assert resumed.read_test() == whole.read_test()


def test_what_a_trial_leaves_is_its_head(home: Path) -> None:
    spec = on_features(final(epochs=1), home)
    learner = Learner(spec, load_data(spec))
    learner.epoch()
    learner.read_test()
    weights = learner.artifacts()["folds"][0]["weights"]
    assert weights.keys() == {"head.weight", "head.bias"}


def test_baselines_score_the_features_themselves(home: Path) -> None:
    base = on_features(final(), home, head="mlp")
    data = load_data(base)
    assert isinstance(data, Features)
    for name in (POOLED, UNTRAINED, PCA):
        spec = replace(base, cell=replace(base.cell, loss=name), setting={})
        fit = Fit(spec, spec.splits[0], data)
        images = fit.images(CLASSES.test)
        found = fit.embed(images, {EMBEDDING})[EMBEDDING].numpy()
        if name == POOLED:
            assert np.array_equal(found, data.centre[data.rows[images.ids]])
        else:
            assert found.shape[1] == spec.cell.embedding_size


def test_a_search_trial_cannot_read_features_of_test_classes(home: Path) -> None:
    spec = on_features(search(), home)
    fit = Fit(spec, spec.splits[0], load_data(spec))
    with pytest.raises(ValueError, match="the classes of its split only"):
        fit.images((100,))
