"""The loss's own value on select and test classes, as a metric."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from search_spaces import LOSSES
from study.config.study_config import make
from tests.support.specs import METRICS, final, search, sketches, timeless
from tests.support.studies import from_scratch
from trainables.losses import find_builder
from trainables.training.learner import Learner

TUPLES = ("contrastive", "triplet", "margin", "multi_similarity", "nt_xent", "triplet_p_norm")


def trained(loss: str, **training: object) -> Learner:
    learner = Learner(search(loss, epochs=2, **training), sketches())
    while not learner.done:
        learner.epoch()
    return learner


@pytest.mark.parametrize("loss", ["contrastive", "nt_xent", "multi_similarity"])
@pytest.mark.parametrize("memory", [0, 1000])
def test_one_batch_of_all_select_images_gives_the_loss_of_all_of_them(loss, memory):
    """Without a miner that draws, a batch of everything has no order."""
    if memory and not LOSSES[loss].memory:
        return
    metrics = (*METRICS, "loss_value")
    learner = trained(loss, metrics=metrics, batches="random", batch_size=400, memory=memory)
    fit = learner.fits[0]
    embeddings = F.normalize(fit.embed(fit.select, {"embedding"})["embedding"])
    labels = torch.from_numpy(fit.select.labels)
    alone = find_builder(loss)(len(fit.split.train), 8, **LOSSES[loss].defaults)
    expected = float(alone.eval()(embeddings, labels - labels.min()))
    assert learner.rows[-1].select["loss_value"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("loss", TUPLES)
def test_measuring_the_loss_changes_nothing_else(loss):
    plain, measured = (
        trained(loss, metrics=metrics) for metrics in (METRICS, (*METRICS, "loss_value"))
    )
    for one, other in zip(plain.rows, measured.rows, strict=True):
        assert other.select["loss_value"] > 0
        select = {name: other.select[name] for name in METRICS}
        assert timeless(one) == timeless(replace(other, select=select, folds=(select,)))


def test_a_final_trial_has_the_loss_on_its_test_classes_and_a_baseline_has_none():
    spec = final("triplet", epochs=1, metrics=(*METRICS, "loss_value"))
    learner = Learner(spec, sketches())
    learner.epoch()
    assert learner.read_test().test["loss_value"] > 0
    untrained = replace(spec, cell=replace(spec.cell, loss="untrained"), rule="untrained")
    untrained = replace(untrained, setting={}, training=replace(spec.training, epochs=0))
    assert "loss_value" not in Learner(untrained, sketches()).read_test().test


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"select_metric": "loss_value"}, "loss_value is lower-is-better"),
        ({"losses": ["proxy_anchor"]}, "loss_value is for losses that know no classes"),
        ({"losses": ["margin_per_class"]}, "loss_value is for losses that know no classes"),
        ({"metrics": ["recall_at_1", "map_at_r", "pooled_loss_value"]}, "A loss sees embeddings"),
    ],
)
def test_the_loss_is_never_selected_by_and_needs_no_weights_of_classes(changes, said):
    values = {"losses": ["triplet"], "metrics": ["recall_at_1", "map_at_r", "loss_value"]}
    with pytest.raises(ValueError, match=said):
        make(from_scratch() | values | changes)
