"""A study is checked completely before anything starts."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from study.config.cells import image_transform, measured_metrics
from study.config.notices import notices
from study.config.plan import expand
from study.config.protocols import PROTOCOLS
from study.config.study_config import StudyConfig, make
from tests.support.studies import from_scratch, own_data
from trainables.contract import UNTRAINED, ImageTransform, ModelConfig, Split, Training

FROZEN = {"train": "head", "backbone": "small", "weights": "pretrained"}
BAD: list[tuple[dict[str, Any], str]] = [
    ({"losses": ["contrastiv"]}, "Unknown loss 'contrastiv'. Did you mean 'contrastive'?"),
    ({"dataset": "scetches"}, "Did you mean 'sketches'?"),
    ({"backbone": "tinny"}, "Did you mean 'tiny'?"),
    ({"backbone": "pixels"}, "pixels cannot be trained"),
    ({"backbone": "resnet18", "weights": "no/such/file.pth"}, "no/such/file.pth"),
    ({"weights": "imagenet"}, "tiny has no"),
    ({"weights": "pretrained"}, "tiny has no pretrained weights"),
    ({"backbone": "small", "weights": "imagenet"}, "use weights=pretrained"),
    (
        {"backbone": "small", "weights": "pretrained", "dataset": "cub200"},
        "take images of 1 channel, but those of cub200 have 3",
    ),
    ({"train": "head"}, "train=head keeps the backbone's weights, but weights=none are random"),
    ({"views": 2}, "every epoch has its own crops, but views=2"),
    (FROZEN | {"warm_up": 1}, "warm_up=1 is for a backbone that learns"),
    (FROZEN | {"head_learning_rate": 0.1}, "set the head's rate as learning_rate"),
    ({"backbone": "none"}, "backbone=none is for dataset=features, but sketches has images"),
    ({"head": "mpl"}, "'linear' or 'mlp'"),
    ({"head_width": 0}, "head_width"),
    ({"pooling": "gaps"}, "Did you mean 'gap'?"),
    ({"optimizer": "adamww"}, "Did you mean 'adamw'?"),
    ({"dataset": "image_folder"}, "data_root"),
    ({"data_root": "somewhere"}, "data_root is for image_folder, csv and features, not for sket"),
    ({"train_classes": ["cat"]}, "train_classes is for image_folder, csv and features, not for"),
    ({"max_shift": 28}, "would move images of 28 pixels out of sight; use 7 or less"),
    (
        {"losses": ["triplet_p_norm"], "batches": "balanced"},
        "reads its batches as anchor, positive, negative",
    ),
    (
        {"losses": ["n_pair"], "batches": "mined"},
        "is defined for 2 images of each class, but batches=mined has other numbers",
    ),
    (
        {"losses": ["margin"], "memory": 100},
        "memory=100 is for losses over tuples without a miner and for the thesis's own, not margin",
    ),
    ({"losses": ["contrastive"], "memory": 10}, "must hold at least one batch; use 50 or more"),
    ({"crop_scale": [0.5, 0.1]}, "from a smaller to a larger"),
    ({"crop_scale": [0.5, 1.5]}, "1 at most"),
    (
        {"dataset": "cub200", "backbone": "resnet18", "cache_size": 200},
        "must not be below image_size=224; use cache_size=256",
    ),
    ({"protocols": ["defalt"]}, "Did you mean 'default'?"),
    ({"strategy": "hyperop"}, "Did you mean 'hyperopt'?"),
    ({"metrics": ["recall_at_0"], "select_metric": "recall_at_0"}, "Unknown metric 'recall_at_0'"),
    (
        {"select_metric": "negative_cosine"},
        "select_metric must be higher-is-better, but negative_cosine is lower-is-better",
    ),
    ({"select_metric": "r_precision"}, "must be measured; add it to metrics"),
    (
        {"settings": {"triplet": {"margin": -1}}},
        "triplet's margin must be 0 to 2, but got -1; use 0, or its default 0.1.",
    ),
    (
        {"settings": {"triplet": {"margn": 0.1}}},
        "Unknown parameter of triplet 'margn'. Did you mean 'margin'?",
    ),
    (
        {"settings": {"triplet": {"margin": 1.5}}},
        "is searched in 0.01 to 1, log, but would start at 1.5; start at 1",
    ),
    ({"settings": {"triplet": {"margin": float("nan")}}}, "settings.triplet.margin=nan"),
    ({"losses": ["fast_ap"], "settings": {"fast_ap": {"bins": 10.5}}}, "use 10, or its default 10"),
    ({"losses": ["arcface"], "settings": {"arcface": {"scale": 0}}}, "arcface's scale must be"),
    (
        {"losses": ["triplet_distance"], "settings": {"triplet_distance": {"mining": "semihard"}}},
        "use semi_hard, or its default",
    ),
    (
        {"settings": {"arcface": {"scale": 10}}},
        "settings has values for arcface, which is not among the losses of this study",
    ),
    (
        {"losses": ["n_pair"], "batch_size": 15},
        "n_pair is defined for 2 images of each class, but batch_size=15; use 16.",
    ),
    (
        {"losses": ["triplet_p_norm"], "batch_size": 4, "images_per_class": 2},
        "needs at least two triplets in a batch, but batch_size=4; use 6 or more.",
    ),
    ({"losses": ["nowhere:LOSS"]}, "must be package.module:NAME, but it cannot be imported"),
    (
        {"val_fraction": 0.99},
        "holds out 99 of 100 train classes, but two must be left to train on; choose 0.98 or less.",
    ),
    ({"val_fraction": 1.5}, "val_fraction=1.5"),
    ({"batch_size": 51}, "must be a multiple of images_per_class=5; use 50."),
    (
        {"images_per_class": 50},
        "A batch must hold at least two classes, but batch_size=50 and images_per_class=50; use "
        "batch_size=100 or more.",
    ),
    ({"warm_up": 8}, "warm_up=8 must be below epochs=8; use 7 or less."),
    (
        {"backbone": "resnet18", "chunk": 16},
        "chunk=16 would change what batch norm in resnet18 sees; set freeze_bn=true, or leave "
        "chunk out.",
    ),
    (
        {"backbone": "small", "weights": "pretrained", "train": "head", "compile": True},
        "compile=true is for a backbone that learns, but train=head; leave it out.",
    ),
    ({"losses": ["triplet", "triplet"]}, "Each name must appear once"),
    ({"losses": []}, "losses"),
    ({"epochs": "many"}, "epochs='many'"),
    ({"name": "../escape"}, "name='../escape'"),
    ({"learning_rate": float("inf")}, "learning_rate"),
    ({"name": "mlflow.db"}, "keeps its own mlflow.db"),
    ({"tracking_uri": "nonsense://x"}, "tracking_uri starts with http://"),
    ({"tracking_uri": "http://[bad"}, "Invalid IPv6 URL"),
    ({"epohcs": 3}, "Unknown key 'epohcs'. Did you mean 'epochs'?"),
    ({"triplet": {"margin": 0.1}}, "A loss's own values belong under settings.triplet"),
]


@pytest.mark.parametrize(("changes", "sentence"), BAD, ids=[str(changes) for changes, _ in BAD])
def test_bad_input_is_one_sentence_with_law_fact_and_cure(
    changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)) as error:
        make(from_scratch() | changes)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "key",
    [key for key, field in StudyConfig.model_fields.items() if "int" in str(field.annotation)],
)
def test_every_whole_number_has_a_bound_beyond_which_it_is_a_slip(key: str) -> None:
    with pytest.raises(
        ValueError, match=rf"^{key}.*=1000000000000: Input should be less than or equal to \d+\.$"
    ):
        make(from_scratch() | {key: 10**12})


def test_a_missing_key_is_named() -> None:
    values = from_scratch()
    del values["epochs"]
    with pytest.raises(ValueError, match="The key 'epochs' has no value"):
        make(values)


def test_one_value_several_and_comma_separated_text_mean_the_same() -> None:
    assert (
        make(from_scratch() | {"losses": "triplet, contrastive"}).losses
        == make(from_scratch() | {"losses": ["triplet", "contrastive"]}).losses
    )
    assert make(from_scratch() | {"embedding_size": 16}).embedding_size == (16,)


def test_cells_are_the_product_of_the_axes() -> None:
    config = make(from_scratch() | {"embedding_size": [16, 32]})
    plan = expand(config)
    assert len(plan.cells) == len(set(plan.cells)) == 1 * 1 * 2 * 4 * 2


def test_every_training_value_and_protocol_value_is_a_key() -> None:
    wanted = {
        field.name
        for kind in (Training, ImageTransform, ModelConfig, *PROTOCOLS.values())
        for field in fields(kind)
    }
    assert wanted <= StudyConfig.model_fields.keys()


def test_a_search_trial_holds_no_test_class_unless_it_says_it_peeks_and_a_final_trial_does() -> (
    None
):
    config = make(from_scratch())
    plan = expand(config)
    for cell in plan.cells:
        test = set(plan.splits(cell.dataset, "default")[0].test)
        found = plan.spec(cell, "search", 0, {})
        assert found.peeks == (cell.protocol == "default")
        assert found.peeks or not any(
            test & {*split.train, *split.select, *split.test} for split in found.splits
        )
        assert all(split.test for split in plan.spec(cell, "final", 0, {}).splits)


def test_a_plan_needs_no_data_where_the_halves_are_known() -> None:
    config = make(
        from_scratch()
        | {
            "dataset": ["cub200", "cars196", "sop"],
            "backbone": "resnet50",
            "metrics": ["recalls", "map_at_r"],
        }
    )
    plan = expand(config)
    assert [len(plan.splits(name, "default")[0].train) for name in config.dataset] == [
        100,
        98,
        11_318,
    ]
    assert [len(plan.splits(name, "default")[0].test) for name in config.dataset] == [
        100,
        98,
        11_316,
    ]
    assert measured_metrics(config, "cub200") == (
        "recall_at_1",
        "recall_at_2",
        "recall_at_4",
        "recall_at_8",
        "map_at_r",
    )
    assert measured_metrics(config, "sop")[:4] == (
        "recall_at_1",
        "recall_at_10",
        "recall_at_100",
        "recall_at_1000",
    )
    assert len(plan.baseline_cells()) == 3 * (1 + 3)


def test_the_network_sees_its_input_size_unless_images_are_smaller_or_the_study_sets_one() -> None:
    config = make(
        from_scratch() | {"dataset": ["sketches", "cub200"], "backbone": ["tiny", "resnet18"]}
    )
    sizes = {
        (data, name): image_transform(config, data, name).image_size
        for data in config.dataset
        for name in (*config.backbone, "pixels")
    }
    assert sizes == {
        ("sketches", "tiny"): 28, ("sketches", "resnet18"): 28, ("sketches", "pixels"): 28,
        ("cub200", "tiny"): 64, ("cub200", "resnet18"): 224, ("cub200", "pixels"): 32,
    }  # fmt: skip
    larger = make(from_scratch() | {"image_size": 56})
    sizes = [image_transform(larger, "sketches", name).image_size for name in ("tiny", "pixels")]
    assert sizes == [56, 28]


def test_small_batches_and_random_weights_are_noticed_not_refused() -> None:
    assert notices(expand(make(from_scratch()))) == []
    small = notices(expand(make(from_scratch() | {"batch_size": 500})))
    assert small == [
        "sketches has 90 classes to train on under fixed_validation: a balanced batch holds 450 "
        "images, not 500."
    ]
    assert (
        "no number of this study compares with others"
        in notices(expand(make(from_scratch() | {"max_classes": 50})))[1]
    )
    assert "random weights" in notices(expand(make(from_scratch() | {"backbone": "resnet18"})))[0]


def test_what_a_weight_file_cannot_show_is_said_of_ones_own_only(tmp_path: Path) -> None:
    path = tmp_path / "mine.pth"
    path.write_bytes(b"")
    resnet = from_scratch() | {"backbone": "resnet18"}
    (said,) = notices(expand(make(resnet | {"weights": str(path)})))
    assert said.startswith(f"{path}: names and shapes of its tensors are checked, but strides")
    for weights in ("pretrained", "imagenet"):
        plan = expand(make(resnet | {"weights": weights}))
        assert plan.weight_files() == notices(plan) == []


def test_shipped_weights_are_known_by_their_checksum() -> None:
    plan = expand(make(from_scratch() | {"backbone": "small", "weights": "pretrained"}))
    assert plan.weight_files() == []
    assert {cell.loss for cell, _ in plan.baseline_cells() if cell.backbone == "small"} == {
        "pooled"
    }


def test_only_validation_cells_are_searched() -> None:
    config = make(from_scratch())
    plan = expand(config)
    assert {cell.protocol for cell in plan.cells if plan.searched(cell)} == {"fixed_validation"}
    fixed = make(from_scratch() | {"strategy": "fixed"})
    assert not any(expand(fixed).searched(cell) for cell in expand(fixed).cells)


def test_no_final_trial_has_the_seed_of_the_search() -> None:
    plan = expand(make(from_scratch() | {"seed": 5, "searches": 2, "reproductions": 3}))
    first, second = (plan.search_seed(each) for each in plan.replicates)
    assert first == 5
    finals = [6, 7, 8, second + 1, second + 2, second + 3]
    assert plan.all_final_seeds() == finals
    assert [plan.replicate_of(seed) for seed in finals] == [1, 1, 1, 2, 2, 2]
    assert [plan.replicate_of(seed) for seed in (first, second)] == [1, 2]
    names = [plan.trial_id(plan.cells[0], "final", seed).name for seed in finals]
    again = [f"final-{number}-replicate2" for number in (6, 7, 8)]
    assert names == ["final-6", "final-7", "final-8", *again]


def test_seeds_that_would_meet_those_of_another_replicate_are_refused() -> None:
    with pytest.raises(ValueError, match=r"reproductions=10000 must be below 10000"):
        make(from_scratch() | {"reproductions": 10_000})
    with pytest.raises(
        ValueError, match=r"seed=2147480000 leaves no seeds for the first replicate"
    ):
        make(from_scratch() | {"seed": 2_147_480_000})


def test_validation_on_few_classes_is_warned_of_first() -> None:
    few = notices(expand(make(from_scratch() | {"val_fraction": 0.02})))
    assert few[0].startswith("WARNING: fixed_validation validates on 2 classes of sketches")


def test_rungs_lie_below_the_last_epoch() -> None:
    config = make(from_scratch() | {"epochs": 8, "grace": 2, "reduction": 2})
    assert expand(config).rungs == [2, 4]
    assert expand(make(from_scratch() | {"grace": 8})).rungs == []


def test_baselines_are_untrained_and_read_the_test_classes_once_each() -> None:
    plan = expand(make(from_scratch()))
    specs, (first, *others) = list(plan.baseline_specs()), plan.all_final_seeds()
    assert (first, len(others)) == (1, 2)
    assert [(spec.cell.backbone, spec.seed) for spec in specs] == [
        ("pixels", first),
        ("tiny", first),
        *(("tiny", seed) for seed in others),
    ]
    assert all(
        spec.cell.loss == UNTRAINED and spec.training.epochs == 0 and not spec.peeks
        for spec in specs
    )
    assert [spec.outputs.embeddings for spec in specs] == [True, True, False, False]


@pytest.mark.parametrize(
    ("weights", "names", "scored"),
    [
        ("imagenet", "auto", ["pixels/untrained 1", "resnet18/pooled 1"]),
        ("none", "auto", ["pixels/untrained 1", "resnet18/untrained 2"]),
        ("imagenet", "auto,pca", ["pixels/untrained 1", "resnet18/pooled 1", "resnet18/pca 1"]),
        ("imagenet", "untrained", ["resnet18/untrained 2"]),
        ("none", "pooled", ["resnet18/pooled 2"]),
    ],
)
def test_baselines_fit_the_weights_and_what_no_seed_changes_runs_once(
    weights: str, names: str, scored: list[str]
) -> None:
    changes = {"backbone": "resnet18", "weights": weights, "baselines": names, "searches": 2}
    seeds: dict[str, list[int]] = {}
    for cell, seed in expand(make(from_scratch() | changes)).baseline_cells():
        seeds.setdefault(f"{cell.backbone}/{cell.loss}", []).append(seed)
    assert [f"{name} {len(each)}" for name, each in seeds.items()] == scored
    assert all(each[0] == 1 for each in seeds.values())


def test_the_pca_baseline_is_fitted_on_the_train_classes_once_per_network() -> None:
    study = make(from_scratch() | {"baselines": "pca", "embedding_size": [16, 32], "searches": 1})
    specs = list(expand(study).baseline_specs())
    assert [(str(spec.cell), spec.seed) for spec in specs] == [
        ("sketches/tiny-16/pca/none", 1),
        ("sketches/tiny-32/pca/none", 1),
    ]
    for spec in specs:
        assert spec.splits == (
            Split(tuple(range(100)), tuple(range(100, 200)), tuple(range(100, 200))),
        )
        assert (spec.training.epochs, spec.rule, spec.phase) == (0, "untrained", "final")


def test_a_rate_that_the_search_varies_cannot_be_tied_to_the_networks() -> None:
    tied = from_scratch() | {"weights_rate": 100}
    with pytest.raises(ValueError, match="weights_rate=100 sets the rate of proxy_anchor's own"):
        make(tied)
    assert make(tied | {"strategy": "fixed"}).weights_rate == 100
    assert make(tied | {"losses": "triplet"}).weights_rate == 100


def test_a_study_with_folds_has_a_pca_as_wide_as_all_fold_models_together() -> None:
    changes = {"baselines": "pca", "embedding_size": [16, 64], "searches": 1}
    study = make(from_scratch() | changes | {"protocols": "k_fold:4", "folds": 3})
    sizes = [cell.embedding_size for cell, _ in expand(study).baseline_cells()]
    assert sizes == [16, 64, 256]  # 4 x 16 is there already


@pytest.mark.parametrize(
    ("value", "meant"),
    [(True, ("auto",)), (False, ()), ("pixels,pca", ("pixels", "pca")), ([], ())],
)
def test_baselines_are_names_the_default_or_none(value: object, meant: tuple[str, ...]) -> None:
    assert make(from_scratch() | {"baselines": value}).baselines == meant


def test_labels_leave_out_what_all_cells_share() -> None:
    assert (
        expand(make(from_scratch())).label(expand(make(from_scratch())).cells[0])
        == "contrastive/default"
    )
    two = make(from_scratch() | {"embedding_size": [16, 32]})
    plan = expand(two)
    assert plan.label(plan.cells[0]) == "16/contrastive/default"
    assert len({plan.label(cell) for cell in plan.cells}) == len(plan.cells)


def test_vectors_need_no_backbone_and_score_themselves(tmp_path: Path) -> None:
    (root,) = own_data(tmp_path)["vectors"]
    here = {"dataset": "features", "data_root": root.partition("=")[2], "backbone": "none"}
    config = make(from_scratch() | here | {"train": "head", "pooling": "gap"})
    plan = expand(config)
    assert [(cell.backbone, cell.loss) for cell, _ in plan.baseline_cells()] == [("none", "pooled")]
    assert plan.spec(plan.cells[1], "search", 0, plan.published("contrastive")).reads_features
    for wrong in ({"backbone": "tiny"}, {"train": "all"}):
        with pytest.raises(ValueError, match="set backbone=none, weights=none and train=head"):
            make(from_scratch() | here | {"train": "head"} | wrong)


def test_the_same_study_on_frozen_trunks_and_whole_networks_differs_in_train_only() -> None:
    values = from_scratch() | FROZEN | {"losses": ["triplet", "triplet@whole"]}
    plan = expand(make(values | {"where": [{"loss": "triplet@whole", "train": "all"}]}))
    specs = [plan.spec(cell, "search", 0, plan.published("triplet")) for cell in plan.cells]
    assert {spec.cell.loss: spec.reads_features for spec in specs} == {
        "triplet": True,
        "triplet@whole": False,
    }


def advice(**values: Any) -> str:
    """Return what the config says against these values; nothing if it takes them."""
    try:
        make(from_scratch() | values)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("images", [2, 5, 8])
@pytest.mark.parametrize("batch", range(2, 24))
def test_who_follows_the_advice_on_a_batch_size_needs_no_second_one(
    batch: int, images: int
) -> None:
    if said := advice(batch_size=batch, images_per_class=images):
        found = re.search(r"use (?:batch_size=)?(\d+)", said)
        assert found, said
        assert advice(batch_size=int(found[1]), images_per_class=images) == ""
