"""Yoked t-SNE: gradients against finite differences and scikit-learn, and extreme penalties."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.spatial.distance import squareform

from analysis.maps.plane import joint_tsne
from analysis.maps.yoked import (
    Affinities,
    affinities,
    alignment,
    descend,
    divergence,
    yoked_tsne,
    zoom,
)
from tests.support.synthetic_embeddings import unit_vectors


def random_map(points: int = 40) -> tuple[Affinities, np.ndarray, torch.Tensor]:
    """Return affinities in double precision, the same as a dense matrix, and positions."""
    found, _ = unit_vectors(4, points // 4)
    joint = affinities(found, 5)
    positions = torch.from_numpy(np.random.default_rng(1).normal(size=(points, 2)) * 3)
    return Affinities.of(joint, dtype=torch.float64), joint.toarray(), positions


def test_the_gradient_of_a_map_is_what_small_steps_find():
    joint, _, positions = random_map()
    gradient = divergence(joint, positions)[1]
    for i, axis in ((0, 0), (7, 1), (39, 0)):
        step = torch.zeros_like(positions)
        step[i, axis] = 1e-5
        slope = (
            divergence(joint, positions + step)[0] - divergence(joint, positions - step)[0]
        ) / 2e-5
        assert slope == pytest.approx(float(gradient[i, axis]), rel=1e-4, abs=1e-9)


def test_cost_and_gradient_of_a_map_are_those_of_scikit_learn():
    from sklearn.manifold._t_sne import _kl_divergence

    joint, dense, positions = random_map()
    cost, gradient = _kl_divergence(
        positions.numpy().ravel(), squareform(dense, checks=False), 1.0, len(dense), 2
    )
    ours, slope = divergence(joint, positions)
    assert ours == pytest.approx(cost, rel=1e-6)
    np.testing.assert_allclose(slope.numpy().ravel(), gradient, atol=1e-9)


def test_more_images_than_a_block_give_the_same_gradient(monkeypatch):
    joint, _, positions = random_map()
    whole = divergence(joint, positions)
    monkeypatch.setattr("analysis.maps.yoked.BLOCK", 7)
    parts = divergence(joint, positions)
    assert parts[0] == pytest.approx(whole[0])
    torch.testing.assert_close(parts[1], whole[1])


def test_the_gradient_of_the_yoke_is_what_torch_derives():
    positions = torch.randn(3, 10, 2, dtype=torch.float64, requires_grad=True)
    cost = 0.7 / (2 * 10) * sum((positions[i] - positions[i + 1]).square().sum() for i in range(2))
    (gradient,) = torch.autograd.grad(cost, positions)
    found, slope = alignment(positions.detach(), 0.7)
    assert found == pytest.approx(cost.item())
    torch.testing.assert_close(slope, gradient)


def test_without_a_penalty_every_map_is_the_plain_one():
    one, two = (Affinities.of(affinities(unit_vectors(4, 12, seed=seed)[0], 5)) for seed in (0, 1))
    start = torch.randn(48, 2) * 1e-4
    start -= start.mean(0)
    both = descend([one, two], start.repeat(2, 1, 1), penalty=0.0, early=60, late=60)
    for joint, plane in zip((one, two), both, strict=True):
        alone = descend([joint], start[None], penalty=0.0, early=60, late=60)[0]
        torch.testing.assert_close(plane, alone)


def cost(joint: Affinities, plane: np.ndarray) -> float:
    return divergence(joint, torch.from_numpy(plane).float())[0]


def test_a_plain_map_is_as_good_as_that_of_opentsne():
    found, _ = unit_vectors(6, 25, spread=0.4)
    joint = Affinities.of(affinities(found, 15))
    (ours,) = yoked_tsne([found], penalty=0, perplexity=15)
    theirs = joint_tsne(found, perplexity=15)
    assert cost(joint, ours) == pytest.approx(cost(joint, theirs), abs=0.05)


@pytest.mark.slow
def test_the_yoke_brings_maps_together_and_a_large_one_makes_them_one():
    both = [unit_vectors(5, 20, seed=seed)[0] for seed in (0, 3)]
    apart, near, one = (
        yoked_tsne(both, penalty=penalty, perplexity=10) for penalty in (0, 0.05, 1e6)
    )
    distances = [np.square(maps[1] - maps[0]).sum(-1).mean() for maps in (apart, near, one)]
    assert distances[0] > 3 * distances[1] > 300 * distances[2]
    np.testing.assert_allclose(one[0], one[1], atol=0.05)
    joint = [Affinities.of(affinities(each, 10)) for each in both]
    costs = [sum(map(cost, joint, maps)) for maps in (near, one)]
    assert costs[0] < costs[1]  # each keeps more of its own shape


@pytest.mark.slow
def test_where_a_yoked_descent_ends_the_whole_cost_is_flat():
    joint = [Affinities.of(affinities(unit_vectors(4, 10, seed=seed)[0], 5)) for seed in (0, 1)]
    start = torch.randn(40, 2, generator=torch.Generator().manual_seed(0)) * 1e-4
    positions = descend(joint, start.repeat(2, 1, 1), penalty=0.1, early=100, late=3000)
    own = torch.stack(
        [divergence(each, plane)[1] for each, plane in zip(joint, positions, strict=True)]
    )
    pull = alignment(positions, 0.1)[1]
    assert float((own + pull).abs().max()) < 0.02 * float(pull.abs().max())


@pytest.mark.parametrize("count", [1, 2, 7])
def test_a_few_images_lie_on_their_main_directions(count):
    found = yoked_tsne([unit_vectors(1, count)[0], unit_vectors(1, count, size=3)[0]])
    assert [plane.shape for plane in found] == [(count, 2)] * 2


def test_maps_of_different_images_cannot_be_yoked():
    with pytest.raises(ValueError, match="same images"):
        yoked_tsne([unit_vectors(2, 10)[0], unit_vectors(2, 11)[0]])


def test_the_affinities_of_all_images_sum_to_one():
    joint = affinities(unit_vectors(4, 10)[0], 5)
    assert sparse.issparse(joint)
    assert joint.sum() == pytest.approx(1)
    assert abs(joint - joint.T).max() < 1e-12


def test_the_zoomed_region_holds_the_middle_of_its_images_and_not_the_whole_map():
    plane = np.random.default_rng(0).normal(size=(200, 2))
    rows = np.arange(20)
    ((left, right, bottom, top),) = zoom([plane], rows)
    x, y = np.median(plane[rows], axis=0)
    assert left < x < right
    assert bottom < y < top
    assert right - left < 0.4 * np.ptp(plane[:, 0])
