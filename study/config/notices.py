"""Tell a reader of a plan what to know although nothing is wrong."""

from itertools import product

from search_spaces import find_card
from study.config.plan import StudyPlan
from study.config.protocols import find_protocol
from study.config.study_config import StudyConfig
from trainables.contract import FEW_CLASSES, PEEKING, Cell
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
    found += _few_classes(plan)
    if config.max_classes:
        found.append(
            f"max_classes={config.max_classes}: fewer classes are easier, so no number of this "
            f"study compares with others."
        )
    return found + _weights(plan)


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
        if find_protocol(protocol).rule != PEEKING
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
