"""Global batches: the same for any number of workers."""

from collections import Counter
from itertools import islice

import numpy as np
import pytest

from trainables.inputs.batches import BATCHES, half_labelled, labelled, mined

KINDS = sorted(BATCHES)
# 7 classes of 6, shuffled.
LABELS = np.repeat([3, 7, 8, 20, 21, 40, 41], 6)[np.random.default_rng(0).permutation(42)]


def take(
    kind: str,
    count: int,
    *,
    labels: np.ndarray = LABELS,
    seed: int = 0,
    size: int = 9,
    per_class: int = 3,
) -> list[np.ndarray]:
    return list(
        islice(
            BATCHES[kind](labels, np.random.default_rng(seed), size=size, per_class=per_class),
            count,
        )
    )


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "triplets"])
def test_a_batch_has_the_asked_size_and_no_image_twice(kind):
    for batch in take(kind, 50):
        assert len(batch) == 9
        assert len(set(batch.tolist())) == 9
        assert set(batch.tolist()) <= set(range(len(LABELS)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_batches_and_another_seed_others(kind):
    first, again, other = (np.concatenate(take(kind, 20, seed=seed)) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize("kind", KINDS)
def test_batches_leave_the_global_generator_alone(kind):
    np.random.seed(0)  # noqa: NPY002 the legacy generator is the one that must not be touched
    expected = np.random.random()  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002
    take(kind, 5)
    assert np.random.random() == expected  # noqa: NPY002


@pytest.mark.parametrize("kind", KINDS)
def test_every_image_comes_at_last(kind):
    assert set(np.concatenate(take(kind, 200)).tolist()) == set(range(len(LABELS)))


@pytest.mark.parametrize(("size", "per_class"), [(9, 3), (8, 4), (12, 2), (21, 3), (4, 2)])
def test_a_balanced_batch_has_exactly_so_many_images_of_exactly_so_many_classes(size, per_class):
    for batch in take("balanced", 30, size=size, per_class=per_class):
        counts = Counter(LABELS[batch].tolist())
        assert len(counts) == size // per_class
        assert set(counts.values()) == {per_class}


@pytest.mark.parametrize("classes_per_batch", [1, 2, 3, 4, 5, 6, 7])
def test_in_balanced_batches_every_class_comes_once_before_any_comes_again(classes_per_batch):
    seen = Counter(dict.fromkeys(set(LABELS.tolist()), 0))
    for batch in take("balanced", 60, size=2 * classes_per_batch, per_class=2):
        seen.update(set(LABELS[batch].tolist()))
        assert max(seen.values()) - min(seen.values()) <= 1


@pytest.mark.parametrize("size", [1, 4, 6, 21, 23, 41, 42])
def test_in_random_batches_every_image_comes_once_before_any_comes_again(size):
    seen = Counter(dict.fromkeys(range(len(LABELS)), 0))
    for batch in take("random", 60, size=size):
        seen.update(batch.tolist())
        assert max(seen.values()) - min(seen.values()) <= 1


def test_random_batches_do_not_follow_the_classes():
    kinds = [len(set(LABELS[batch].tolist())) for batch in take("random", 40)]
    assert len(set(kinds)) > 1


@pytest.mark.parametrize("kind", KINDS)
def test_rounds_come_in_a_new_order(kind):
    batches = [tuple(batch.tolist()) for batch in take(kind, 50, size=6, per_class=3)]
    assert len(set(batches)) > 40


def test_only_a_class_that_is_too_small_gives_an_image_twice():
    labels = np.array([0] * 2 + [1] * 3 + [2] * 9)
    repeats = Counter()
    for batch in take("balanced", 100, labels=labels, size=9, per_class=3):
        assert Counter(labels[batch].tolist()) == {0: 3, 1: 3, 2: 3}
        for label in (0, 1, 2):
            rows = batch[labels[batch] == label].tolist()
            repeats[label] += len(set(rows)) < 3
    assert repeats == {0: 100, 1: 0, 2: 0}


def test_fewer_classes_or_images_than_asked_give_a_smaller_batch():
    assert {len(batch) for batch in take("balanced", 5, size=60, per_class=3)} == {21}
    assert {len(batch) for batch in take("random", 5, size=60)} == {42}


@pytest.mark.parametrize(("size", "rows"), [(3, 3), (9, 9), (10, 9), (11, 9), (12, 12), (200, 126)])
def test_a_triplet_batch_is_whole_triplets_of_anchor_positive_and_negative(size, rows):
    for batch in take("triplets", 30, size=size):
        assert len(batch) == rows
        anchors, positives, negatives = batch[0::3], batch[1::3], batch[2::3]
        assert (LABELS[anchors] == LABELS[positives]).all()
        assert (anchors != positives).all()
        assert (LABELS[anchors] != LABELS[negatives]).all()


def test_in_triplet_batches_every_image_is_an_anchor_once_before_any_is_again():
    labels = np.array([0] * 4 + [1] + [2] * 5)
    seen = Counter(dict.fromkeys([*range(4), *range(5, 10)], 0))
    others = Counter()
    for batch in take("triplets", 60, labels=labels, size=12):
        seen.update(batch[0::3].tolist())
        others.update(batch[2::3].tolist())
        assert max(seen.values()) - min(seen.values()) <= 1
    assert set(seen) == set(range(10)) - {4}  # a lone image has no positive
    assert set(others) == set(range(10))


@pytest.mark.parametrize(("labels", "size"), [([0, 0, 0], 9), ([0, 1, 2], 9), ([0, 0, 1], 2)])
def test_where_there_is_no_triplet_the_error_says_what_one_needs(labels, size):
    with pytest.raises(
        ValueError, match="A triplet is two images of one class and one of another, but got"
    ):
        take("triplets", 1, labels=np.array(labels), size=size)


def hardest(count: int) -> np.ndarray:
    """Return for every row some rows of other classes, nearest first: those that follow it."""
    return np.array(
        [
            [row for row in np.roll(np.arange(42), -i) if LABELS[row] != LABELS[i]][:count]
            for i in range(42)
        ]
    )


def test_before_the_first_epoch_mined_batches_are_balanced_ones():
    for ours, balanced in zip(
        take("mined", 20, size=12), take("balanced", 20, size=12), strict=True
    ):
        assert (ours == balanced).all()


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_mined_batch_is_half_balanced_and_half_the_hardest_neighbours_of_that_half(count):
    neighbours = hardest(count)
    batches = mined(LABELS, np.random.default_rng(0), size=12, per_class=3, neighbours=neighbours)
    for batch in islice(batches, 30):
        seed, rest = batch[:6], batch[6:]
        assert sorted(Counter(LABELS[seed].tolist()).values()) == [3, 3]
        assert len(set(batch.tolist())) == 12
        wanted = [
            row
            for rank in range(count)
            for row in neighbours[seed, rank].tolist()
            if row not in seed
        ]
        wanted = list(dict.fromkeys(wanted))[:6]
        assert rest[: len(wanted)].tolist() == wanted


def test_a_share_of_every_class_keeps_its_labels_and_two_images_at_least():
    labels = np.array([7] * 20 + [3] * 9 + [5] * 2 + [1])
    known = labelled(labels, 0.25, seed=1)
    counts = {label: int(known[labels == label].sum()) for label in (7, 3, 5, 1)}
    assert counts == {7: 5, 3: 2, 5: 2, 1: 1}
    assert (known <= labelled(labels, 0.5, seed=1)).all()
    assert labelled(labels, 1, seed=1).all()
    assert not np.array_equal(known, labelled(labels, 0.25, seed=2))
    # A class's images do not depend on the classes beside it: splits of one replicate agree.
    assert np.array_equal(known[:20], labelled(labels[:20], 0.25, seed=1))


def test_half_of_a_batch_has_labels_and_each_half_comes_once_before_any_comes_again():
    known = np.arange(30) % 3 == 0
    drawn = list(islice(half_labelled(known, np.random.default_rng(0), size=9), 5))
    for batch in drawn:
        assert known[batch].tolist() == [True] * 5 + [False] * 4
    both = np.concatenate(drawn)
    assert sorted(both[known[both]][:10]) == sorted(np.flatnonzero(known))
    assert sorted(both[~known[both]]) == sorted(np.flatnonzero(~known))
