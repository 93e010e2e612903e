"""The PCA head against scikit-learn's, alone and as the baseline that a final trial scores."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA as Reference
from torch import Tensor, nn

from tests.support.specs import SPLIT, final, sketches
from trainables.contract import PCA, POOLED, Split, TrialSpec
from trainables.networks import pca
from trainables.networks.pca import set_principal
from trainables.training.fit import EMBEDDING, Fit
from trainables.training.learner import Learner


def features(rows: int, width: int = 12) -> Tensor:
    """Correlated, far from the origin, with a few large directions."""
    generator = torch.Generator().manual_seed(rows)
    mixing = torch.randn(width, width, generator=generator) * torch.logspace(0, -2, width)
    return torch.randn(rows, width, generator=generator) @ mixing.T + 5


def reference(fitted: Tensor, projected: Tensor, size: int) -> np.ndarray:
    return (
        Reference(n_components=size, svd_solver="full")
        .fit(fitted.double().numpy())
        .transform(projected.double().numpy())
    )


def assert_same_up_to_sign(found: Tensor, wanted: np.ndarray) -> None:
    assert found.abs().detach().numpy() == pytest.approx(np.abs(wanted), abs=2e-4)


@pytest.mark.parametrize("size", [1, 5, 12])
@pytest.mark.parametrize("block", [7, 4096])
def test_the_head_projects_as_scikit_learn_does(
    monkeypatch: pytest.MonkeyPatch, size: int, block: int
) -> None:
    monkeypatch.setattr(pca, "BLOCK", block)
    fitted, others = features(50), features(20)
    head = nn.Linear(12, size)
    set_principal(head, fitted)
    assert_same_up_to_sign(head(others), reference(fitted, others, size))


@pytest.mark.parametrize(("rows", "spanned"), [(50, 12), (4, 3)])
def test_dimensions_that_the_features_do_not_span_are_zero(rows: int, spanned: int) -> None:
    head = nn.Linear(12, 16)
    set_principal(head, features(rows))
    found = head(features(20))
    assert_same_up_to_sign(found[:, :spanned], reference(features(rows), features(20), spanned))
    assert not found[:, spanned:].any()


def baseline(split: Split, seed: int = 0) -> TrialSpec:
    spec = final(seed=seed, epochs=0)
    return replace(
        spec,
        cell=replace(spec.cell, loss=PCA, protocol="none"),
        rule="untrained",
        setting={},
        splits=(split,),
    )


def test_the_baseline_is_fitted_on_train_classes_and_projects_the_test_classes() -> None:
    spec = baseline(Split(SPLIT.train, SPLIT.test, SPLIT.test))
    fit = Fit(spec, spec.splits[0], sketches())
    train = fit.embed(fit.images(SPLIT.train), {POOLED})[POOLED]
    test = fit.embed(fit.images(SPLIT.test), {POOLED, EMBEDDING})
    wanted = reference(train, test[POOLED], spec.cell.embedding_size)
    assert_same_up_to_sign(test[EMBEDDING], wanted)
    other = baseline(Split(SPLIT.train, (50, 51), (50, 51)))
    again = Fit(other, other.splits[0], sketches())
    assert torch.equal(fit.network.head.weight, again.network.head.weight)


def test_a_trial_of_it_reads_the_test_classes_once_and_comes_back_from_its_state() -> None:
    spec = baseline(Split(SPLIT.train, SPLIT.test, SPLIT.test))
    learner = Learner(spec, sketches())
    assert learner.done
    row = learner.read_test()
    assert row.queries == 6 * 60
    # Unit vectors of scikit-learn's projection, by the plain definition: is the nearest other image
    # of the same class?
    fit = learner.fits[0]
    train, test = (
        fit.embed(fit.images(classes), {POOLED})[POOLED] for classes in (SPLIT.train, SPLIT.test)
    )
    units = nn.functional.normalize(
        torch.from_numpy(reference(train, test, spec.cell.embedding_size))
    )
    near = (units @ units.T).fill_diagonal_(-2).argmax(1).numpy()
    labels = fit.images(SPLIT.test).labels
    assert row.test["recall_at_1"] == pytest.approx((labels[near] == labels).mean())
    again = Learner(spec, sketches())
    again.load(learner.state())
    assert again.read_test().test == row.test
