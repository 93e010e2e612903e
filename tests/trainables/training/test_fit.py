"""One network fits one split."""

import copy
import math
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from search_spaces import LOSSES
from tests.support.specs import FEW, SPLIT, search, sketches
from trainables.contract import UNTRAINED, Split, TrialSpec
from trainables.losses.labels import UNLABELLED
from trainables.training.fit import Fit
from trainables.training.optimiser import set_learning_rates

NAMES = sorted(LOSSES)


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def make(spec: TrialSpec, split: Split | None = None, **kwargs: int) -> Fit:
    return Fit(spec, split or spec.splits[0], sketches(), **kwargs)


def weights(fit: Fit) -> dict[str, torch.Tensor]:
    parts = {"network": fit.network, "loss": fit.objective}
    return {
        f"{part}.{name}": param.detach().clone()
        for part, module in parts.items()
        for name, param in module.named_parameters()
    }


def moved(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> set[str]:
    return {name for name, value in before.items() if not torch.equal(value, after[name])}


@pytest.mark.parametrize("loss", NAMES)
def test_every_parameter_of_network_and_loss_is_in_exactly_one_named_group(loss):
    fit = make(search(loss))
    grouped = [
        (group["name"], id(param))
        for group in fit.optimizer.param_groups
        for param in group["params"]
    ]
    expected = [("trunk", id(p)) for p in fit.network.trunk.parameters()]
    expected += [("head", id(p)) for p in fit.network.head.parameters()]
    expected += [("loss", id(p)) for p in fit.objective.parameters()]
    assert sorted(grouped) == sorted(expected)
    everything = {id(p) for module in (fit.network, fit.objective) for p in module.parameters()}
    assert {param for _, param in grouped} == everything
    assert len(grouped) == len(everything)


@pytest.mark.parametrize("loss", NAMES)
def test_every_parameter_moves_in_the_first_step(loss):
    fit = make(search(loss, steps_per_epoch=1, weight_decay=0.0))
    before = weights(fit)
    assert fit.train_epoch(1) > 0
    assert moved(before, weights(fit)) == set(before)


@pytest.mark.parametrize("loss", FEW)
def test_warm_up_leaves_the_trunk_exactly_as_it_is_and_moves_everything_else(loss):
    fit = make(search(loss, warm_up=2))
    before = weights(fit)
    for epoch in (1, 2):
        fit.train_epoch(epoch)
        assert moved(before, weights(fit)) == {
            name for name in before if not name.startswith("network.trunk.")
        }
    fit.train_epoch(3)
    assert moved(before, weights(fit)) == set(before)


@pytest.mark.parametrize("loss", FEW)
def test_learning_rates_equal_those_of_torchs_step_lr(loss):
    fit = make(search(loss, lr_step=2, lr_gamma=0.3, warm_up=1, learning_rate=1e-3))
    reference = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = torch.optim.lr_scheduler.StepLR(reference, step_size=2, gamma=0.3)
    own_rate = LOSSES[loss].defaults.get("weights_lr", 1e-3)
    for epoch in range(1, 8):
        set_learning_rates(fit.optimizer, epoch, step=2, gamma=0.3, warm_up=1)
        (factor,) = schedule.get_last_lr()
        rates = {group["name"]: group["lr"] for group in fit.optimizer.param_groups}
        assert rates["trunk"] == pytest.approx(0 if epoch == 1 else 1e-3 * factor)
        assert rates["head"] == pytest.approx(1e-3 * factor)
        assert rates.get("loss", own_rate * factor) == pytest.approx(own_rate * factor)
        reference.step()
        schedule.step()


@pytest.mark.parametrize("loss", FEW)
def test_weight_decay_is_for_the_network_only(loss):
    decay = {
        group["name"]: group["weight_decay"]
        for group in make(search(loss, weight_decay=0.05)).optimizer.param_groups
    }
    assert decay.pop("loss", 0.0) == 0
    assert decay == {"trunk": 0.05, "head": 0.05}


@pytest.mark.parametrize("loss", FEW)
def test_one_step_equals_the_same_step_written_out(loss):
    """Train by hand: normalised embeddings, targets from 0 in this split, torch's plain AdamW."""
    spec = search(loss, steps_per_epoch=1, learning_rate=1e-3, weight_decay=0.1)
    split = Split(train=(40, 7, 91, 23), select=(1, 2))
    fit = make(spec, split)
    network, objective = copy.deepcopy(fit.network), copy.deepcopy(fit.objective)
    seen = {}
    augmented = fit.train.augmented

    def spy(rows, looks):
        pending = augmented(rows, looks)
        seen["labels"], seen["images"] = fit.train.labels[rows], pending.now()
        return pending

    fit.train.augmented = spy
    value = fit.train_epoch(1)

    targets = torch.tensor([sorted(split.train).index(label) for label in seen["labels"]])
    groups = [{"params": network.parameters()}]
    if own := list(objective.parameters()):
        groups.append(
            {"params": own, "lr": LOSSES[loss].defaults["weights_lr"], "weight_decay": 0.0}
        )
    optimizer = torch.optim.AdamW(groups, lr=1e-3, weight_decay=0.1, fused=False, foreach=False)
    embeddings = network(seen["images"])
    expected = objective(
        embeddings / embeddings.norm(dim=1, keepdim=True) if LOSSES[loss].normalize else embeddings,
        targets,
    )
    expected.backward()
    optimizer.step()

    assert value == pytest.approx(expected.item(), rel=1e-5)
    for ours, theirs in zip(
        [*fit.network.parameters(), *fit.objective.parameters()],
        [*network.parameters(), *own],
        strict=True,
    ):
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize(("batch_size", "steps"), [(20, 36), (700, 2), (720, 1), (721, 1)])
def test_an_epoch_is_as_many_batches_as_cover_the_training_images(batch_size, steps):
    for loss in FEW:
        assert make(search(loss, steps_per_epoch=None, batch_size=batch_size)).steps() == steps
    assert make(search(steps_per_epoch=5)).steps() == 5


@pytest.mark.parametrize("loss", FEW)
def test_an_epoch_is_fixed_by_seed_fold_and_number_and_by_nothing_drawn_outside(loss):
    def after(
        noise: int = 0, *, seed: int = 0, fold: int = 0, epoch: int = 1
    ) -> dict[str, torch.Tensor]:
        torch.manual_seed(noise)
        np.random.seed(noise)  # noqa: NPY002 whatever someone else did with it
        fit = make(search(loss, seed=seed), fold=fold)
        fit.train_epoch(epoch)
        return weights(fit)

    first = after()
    assert not moved(first, after(noise=1))
    assert moved(first, after(fold=1))
    assert moved(first, after(epoch=2))
    assert moved(first, after(seed=1))


@pytest.mark.parametrize("loss", FEW)
def test_batches_and_looks_are_each_drawn_anew_for_every_seed_fold_and_epoch(loss, monkeypatch):
    rows_seen, looks_seen = set(), set()

    def spy(rows, looks):
        rows_seen.add(rows.tobytes())
        looks_seen.add(looks.tobytes())
        return Mock()

    keys = [(seed, fold, epoch) for seed in (0, 1) for fold in (0, 1) for epoch in (1, 2)]
    for seed, fold, epoch in keys:
        fit = make(search(loss, seed=seed, steps_per_epoch=1), fold=fold)
        monkeypatch.setattr(fit.train, "augmented", spy)
        monkeypatch.setattr(
            fit, "step", Mock(return_value=torch.tensor(1.0), share=None, last=None)
        )
        fit.train_epoch(epoch)
    assert len(rows_seen) == len(looks_seen) == len(keys)


def test_folds_of_one_seed_start_from_the_same_weights():
    assert not moved(
        weights(make(search("proxy_anchor"), fold=0)), weights(make(search("proxy_anchor"), fold=1))
    )


@pytest.mark.parametrize("loss", FEW)
def test_a_state_continues_exactly_where_it_was_saved(loss):
    fit, other = make(search(loss)), make(search(loss, seed=0))
    fit.train_epoch(1)
    other.load(copy.deepcopy(fit.state()))
    assert not moved(weights(fit), weights(other))
    assert fit.train_epoch(2) == other.train_epoch(2)
    assert not moved(weights(fit), weights(other))


@pytest.mark.parametrize("loss", FEW)
def test_a_loss_that_is_not_finite_ends_the_epoch_at_once(loss, monkeypatch):
    fit = make(search(loss, steps_per_epoch=10))
    calls = []

    def broken(embeddings, targets):
        calls.append(1)
        return embeddings.sum() * (math.nan if len(calls) == 3 else 1.0)

    monkeypatch.setattr(fit.objective, "forward", broken)
    assert math.isnan(fit.train_epoch(1))
    assert len(calls) == 3


def test_the_mean_loss_of_an_epoch_is_the_mean_of_its_steps(monkeypatch):
    fit = make(search(steps_per_epoch=4))
    values = iter([1.0, 2.0, 3.0, 10.0])
    monkeypatch.setattr(
        fit.objective, "forward", lambda embeddings, targets: embeddings.sum() * 0 + next(values)
    )
    assert fit.train_epoch(1) == pytest.approx(4.0)


def test_training_lowers_the_loss_and_finds_more_matches():
    fit = make(
        replace(
            spec := search("multi_similarity", steps_per_epoch=15),
            transform=replace(spec.transform, max_shift=0, flip=False),
        )
    )
    images = fit.images(SPLIT.train)
    before = fit.score(images).means["map_at_r"]
    losses = [fit.train_epoch(epoch) for epoch in (1, 2, 3)]
    assert losses[-1] < losses[0]
    assert fit.score(images).means["map_at_r"] > before * 1.15


def test_scoring_is_retrieval_among_plain_images_and_leaves_the_weights_alone(monkeypatch):
    fit = make(search())
    before = weights(fit)
    fit.network.train()
    whole = fit.score(fit.select)
    monkeypatch.setattr("trainables.inputs.images.SCORING_PIXELS", 7 * 28 * 28)
    parts = fit.score(fit.select)
    assert whole.means == pytest.approx(parts.means, abs=0.01)
    assert set(whole.means) == set(fit.spec.training.metrics)
    assert len(whole.scored) == 4 * 60
    assert not moved(before, weights(fit))


def test_a_fit_holds_the_images_of_its_own_classes_only():
    fit = make(search())
    assert set(fit.train.labels.tolist()) == set(SPLIT.train)
    assert set(fit.select.labels.tolist()) == set(SPLIT.select)


def test_an_untrained_fit_scores_and_keeps_its_state():
    spec = replace(search(UNTRAINED, backbone="pixels", epochs=0), rule="untrained")
    fit = make(spec)
    assert 0 < fit.score(fit.select).means["recall_at_1"] < 1
    fit.load(fit.state())


@pytest.mark.parametrize("name", ["recall_at_1", "map_at_r", "nmi"])
def test_a_pooled_metric_is_that_of_the_features_below_the_head(name):
    fit = make(search(metrics=(name, f"pooled_{name}")))
    both = fit.score(fit.select)
    assert set(both.means) == {name, f"pooled_{name}"}
    fit.network.head = torch.nn.Identity()
    alone = make(search(metrics=(name,)))
    alone.network = fit.network
    assert alone.score(alone.select).means[name] == pytest.approx(both.means[f"pooled_{name}"])


def test_matched_recall_on_test_classes_counts_as_many_classes_as_selection_has():
    many = Split(SPLIT.train, SPLIT.select, tuple(range(100, 120)))
    fit = make(search(metrics=("recall_at_1", "matched_recall_at_1")), many)
    select, test = fit.score(fit.select).means, fit.score(fit.images(tuple(range(100, 120)))).means
    assert select["matched_recall_at_1"] == select["recall_at_1"]
    assert test["matched_recall_at_1"] > test["recall_at_1"]


@pytest.mark.parametrize("clip", [{"clip_norm": 1e-6}, {"clip_value": 1e-6}], ids=str)
def test_clipped_gradients_move_an_sgd_step_no_further(clip):
    spec = search(optimizer="sgd", steps_per_epoch=1, weight_decay=0.0, learning_rate=1.0, **clip)
    fit = make(spec)
    before = weights(fit)
    fit.train_epoch(1)
    steps = torch.cat([(value - before[name]).flatten() for name, value in weights(fit).items()])
    assert 0 < steps.norm() <= 1.01e-6 * (1 if "clip_norm" in clip else len(steps) ** 0.5)


@pytest.mark.parametrize("loss", NAMES)
def test_an_epoch_says_why_it_was_good_or_bad(loss):
    fit = make(search(loss))
    fit.train_epoch(1)
    assert {"positive_similarity", "negative_similarity", "spread"} <= set(fit.diagnostics)
    assert 0 <= fit.diagnostics["spread"] <= 1.0001
    assert 0 <= fit.diagnostics.get("tuple_share", 0) <= 1


def test_mined_batches_hold_the_hardest_neighbours_of_the_last_epoch_and_survive_a_checkpoint():
    fit, other = (
        make(search("contrastive", batches="mined", mine_every=2, steps_per_epoch=2))
        for _ in range(2)
    )
    fit.train_epoch(1)
    assert fit.neighbours is None
    fit.train_epoch(2)
    first = fit.neighbours
    labels = fit.train.labels
    assert (labels[first] != labels[:, None]).all()
    other.load(copy.deepcopy(fit.state()))
    assert (other.neighbours == first).all()
    assert fit.train_epoch(3) == other.train_epoch(3)
    assert fit.neighbours is first  # looked for every second epoch
    fit.train_epoch(4)
    assert fit.neighbours is not first


def test_a_loss_trains_on_the_labelled_share_of_every_class_in_as_many_steps_as_that_needs():
    spec = replace(search(label_fraction=0.25, steps_per_epoch=None), label_seed=4)
    fit, whole = make(spec), make(search(steps_per_epoch=None))
    _, counts = np.unique(fit.train.labels, return_counts=True)
    _, all_counts = np.unique(whole.train.labels, return_counts=True)
    assert counts.tolist() == [round(count / 4) for count in all_counts]
    assert fit.steps() == -(-len(fit.train) // 20) < whole.steps()
    other = make(replace(spec, label_seed=5))
    assert fit.train.ids.tolist() != other.train.ids.tolist()
    assert math.isfinite(fit.train_epoch(1))


def test_a_loss_that_can_use_images_without_a_label_sees_them_in_half_of_each_batch():
    spec = search("thesis_loss_2", label_fraction=0.25, steps_per_epoch=None)
    fit, whole = make(spec), make(search())
    assert len(fit.train) == len(whole.train)
    hidden = fit.targets == UNLABELLED
    assert 0.7 < hidden.double().mean() < 0.8
    assert (fit.targets[~hidden] == whole.targets[~hidden]).all()
    assert fit.steps() == make(search(label_fraction=0.25, steps_per_epoch=None)).steps()
    for batch in fit.batches(1):
        assert hidden[batch].tolist() == [False] * 10 + [True] * 10
    assert math.isfinite(fit.train_epoch(1))
    balanced = make(replace(spec, training=replace(spec.training, batches="balanced")))
    assert len(balanced.train) == int((~hidden).sum())


@pytest.mark.parametrize("loss", ["thesis_loss_1", "thesis_loss_2", "thesis_loss_3"])
def test_the_thesiss_losses_train_on_mined_batches_with_a_memory(loss):
    fit = make(search(loss, batches="mined", memory=60))
    assert math.isfinite(fit.train_epoch(1))
    assert fit.neighbours is None
    assert math.isfinite(fit.train_epoch(2))
    assert fit.neighbours is not None
