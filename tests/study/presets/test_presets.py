"""Every preset plans what its experiment says: counts by hand, and values from its source."""

import csv
from typing import Any

import pytest

from search_spaces import LOSSES
from search_spaces.experiments import (
    GENERALIZATION_OURS,
    THESIS_DATASETS,
    THESIS_LOSSES,
    THESIS_TIED,
)
from study.config.budget import search_epochs
from study.config.cells import image_transform
from study.config.notices import notices
from study.config.plan import expand
from study.config.protocols import find_protocol
from study.config.sources import resolve
from study.config.study_config import StudyConfig, make
from study.estimate.counts import count_cells, totals
from study.presets import PRESETS, SMOKE, quickstart, shrink
from tests.support import ROOT
from tests.support.studies import own_data
from trainables.contract import Cell
from trainables.networks.network import HeadConfig, build_network

# (cells, search trials, final trials, baselines, epochs expected, epochs at most)
COUNTS: dict[str, tuple[int, int, int, int, int, int]] = {
    # 10 losses x 2 protocols; in each of the 10 searched cells the published setting for all 8
    # epochs and 7 trials for 2 + 2/2 + 4/4 = 4: 36; 3 replicates; pixels, and pooled features
    "quickstart": (10 * 2, 3 * 10 * 8, 20 * 3, 2, 3 * 10 * 36 + 60 * 8, (240 + 60) * 8),
    # 5 losses x 2 protocols; one trial for 12 epochs, 7 for 3 + 3/2 + 6/4 = 6: 54; 3 replicates
    "photos": (5 * 2, 3 * 5 * 8, 10 * 3, 2, 3 * 5 * 54 + 30 * 12, (120 + 30) * 12),
    "vectors": (5 * 2, 3 * 5 * 8, 10 * 3, 1, 3 * 5 * 54 + 30 * 12, (120 + 30) * 12),
    # 10 losses x 3 networks x 4 sizes x 3 datasets, one run each; baselines per dataset: pixels,
    # and 3 networks x 4 sizes
    "thesis_default": (10 * 3 * 4 * 3, 0, 360, 3 * (1 + 3 * 4), 360 * 100, 360 * 100),
    "thesis_balanced": (10 * 3 * 4 * 3, 0, 360, 3 * (1 + 3 * 4), 360 * 100, 360 * 100),
    # 4 ratios, one loss
    "thesis_split_ratio": (4, 0, 4, 2, 4 * 100, 4 * 100),
    # 3 losses; a trial holds all ten models
    "thesis_cross_validation": (3, 0, 3, 2, 3 * 100, 3 * 100),
    # 3 losses x 2 protocols; table 15: margin 11, alpha 50, beta 50, epsilon 11; 11, 50, 10, 10,
    # 11; 11, 50
    "thesis_fixed_validation": (
        3 * 2,
        (11 + 50 + 50 + 11) + (11 + 50 + 10 + 10 + 11) + (11 + 50),
        6,
        2,
        275 * 20 + 6 * 100,
        275 * 20 + 6 * 100,
    ),
    # 35 losses x 3 datasets x 2 protocols; 50 trials in each searched cell, stopping at 5 and 10
    # of 20 epochs: one for 20, 49 for 5 + 5/2 + 10/4 = 10, together 510; 3 finalists on 2 splits
    # for 20; 5 replicates
    "fixed_validation_all": (
        35 * 3 * 2,
        35 * 3 * 5 * (50 + 6),
        210 * 5,
        3 * (1 + 1),
        35 * 3 * 5 * (510 + 120) + 1050 * 100,
        29_400 * 20 + 1050 * 100,
    ),
    # 8 variants x 2 protocols, 5 replicates
    "thesis_next_loss": (8 * 2, 0, 16 * 5, 2, 80 * 100, 80 * 100),
    # 4 losses x 4 shares of the labels, 5 replicates
    "thesis_few_labels": (4 * 4, 0, 16 * 5, 2, 80 * 100, 80 * 100),
    # 11 losses x 3 datasets
    "thesis_own_loss": (11 * 3, 0, 33, 3 * 2, 33 * 100, 33 * 100),
    # 14 losses x 3 datasets; 50 trials, 10 reproductions; pixels, and the pretrained row with 128
    # and with 512 dimensions; patience ends trials, so 1,000 epochs are an upper bound
    "reality_check": (14 * 3, 42 * 50, 42 * 10, 3 * 3, 2520 * 1000, 2520 * 1000),
    # 6 experiments with ResNet18, 4 with ResNet34; 20 epochs, 60 for two of them; pixels and two
    # networks
    "triplet_report": (6 + 4, 0, 10, 3, 8 * 20 + 2 * 60, 8 * 20 + 2 * 60),
    # 9 losses, of them 6 of triplet_p_norm, x 2 protocols; 3 replicates of 8 epochs
    "triplet_tutorial": (9 * 2, 0, 18 * 3, 2, 54 * 8, 54 * 8),
    # 4 losses x 2 datasets
    "generalization": (4 * 2, 0, 8, 2 * 2, 8 * 40, 8 * 40),
}
# The same with --smoke, where the default protocol has no search: (cells, search trials, final
# trials, baselines)
SMOKE_COUNTS: dict[str, tuple[int, int, int, int]] = {
    "quickstart": (20, 10 * 2, 20, 2),
    "photos": (10, 5 * 2, 10, 2),
    "vectors": (10, 5 * 2, 10, 2),
    "thesis_default": (10, 0, 10, 2),
    "thesis_balanced": (10, 0, 10, 2),
    "thesis_split_ratio": (4, 0, 4, 2),
    "thesis_cross_validation": (3, 0, 3, 2),
    # both ends of 4, 5 and 2 grids, and the published setting of each, whose margin is at no end
    "thesis_fixed_validation": (6, 2 * 4 + 2 * 5 + 2 * 2 + 3, 6, 2),
    "fixed_validation_all": (70, 35 * 2, 70, 2),
    "thesis_next_loss": (8 * 2, 0, 16, 2),
    "thesis_few_labels": (4 * 4, 0, 16, 2),
    "thesis_own_loss": (11, 0, 11, 2),
    "reality_check": (14, 14 * 2, 14, 3),
    "triplet_report": (1, 0, 1, 2),
    "triplet_tutorial": (9 * 2, 0, 9 * 2, 2),
    "generalization": (4, 0, 4, 2),
}


def counted(config: StudyConfig) -> tuple[int, ...]:
    plan = expand(config)
    found = totals(plan, count_cells(plan))
    return (
        found["cells"],
        found["search_trials"],
        found["final_trials"],
        found["baseline_trials"],
        *found["epochs"],
    )


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    return own_data(tmp_path_factory.mktemp("own"))


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_preset_is_valid_and_says_what_it_is(name: str, own: dict[str, list[str]]) -> None:
    assert resolve(name, sets=own.get(name, [])).config.name == name
    assert PRESETS[name].__doc__


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_preset_plans_the_counts_that_a_hand_gets(
    name: str, own: dict[str, list[str]]
) -> None:
    assert counted(resolve(name, sets=own.get(name, [])).config) == COUNTS[name]


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_smoke_study_is_small_and_keeps_every_loss_and_rule(
    name: str, own: dict[str, list[str]]
) -> None:
    whole = resolve(name, sets=own.get(name, [])).config
    smoke = resolve(name, smoke=True).config
    assert counted(smoke)[:4] == SMOKE_COUNTS[name]
    assert smoke.dataset == ("sketches",)
    assert smoke.train == whole.train
    assert smoke.backbone == (("tiny",) if smoke.train == "all" else ("small",))
    bare = {loss.partition("@")[0] for loss in whole.losses}
    assert bare == {loss.partition("@")[0] for loss in smoke.losses}
    assert [find_protocol(each).rule for each in whole.protocols] == [
        find_protocol(each).rule for each in smoke.protocols
    ]
    assert all(
        plan.epochs[1] <= 2 * (plan.search_trials + plan.final_trials)
        for plan in count_cells(expand(smoke))
    )
    assert all(len(expand(smoke).splits("sketches", each)) <= 2 for each in smoke.protocols)
    for split in (
        split for each in smoke.protocols for split in expand(smoke).splits("sketches", each)
    ):
        if smoke.protocols == ("closed_set",):  # all classes, and again those of test images
            assert len(split.train) == len(split.test) == 80
            assert {label - 200 for label in split.test} == {*split.train}
            continue
        assert len(split.test) == 40
        assert {*split.train, *split.select} <= {*range(40), *split.test}


def test_a_smoke_study_holds_out_other_numbers_of_classes_for_every_ratio() -> None:
    smoke = resolve("thesis_split_ratio", smoke=True).config
    assert [len(expand(smoke).splits("sketches", each)[0].select) for each in smoke.protocols] == [
        12,
        8,
        4,
        2,
    ]


def test_a_smoke_study_keeps_a_tag_that_has_settings_of_its_own_and_merges_the_rest() -> None:
    values = {
        "losses": "triplet@a, triplet@b, triplet",
        "protocols": ["k_fold:10", "k_fold:5", "k_fold"],
        "settings": {"triplet@b": {}},
    }
    small = shrink(values)
    assert small["losses"] == ["triplet", "triplet@b"]
    assert small["protocols"] == ["k_fold:2"]
    assert small["folds"] == 2
    assert "losses" not in shrink({"losses": ["triplet"], "protocols": ["default"]})


@pytest.mark.parametrize(("cells", "own", "repeats"), [(8, 3, 2), (9, 3, 1), (1, 1, 1)])
@pytest.mark.parametrize("key", ["searches", "reproductions"])
def test_a_smoke_study_repeats_what_the_study_repeats_if_it_has_few_cells(
    cells: int, own: int, repeats: int, key: str
) -> None:
    small = shrink({"losses": list(LOSSES)[:cells], "protocols": ["default"], key: own})
    assert small[key] == repeats


def test_quickstart_is_the_comparison_that_the_readme_promises() -> None:
    config = make(quickstart())
    assert config.losses == THESIS_LOSSES
    assert config.protocols == ("default", "fixed_validation")
    assert config.val_fraction == 0.1
    assert config.searches == 3
    assert config.select_metric == "map_at_r"
    assert config.search_trials >= 8
    assert config.epochs >= 8
    assert len(expand(config).rungs) >= 2


def value(config: StudyConfig, key: str, **axes: Any) -> set[Any]:
    """Of all cells with these names."""
    plan = expand(config)
    cells = [
        cell
        for cell in plan.cells
        if all(getattr(cell, axis) == name for axis, name in axes.items())
    ]
    return {getattr(plan.for_cell(cell), key) for cell in cells}


@pytest.mark.parametrize(
    ("dataset", "backbone", "rate", "step", "gamma", "batch"),
    [("cub200", "resnet50", 1e-4, 5, 0.1, 100), ("cub200", "googlenet", 1e-4, 10, 0.1, 180),
     ("cars196", "bn_inception", 1e-4, 20, 0.1, 180), ("sop", "resnet50", 6e-4, 10, 0.25, 100),
     ("sop", "bn_inception", 6e-4, 20, 0.25, 180)],
)  # fmt: skip
def test_the_thesis_trains_as_its_table_3_says(
    dataset: str, backbone: str, rate: float, step: int, gamma: float, batch: int
) -> None:
    config = make(PRESETS["thesis_default"]())
    place = {"dataset": dataset, "backbone": backbone}
    assert value(config, "learning_rate", **place) == {rate}
    assert value(config, "lr_step", **place) == {step}
    assert value(config, "lr_gamma", **place) == {gamma}
    assert value(config, "batch_size", **place) == {batch}
    assert value(config, "epochs", **place) == {100}


@pytest.mark.parametrize("name", ["thesis_default", "thesis_own_loss"])
def test_the_thesis_draws_batches_as_its_text_says_and_ties_the_rate_of_proxies(name: str) -> None:
    config = make(PRESETS[name]())
    with (ROOT / "analysis" / "published" / "thesis_defaults.csv").open() as file:
        printed = {row["loss"]: (row["sampling"], row["mining"]) for row in csv.DictReader(file)}
    for loss, (sampling, mining) in printed.items():
        card = LOSSES[loss]
        (kind,) = {each or card.batches for each in value(config, "batches", loss=loss)}
        if loss == "lifted_structure":
            assert (mining, kind) == ("hard", "mined")
        elif loss == "n_pair":
            assert (kind, card.per_class) == ("balanced", 2)  # defined for pairs of each class
        else:
            assert kind == {"random": "random", "5 per class": "balanced"}[sampling]
    rates = {
        (dataset, loss): {
            rate * own
            for rate in value(config, "learning_rate", dataset=dataset, loss=loss)
            for own in value(config, "weights_rate", dataset=dataset, loss=loss)
        }
        for dataset in ("cub200", "sop")
        for loss in THESIS_TIED
        if loss in config.losses
    }
    for (dataset, _), found in rates.items():
        assert sorted(found) == pytest.approx([0.01 if dataset == "cub200" else 0.06])


def test_the_second_preset_of_the_thesis_has_the_batches_of_the_cards() -> None:
    config = make(PRESETS["thesis_balanced"]())
    assert value(config, "batches") == {None}
    assert value(config, "weights_rate") == {None}


def test_the_thesis_has_the_values_of_its_table_4() -> None:
    config = make(PRESETS["thesis_own_loss"]())
    plan = expand(config)
    assert plan.published("margin") == {
        "loss.margin": 0.5,
        "loss.beta": 1.2,
        "loss.weights_lr": 5e-5,
    }
    soft = plan.published("soft_triple")
    assert (soft["loss.margin"], soft["loss.alpha"], soft["loss.weights_lr"], soft["loss.tau"]) == (
        0.1,
        20,
        1e-4,
        0.2,
    )
    assert soft["loss.gamma"] == 0.1  # it prints the inverse
    assert plan.published("proxy_nca") == {"loss.weights_lr": 1e-5}


def test_the_ratios_of_table_14_hold_out_so_many_classes() -> None:
    config = make(PRESETS["thesis_split_ratio"]())
    assert [len(expand(config).splits("cub200", name)[0].select) for name in config.protocols] == [
        30,
        20,
        10,
        5,
    ]


def test_cross_validation_has_ten_models_and_searches_nothing() -> None:
    config = make(PRESETS["thesis_cross_validation"]())
    assert [plan.models for plan in count_cells(expand(config))] == [10, 10, 10]
    assert totals(expand(config), count_cells(expand(config)))["model_epochs"] == [3 * 100 * 10] * 2


def test_only_what_table_15_lists_is_swept_and_in_its_order() -> None:
    config = make(PRESETS["thesis_fixed_validation"]())
    plan = expand(config)
    swept = {
        loss: [key for key, param in plan.space(loss).items() if len(param.levels()) > 1]
        for loss in config.losses
    }
    with (ROOT / "analysis" / "published" / "thesis_search.csv").open() as file:
        printed = [(row["loss"], f"loss.{row['hyperparameter']}") for row in csv.DictReader(file)]
    assert [(loss, key) for loss in config.losses for key in swept[loss]] == printed
    assert plan.space("soft_triple")["loss.centers"].levels() == (10,)


def test_soft_triples_gamma_is_swept_in_the_thesiss_sense() -> None:
    config = make(PRESETS["thesis_fixed_validation"]())
    plan = expand(config)
    levels = plan.space("soft_triple")["loss.gamma"].levels()
    assert [1 / level for level in levels] == pytest.approx(
        [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
    )
    assert plan.published("soft_triple")["loss.gamma"] == levels[0]  # table 4's 10


def test_the_reality_check_trains_for_a_thousand_epochs_at_most_and_ends_by_patience() -> None:
    plan = expand(make(PRESETS["reality_check"]()))
    assert plan.rungs == []
    for cell in plan.cells:
        own = plan.for_cell(cell)
        assert (own.epochs, search_epochs(own), own.patience) == (1000, 1000, 10)
    assert any("11 epochs at the earliest" in notice for notice in notices(plan))


def test_the_reality_check_has_32_classes_of_one_image_or_8_of_four() -> None:
    config = make(PRESETS["reality_check"]())
    plan = expand(config)
    kinds = {cell: plan.for_cell(cell) for cell in plan.cells}
    classification = {cell.loss for cell, own in kinds.items() if own.images_per_class == 1}
    assert classification == {
        "proxy_nca_pml",
        "normalized_softmax",
        "cosface",
        "arcface",
        "soft_triple",
    }
    assert {(own.batches, own.batch_size, own.images_per_class) for own in kinds.values()} == {
        (None, 32, 4),
        ("balanced", 32, 1),
    }
    folds = plan.splits("cub200", config.protocols[0])
    assert [(fold.select[0], fold.select[-1]) for fold in folds] == [
        (0, 24),
        (25, 49),
        (50, 74),
        (75, 99),
    ]
    assert image_transform(config, "cub200", "bn_inception").image_size == 227


def test_the_reality_check_trains_as_its_released_configuration_says() -> None:
    """configs/config_optimizers/default.yaml of powerful-benchmarker, for trunk and embedder."""
    config = make(PRESETS["reality_check"]())
    assert (config.optimizer, config.learning_rate) == ("rmsprop", 1e-6)
    assert (config.weight_decay, config.momentum) == (1e-4, 0.9)


def test_the_tutorial_has_every_mining_swap_raw_vectors_and_its_other_losses() -> None:
    plan = expand(make(PRESETS["triplet_tutorial"]()))
    tried = {cell.loss: (plan.published(cell.loss), plan.for_cell(cell)) for cell in plan.cells}
    settings = {loss: setting for loss, (setting, _) in tried.items()}
    minings = {s["loss.mining"] for loss, s in settings.items() if loss.startswith("triplet_p")}
    assert minings == {"none", "easy", "semi_hard", "hard"}
    assert settings["triplet_p_norm@swap"]["loss.swap"] is True
    assert {loss for loss, (_, own) in tried.items() if own.normalize is False} == {
        "triplet_p_norm@raw"
    }
    assert settings["triplet_distance"]["loss.distance"] == "cosine"
    assert settings["triplet_distance"]["loss.margin"] == 0.2
    assert {"hinge_embedding", "nt_xent"} <= tried.keys()


def test_the_triplet_report_has_its_six_experiments() -> None:
    config = make(PRESETS["triplet_report"]())
    plan = expand(config)
    cells = {(cell.backbone, cell.loss[-1]): plan.for_cell(cell) for cell in plan.cells}
    assert {number for backbone, number in cells if backbone == "resnet34"} == set("1234")
    assert config.protocols == ("closed_set",)
    assert config.embedding_size == (512,)
    # 64 triplets are 192 images; each of the 5,994 train images of CUB's closed-set lists is an
    # anchor once: ceil(5994 / 64) steps.
    third, sixth = cells["resnet34", "3"], cells["resnet18", "6"]
    assert (third.epochs, third.learning_rate, third.batch_size, third.steps_per_epoch) == (
        20,
        0.001,
        3 * 64,
        94,
    )
    assert (sixth.epochs, sixth.learning_rate, sixth.batch_size, sixth.steps_per_epoch) == (
        60,
        0.001,
        3 * 64,
        94,
    )
    assert cells["resnet18", "2"].learning_rate == 0.002
    assert cells["resnet18", "1"].steps_per_epoch == 188


def test_generalization_keeps_what_train_recall_needs_and_measures_both_layers() -> None:
    config = make(PRESETS["generalization"]())
    assert config.keep_embeddings == "all"
    assert {"recall_at_1", "pooled_recall_at_1"} <= set(config.metrics)
    assert image_transform(config, "cub200", "resnet18").image_size == 256


def test_generalization_squeezes_images_into_a_square_as_its_paper_does() -> None:
    config = make(PRESETS["generalization"]())
    assert (config.resize, config.image_size, config.cache_size) == ("squash", 256, 256)
    assert "resize" not in GENERALIZATION_OURS


def test_smoke_replaces_every_place_where_a_study_may_name_its_own_data() -> None:
    assert {
        "dataset",
        "data_root",
        "train_classes",
        "test_classes",
        "exclude",
        "max_classes",
        "split_file",
        "where",
        "leave_out",
    } <= SMOKE.keys()
    assert (
        Cell("sketches", "small", 16, "triplet", "default")
        in expand(resolve("quickstart", smoke=True).config).cells
    )


@pytest.mark.parametrize(("backbone", "millions"), [("resnet18", 11.4), ("resnet34", 21.5)])
def test_the_triplet_reports_networks_have_as_many_parameters_as_it_prints(
    backbone: str, millions: float
) -> None:
    config = resolve("triplet_report").config
    network = build_network(
        backbone,
        3,
        head=HeadConfig(config.embedding_size[0]),
        pooling=config.pooling,
        weights=None,
        freeze_bn=config.freeze_bn,
        bf16=False,
        seed=0,
    )
    assert round(sum(weight.numel() for weight in network.parameters()) / 1e6, 1) == millions


def test_the_generalisation_papers_images_are_256_by_256_whatever_their_shape() -> None:
    config = resolve("generalization").config
    assert (config.resize, config.cache_size, config.image_size) == ("squash", 256, 256)
    assert config.center_crop == 1


def test_the_future_work_of_the_thesis_is_on_all_of_its_datasets_and_losses() -> None:
    config = resolve("fixed_validation_all").config
    assert config.dataset == THESIS_DATASETS
    assert set(config.losses) == set(LOSSES)
    plan = expand(resolve("thesis_next_loss").config)
    own = {cell.loss: plan.for_cell(cell) for cell in plan.cells}
    assert own["thesis_loss_2@both"].memory == own["thesis_loss_3@memory"].memory == 4096
    assert own["thesis_loss_2@mined"].batches == own["thesis_loss_2@both"].batches == "mined"
    assert (own["thesis_loss_2"].memory, own["thesis_loss_2"].batches) == (0, None)
