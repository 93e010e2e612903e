"""Features of a frozen trunk: computed once, kept whole, named by all that they depend on."""

import multiprocessing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.support.specs import TRANSFORM, frozen_trunk, sketches
from trainables.contract import DatasetRef, ModelConfig
from trainables.inputs import feature_cache
from trainables.inputs.crops import centre, crops, drawn, draws
from trainables.inputs.feature_cache import VIEWS, FeaturePass, extract, passes_of
from trainables.networks.network import HeadConfig, build_network

FEW = DatasetRef("sketches", max_classes=3)  # 180 drawings of each half


@pytest.fixture
def trunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelConfig:
    monkeypatch.setenv("FAIRTRIAL_DATA", str(tmp_path / "cache"))
    return frozen_trunk(tmp_path)


def passes(trunk: ModelConfig, views: int = 0) -> list[FeaturePass]:
    return passes_of(FEW, "tiny", trunk, TRANSFORM, views=views)


def test_the_centre_pass_equals_a_plain_loop_over_the_images(trunk: ModelConfig) -> None:
    (wanted,) = passes(trunk)
    extract(wanted)
    features, ids = wanted.open()
    network = build_network(
        "tiny",
        1,
        head=HeadConfig(0),
        pooling="gap",
        weights=Path(trunk.weights),
        freeze_bn=False,
        bf16=False,
        seed=9,
    ).eval()
    pixels = sketches().pixels
    assert len(ids) == 360
    for row in (0, 100, 359):
        image = torch.from_numpy(pixels[int(ids[row])].copy()).permute(2, 0, 1)[None]
        with torch.inference_mode():
            torch.testing.assert_close(torch.from_numpy(features[row]), network.pooled(image)[0])


def test_a_view_sees_the_crop_that_view_and_image_draw(trunk: ModelConfig) -> None:
    _, first, second = passes(trunk, views=2)
    for each in (first, second):
        extract(each)
    found, ids = second.open()
    assert set(sketches().index.labels[ids]) == {0, 1, 2}  # train classes only
    numbers = draws((VIEWS, 1), 12_000)[ids[:5]]
    shapes = sketches().pixels.shapes[ids[:5]]
    images = crops(
        [sketches().pixels[int(i)] for i in ids[:5]],
        drawn(shapes, TRANSFORM, numbers),
        TRANSFORM.image_size,
    ).now()
    network = feature_cache._trunk(second, 1)
    with torch.inference_mode():
        torch.testing.assert_close(torch.from_numpy(found[:5]), network.pooled(images))
    assert not np.allclose(found, first.open()[0])
    assert len(centre(shapes, TRANSFORM).top) == 5


@pytest.mark.parametrize("part", [7, 64, 500])
def test_the_size_of_a_part_changes_nothing(
    trunk: ModelConfig, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    (wanted,) = passes(trunk)
    whole = np.concatenate([feature_cache.compute_part(wanted, n) for n in wanted.parts])
    monkeypatch.setattr(feature_cache, "PART", part)
    extract(wanted)
    np.testing.assert_allclose(wanted.open()[0], whole, rtol=1e-5, atol=1e-6)


def test_an_extraction_that_was_killed_continues_after_its_last_part(
    trunk: ModelConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature_cache, "PART", 100)
    (wanted,) = passes(trunk)
    computed: list[int] = []
    compute = feature_cache.compute_part

    def killed(each: FeaturePass, number: int) -> np.ndarray:
        if number == 2 and len(computed) == 2:
            raise KeyboardInterrupt
        computed.append(number)
        return compute(each, number)

    monkeypatch.setattr(feature_cache, "compute_part", killed)
    with pytest.raises(KeyboardInterrupt):
        extract(wanted)
    assert not wanted.is_cached
    computed.append(-1)
    extract(wanted)
    assert computed == [0, 1, -1, 2, 3]
    assert len(wanted.open()[0]) == 360


def test_half_a_file_is_never_taken_for_a_whole_one(
    trunk: ModelConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    (wanted,) = passes(trunk)
    monkeypatch.setattr(feature_cache.os, "fsync", lambda file: (_ for _ in ()).throw(OSError(28)))
    with pytest.raises(OSError, match="28"):
        extract(wanted)
    assert not wanted.is_cached
    monkeypatch.undo()


def _extract(wanted: FeaturePass, answers: "multiprocessing.Queue[int]") -> None:
    count = [0]
    compute = feature_cache.compute_part

    def counted(each: FeaturePass, number: int) -> np.ndarray:
        count[0] += 1
        return compute(each, number)

    feature_cache.compute_part = counted
    extract(wanted)
    answers.put(count[0])


def test_two_processes_that_need_the_same_features_compute_them_once(trunk: ModelConfig) -> None:
    (wanted,) = passes(trunk)
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    both = [context.Process(target=_extract, args=(wanted, answers)) for _ in range(2)]
    for process in both:
        process.start()
    counts = sorted(answers.get(timeout=240) for _ in both)
    for process in both:
        process.join()
    assert counts == [0, len(wanted.parts)]


def test_everything_that_features_depend_on_is_in_their_name(
    trunk: ModelConfig, tmp_path: Path
) -> None:
    (wanted,) = passes(trunk)
    other = tmp_path / "other.pth"
    other.write_bytes(Path(trunk.weights).read_bytes() + b" ")
    changes = [
        replace(wanted, dataset_ref=DatasetRef("sketches", max_classes=4)),
        replace(wanted, backbone="small"),
        replace(wanted, weights=str(other)),
        replace(wanted, pooling="gmp"),
        replace(wanted, precision="bfloat16"),
        replace(wanted, view=0),
        replace(wanted, view=1),
        replace(wanted, transform=replace(wanted.transform, image_size=24)),
        replace(wanted, transform=replace(wanted.transform, center_crop=0.5)),
    ]
    names = {each.folder.name for each in (wanted, *changes)}
    assert len(names) == 1 + len(changes)
    # What only training's crops depend on does not change the centre's.
    (same,) = passes_of(FEW, "tiny", trunk, replace(TRANSFORM, max_shift=1, flip=False), views=0)
    assert same == wanted


def test_squashed_images_have_features_of_their_own_and_other_caches_keep_their_names(
    trunk: ModelConfig,
) -> None:
    (plain,) = passes(trunk)
    squashed = replace(plain, transform=replace(plain.transform, resize="squash"))
    assert squashed.folder != plain.folder
    described = plain.about["transform"]
    assert isinstance(described, dict)
    assert "resize" not in described
