"""triplet_distance with a function of the user's own."""

from pathlib import Path

import pytest
import torch

from search_spaces import LOSSES
from study.config.study_config import make
from tests.support.specs import triplet_batch
from tests.support.studies import from_scratch
from trainables.losses import find_builder

MODULE = """
import torch.nn.functional as F

def cosine_dist(u, v):
    return 1.0 - F.cosine_similarity(u, v)

def whole(u, v):
    return u - v

number = 3
"""


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_distances.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))


def build(distance: str, **changes: object):
    values = {**LOSSES["triplet_distance"].defaults, "distance": distance, **changes}
    return find_builder("triplet_distance")(4, 8, **values)


@pytest.mark.parametrize("mining", ["none", "easy", "semi_hard", "hard"])
@pytest.mark.parametrize("swap", [False, True])
def test_the_tutorials_own_cosine_distance_is_our_cosine(swap, mining):
    x, labels = triplet_batch(0)
    ours, own = (x.clone().requires_grad_() for _ in range(2))
    expected = build("cosine", swap=swap, mining=mining)(ours, labels)
    found = build("own_distances:cosine_dist", swap=swap, mining=mining)(own, labels)
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)
    expected.backward()
    found.backward()
    assert torch.allclose(ours.grad, own.grad, atol=1e-6)


def test_a_distance_that_returns_another_shape_is_refused():
    x, labels = triplet_batch(0)
    with pytest.raises(ValueError, match=r"returns n numbers, but for n=\d+ yours returns"):
        build("own_distances:whole")(x, labels)


@pytest.mark.parametrize(
    ("distance", "said"),
    [
        ("own_distances:cosine", "cannot be imported"),
        ("own_distances:number", "must be a function, but it is a int"),
        ("nowhere:cosine", "cannot be imported"),
        ("cosin", "must be cosine or euclidean or squared_euclidean or package.module:NAME"),
        ("study.own:cosine", "must not be named study"),
    ],
)
def test_a_study_with_a_distance_that_is_not_there_does_not_start(distance, said):
    settings = {"triplet_distance": {"distance": distance}}
    with pytest.raises(ValueError, match=said):
        make(
            from_scratch()
            | {"losses": ["triplet_distance"], "settings": settings, "strategy": "fixed"}
        )


def test_a_study_takes_the_distance_of_the_user():
    settings = {"triplet_distance": {"distance": "own_distances:cosine_dist"}}
    config = make(
        from_scratch() | {"losses": ["triplet_distance"], "settings": settings, "strategy": "fixed"}
    )
    assert config.settings == settings
