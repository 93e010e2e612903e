"""Tell a reader of a plan what to know although nothing is wrong."""

from itertools import product

from search_spaces import find_card
from study.config.plan import StudyPlan
from study.config.protocols import find_protocol
from study.config.study_config import StudyConfig
from trainables.contract import FEW_CLASSES, Cell, is_closed_set
from trainables.networks.backbones import find_backbone
from trainables.networks.weights import NONE


def notices(plan: StudyPlan) -> list[str]:
    """Return what a reader should know although nothing is wrong."""
    config = plan.config
    fewest = {
        (dataset, name): min(len(split.train) for split in plan.splits(dataset, name))
        for dataset, name in product(config.dataset, config.protocols)
    }
    found = [
        notice
        for cell in plan.cells
        for notice in _cell_notices(plan.for_cell(cell), cell, fewest[cell.dataset, cell.protocol])
    ]
    found = list(dict.fromkeys(found))
    counts = {plan.label(cell): plan.search_trials(cell) for cell in plan.cells}
    found += [
        f"{label}: {config.strategy} tries {count:,} settings, whatever search_trials says."
        for label, count in counts.items()
        if count not in (0, config.search_trials)
    ]
    found += _labels(plan) + _closed(plan) + _patience(plan) + _few_classes(plan)
    if config.max_classes:
        found.append(
            f"max_classes={config.max_classes}: fewer classes are easier, so no number of this "
            f"study compares with others."
        )
    return found + _weights(plan)


def _labels(plan: StudyPlan) -> list[str]:
    """Say which losses see a share of the labels, and which also see the images without one."""
    by_share: dict[float, list[str]] = {}
    for cell in plan.cells:
        share = plan.for_cell(cell).label_fraction
        if share < 1 and cell.loss not in by_share.setdefault(share, []):
            by_share[share].append(cell.loss)
    every = [loss for losses in by_share.values() for loss in losses]
    able = ", ".join(loss for loss in every if find_card(loss).unlabelled)
    others = f"; with random batches, {able} also learn from the others' images" if able else ""
    return [
        f"label_fraction={share:g}: {', '.join(losses)} see the labels of so many images of each "
        f"train class, at least two{others}."
        for share, losses in by_share.items()
    ]


def _closed(plan: StudyPlan) -> list[str]:
    """Say what no number of a closed set compares with."""
    return [
        f"{name}: train and test images share their classes, nothing is held out, and the last "
        f"epoch counts; every number is marked ‡ and compares with no class-disjoint number."
        for name in plan.config.protocols
        if is_closed_set(name)
    ]


def _patience(plan: StudyPlan) -> list[str]:
    """Say that trials may be shorter than a plan counts."""
    ends = {own.patience: own for own in map(plan.for_cell, plan.cells) if own.patience}
    return [
        f"patience={patience} ends a trial whose selection score has not grown for so many epochs, "
        f"{own.warm_up + patience + 1} epochs at the earliest: epochs, hours and disk above are "
        f"upper bounds."
        for patience, own in ends.items()
    ]


def _weights(plan: StudyPlan) -> list[str]:
    """Say which backbone starts at random although it need not, and what a file cannot show."""
    config = plan.config
    found = [
        f"{name} starts from random weights (weights=none); papers start from weights=pretrained."
        for name in config.backbone
        if config.weights == NONE and find_backbone(name).weights
    ]
    # Batch norm's stored statistics do not give moved strides away: other images differ more.
    return found + [
        f"{file}: names and shapes of its tensors are checked, but strides and input normalisation "
        f"are not in a file; if the pooled baseline is lower than expected, the file may be of "
        f"another variant of {' or '.join(config.backbone)}."
        for file in plan.weight_files()
    ]


def _few_classes(plan: StudyPlan) -> list[str]:
    """Warn of validation on so few classes that it chooses nearly at random."""
    fewest = {
        (dataset, protocol): min(len(split.select) for split in splits)
        for dataset, protocol, _, splits in plan.all_splits()
        if find_protocol(protocol).searches
    }
    return [
        f"WARNING: {protocol} validates on {count} classes of {dataset}, but fewer than "
        f"{FEW_CLASSES} choose settings and epochs nearly at random; hold out more."
        for (dataset, protocol), count in fewest.items()
        if count < FEW_CLASSES
    ]


def _cell_notices(own: StudyConfig, cell: Cell, classes: int) -> list[str]:
    """Return the notices of one cell.

    own: the config as the cell has it; classes: the fewest that a split trains on.
    """
    found = []
    if own.batch_size // own.images_per_class > classes:
        found.append(
            f"{cell.dataset} has {classes} classes to train on under {cell.protocol}: a "
            f"balanced batch holds "
            f"{classes * own.images_per_class} images, not {own.batch_size}."
        )
    fixed = find_card(cell.loss).per_class
    if fixed and fixed != own.images_per_class:
        found.append(
            f"{cell.loss} is defined for {fixed} images of each class and takes {fixed}, whatever "
            f"images_per_class says."
        )
    if own.workers > 1 and not own.freeze_bn and find_backbone(cell.backbone).batch_norm:
        found.append(
            f"Batch norm in {cell.backbone} sees each worker's part of a batch only; with "
            f"freeze_bn=true any number of workers agree."
        )
    return found
