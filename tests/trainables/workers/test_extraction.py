"""Features that Ray tasks compute: those of one process, computed once, kept on every node."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from PIL import Image
from ray import cloudpickle
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from tests.support.specs import TRANSFORM, frozen_trunk
from tests.support.waiting import await_that
from trainables.contract import DatasetRef, ModelConfig
from trainables.datasets.decode import BrokenImageError
from trainables.inputs.feature_cache import PART, FeaturePass, compute_part, extract, passes_of
from trainables.workers import extraction
from trainables.workers.extraction import extract_on_ray

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("local_ray")]
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # tasks do not import tests

FEW = DatasetRef("sketches", max_classes=3)  # 180 drawings of each half


def wanted_in(folder: Path, ref: DatasetRef = FEW) -> FeaturePass:
    """Return the pass over the centre crops, through a trunk whose weights are in the folder."""
    return passes_of(ref, "tiny", frozen_trunk(folder), TRANSFORM, views=0)[0]


class Heard:
    """Note what an extraction says."""

    def __init__(self) -> None:
        self.done: list[tuple[int, int | None]] = []
        self.said: list[str] = []

    def __call__(self, done: int, total: int | None) -> None:
        self.done.append((done, total))


def run(wanted: FeaturePass) -> Heard:
    heard = Heard()
    extract_on_ray(wanted, gpus=0, progress=heard, say=heard.said.append)
    return heard


@pytest.fixture
def on_workers(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give tasks this test's data folder: workers of the shared Ray have the environment of the
    process that started it.
    """
    part, store = extraction._part, extraction._store

    def part_there(wanted: FeaturePass, number: int, gpus: float) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FAIRTRIAL_DATA", str(own_home))
            return part(wanted, number, gpus)

    def store_there(wanted: FeaturePass, features: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FAIRTRIAL_DATA", str(own_home / "other node"))
            wanted.__dict__.pop("folder", None)  # it was named on the driver's node
            store(wanted, features)

    monkeypatch.setattr(extraction, "_part", part_there)
    monkeypatch.setattr(extraction, "_store", store_there)
    return own_home


def test_features_of_ray_tasks_are_those_of_one_process(on_workers: Path, tmp_path: Path) -> None:
    wanted = wanted_in(tmp_path)
    heard = run(wanted)
    found = wanted.open()[0].copy()
    assert heard.done[0] == (0, 360)
    assert heard.done[-1] == (360, 360)
    assert run(wanted).done == [], "the second time there is nothing to compute"
    shutil.rmtree(wanted.folder)
    extract(wanted)
    np.testing.assert_allclose(found, wanted.open()[0], rtol=1e-5, atol=1e-6)


def test_a_part_that_was_kept_is_not_computed_again(on_workers: Path, tmp_path: Path) -> None:
    wanted = wanted_in(tmp_path)
    width = compute_part(wanted, 0).shape[1]
    with wanted.lock():
        wanted.keep(0, np.full((PART, width), 7, dtype=np.float32))
    assert run(wanted).done[0] == (PART, 360)
    features = wanted.open()[0]
    assert (features[:PART] == 7).all()
    assert not (features[PART:] == 7).any()


def test_who_waits_for_another_process_shows_how_far_that_is_and_computes_nothing(
    on_workers: Path, tmp_path: Path
) -> None:
    wanted, heard = wanted_in(tmp_path), Heard()
    parts = [compute_part(wanted, number) for number in wanted.parts]
    waits = threading.Thread(
        target=lambda: extract_on_ray(wanted, gpus=0, progress=heard, say=heard.said.append)
    )
    with wanted.lock():
        waits.start()
        for number, part in enumerate(parts):
            wanted.keep(number, part)
            shown = min((number + 1) * PART, 360)
            await_that(lambda shown=shown: (shown, 360) in heard.done)
        wanted.finish()
    waits.join()
    assert heard.said == ["Another process computes the same features; waiting for it."]
    np.testing.assert_array_equal(wanted.open()[0], np.concatenate(parts))


def test_a_missing_weight_file_is_one_sentence(on_workers: Path, tmp_path: Path) -> None:
    wanted = wanted_in(tmp_path)
    assert wanted.folder  # named while the file was there
    Path(wanted.weights).unlink()
    with pytest.raises((ValueError, OSError)) as caught:
        run(wanted)
    assert "trunk.pth" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not wanted.is_cached


def test_a_broken_image_is_its_own_error(on_workers: Path, tmp_path: Path) -> None:
    root = tmp_path / "photos"
    for name in "abcd":
        (root / name).mkdir(parents=True)
        for number in range(3):
            Image.new("RGB", (40, 40), (number, 0, 0)).save(root / name / f"{number}.png")
    (root / "b" / "1.png").write_bytes((root / "b" / "1.png").read_bytes()[:40])
    ref = DatasetRef("image_folder", str(root))
    model = ModelConfig("gap", str(_rgb_weights(tmp_path)), freeze_bn=False, precision="float32")
    (wanted,) = passes_of(ref, "tiny", model, TRANSFORM, views=0)
    with pytest.raises(BrokenImageError) as caught:
        run(wanted)
    assert "1.png" in str(caught.value)
    assert "Traceback" not in str(caught.value)


def _rgb_weights(folder: Path) -> Path:
    import torch

    from trainables.networks.backbones import tiny

    torch.save(tiny(3)[0].state_dict(), folder / "rgb.pth")
    return folder / "rgb.pth"


def test_every_node_has_the_features_in_the_end(
    on_workers: Path, tmp_path: Path, more_nodes: Callable[..., Any]
) -> None:
    node = more_nodes(num_cpus=1)
    wanted = wanted_in(tmp_path)
    run(wanted)
    there = on_workers / "other node" / wanted.folder.relative_to(on_workers)
    np.testing.assert_array_equal(np.load(there / "features.npy"), wanted.open()[0])
    place = NodeAffinitySchedulingStrategy(node.node_id, soft=False)
    seen = ray.remote(num_cpus=0)(lambda path: Path(path).exists())
    assert ray.get(seen.options(scheduling_strategy=place).remote(str(there)))
    assert run(wanted).done == []
