"""StudyConfig: what a study is, frozen and fully checked before anything starts."""

from collections.abc import Mapping
from difflib import get_close_matches
from itertools import product
from typing import Any, Self

from pydantic import ValidationError, model_validator

from search_spaces import LOSSES, LossSpace, find_card, pick, text
from study.budget import check_search, search_epochs
from study.cells import RECALLS, Cells
from study.keys import Keys
from study.protocols import FixedValidation, find_protocol
from study.strategies import STRATEGIES
from study.where import AXES, check_entries, check_matches, check_rest, values_of, with_axes
from trainables.contract import PEEKING, Cell
from trainables.datasets.catalogue import DATASETS
from trainables.metrics.retrieval import check_metric
from trainables.networks.backbones import POOLINGS, find_backbone
from trainables.networks.weights import check_weights
from trainables.optimiser import OPTIMISERS


class StudyConfig(Cells):
    """A study whose every name and number was checked, against each other and against the data too."""

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        for names, table, what in (
            (self.dataset, DATASETS, "dataset"),
            ((self.strategy,), STRATEGIES, "strategy"),
        ):
            for name in names:
                pick(table, name, what)
        for name in self.protocols:
            find_protocol(name)
        for name in self.losses:
            find_card(name)
        for name in self.backbone:
            if not find_backbone(name).head:
                raise ValueError(f"{name} cannot be trained; every study has it as a baseline already.")
            check_weights(name, self.weights)
        return self

    @model_validator(mode="after")
    def _check_metrics(self) -> Self:
        for name in {*self.metrics, self.select_metric} - {RECALLS}:
            check_metric(name)
        if self.select_metric.endswith("negative_cosine"):
            raise ValueError(f"The largest {self.select_metric} is the worst; choose a select_metric that grows as networks get better.")
        for dataset in self.dataset:
            measured = self.measured(dataset)
            if not {"recall_at_1", "map_at_r"} <= set(measured):
                raise ValueError(f"metrics must hold recall_at_1 and map_at_r, which rank the losses, but got {', '.join(self.metrics)}.")
            if self.select_metric not in measured:
                raise ValueError(f"select_metric={self.select_metric} must be measured; add it to metrics ({', '.join(self.metrics)}).")
        return self

    @model_validator(mode="after")
    def _check_settings(self) -> Self:
        for loss, values in self.settings.items():
            card = find_card(loss)
            if loss not in self.losses:
                raise ValueError(f"settings has values for {loss}, which is not among the losses of this study; add it, or leave them out.")
            for key, value in values.items():
                param = pick(card.params, key, f"parameter of {loss}")
                if value not in param.domain:
                    near = text(param.domain.nearest(value))
                    paper = text(param.paper)
                    raise ValueError(f"{loss}'s {key} is {param.domain}, but got {text(value)}; use {near}, or its default {paper}.")
                if self.strategy != "fixed" and value not in param.search:
                    raise ValueError(
                        f"{loss}'s {key} is searched in {param.search}, but would start at {text(value)}; "
                        f"start at {text(param.search.nearest(value))}, or set strategy=fixed."
                    )
        return self

    @model_validator(mode="after")
    def _check_where(self) -> Self:
        for key in ("where", "leave_out"):
            entries = tuple(with_axes(entry) for entry in getattr(self, key))
            check_entries(entries, self.axes(), key=key, known=StudyConfig.model_fields)
            object.__setattr__(self, key, tuple(self._typed(entry) for entry in entries))  # as the keys of these names have it
        check_rest(self.axes(), self.cells())
        check_matches(self.where, self.cells(), key="where")
        for name in self.search_training:
            if any(name in entry for entry in self.where):
                raise ValueError(f"A search of {name} starts at one value in all cells, so where cannot have it; leave it out there.")
        return self

    def _typed(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        values = values_of(entry)
        try:
            checked = Keys(**{**dict(self), "where": (), "leave_out": (), **values})
        except ValidationError as error:
            raise ValueError(f"In where, {_sentence(error)}") from None
        return {key: entry[key] if key in AXES else getattr(checked, key) for key in entry}

    @model_validator(mode="after")
    def _check_numbers(self) -> Self:
        """Against each other and against the data; those that depend on the cell, in every cell."""
        for cell in self.cells():
            own = self.of(cell)
            own._check_training()
            own._check_batch(cell.loss, find_card(cell.loss))
            own._check_look(cell.dataset, cell.backbone)
            if self.searched(cell) and self.where:
                check_search(own.model_copy(update={"search_epochs": search_epochs(self)}))
        check_search(self)
        for key in ("data_root", "train_classes", "test_classes"):
            if getattr(self, key) and not any(DATASETS[name].needs_root for name in self.dataset):
                raise ValueError(f"{key} is for image_folder and csv, not for {', '.join(self.dataset)}; leave it out.")
        if self.exclude and len(self.dataset) > 1:
            raise ValueError("exclude names files of one dataset, but the study has several; run them as studies of their own.")
        self._check_division()
        return self

    def _check_division(self) -> None:
        """A file is one dataset's under one protocol; resplit needs something that is drawn."""
        honest = [name for name in self.protocols if find_protocol(name).rule != PEEKING]
        if self.split_file and (len(honest) > 1 or len(self.dataset) > 1):
            several = ", ".join(honest if len(honest) > 1 else self.dataset)
            raise ValueError(f"A split_file divides one dataset for one protocol, but the study has {several}; make a study of each.")
        if self.resplit and self.split_file:
            raise ValueError("resplit draws a split for each final trial, but split_file gives the one for all; leave out one of them.")
        if self.resplit and not any(find_protocol(name) is FixedValidation or self.fold_order == "shuffled" for name in honest):
            raise ValueError(
                f"resplit draws a split for each final trial, but {', '.join(self.protocols)} draws none "
                f"(fold_order={self.fold_order}); leave it out, or use fixed_validation or fold_order=shuffled."
            )
        for dataset, name in product(self.dataset, self.protocols):
            self.splits(dataset, name)

    def _check_training(self) -> None:
        pick(POOLINGS, self.pooling, "pooling")
        pick(OPTIMISERS, self.optimizer, "optimizer")
        if self.batch_size % self.images_per_class:
            near = max(1, round(self.batch_size / self.images_per_class)) * self.images_per_class
            raise ValueError(f"batch_size={self.batch_size} must be a multiple of images_per_class={self.images_per_class}; use {near}.")
        if self.warm_up >= self.epochs:
            raise ValueError(f"warm_up={self.warm_up} must end before the last of epochs={self.epochs}.")
        if self.batch_size // self.images_per_class < 2:
            raise ValueError(f"A batch needs two classes or more; use images_per_class={self.batch_size // 2} or less.")
        if self.batch_size < 2 * self.workers:
            raise ValueError(f"Each of workers={self.workers} needs two images of a batch or more; use batch_size={2 * self.workers}.")

    def _check_look(self, dataset: str, backbone: str) -> None:
        size = self.look(dataset, backbone).image_size
        if self.crop_scale[1] > 1:
            raise ValueError(f"crop_scale is a share of the image's area, 1 at most, but got {self.crop_scale[1]:g}.")
        if self.crop == "shifted" and self.max_shift >= size:
            raise ValueError(f"max_shift={self.max_shift} would move images of {size} pixels out of sight; use {size // 4} or less.")
        if not DATASETS[dataset].pixels and size > self.cache_size:
            raise ValueError(f"cache_size={self.cache_size} must not be below image_size={size}; use cache_size={-(-size * 8 // 7)}.")

    def _check_batch(self, loss: str, card: LossSpace) -> None:
        kind = self.batches or card.batches
        if self.images_per_class < 2 and kind in ("balanced", "mined") and card.kind in ("pair", "triplet") and not card.per_class:
            raise ValueError(f"{loss} compares images of one class, but images_per_class={self.images_per_class}; use 2 or more.")
        if kind == "triplets" and self.batch_size < 6:
            raise ValueError(f"{loss} takes batches of triplets, two at least, but got batch_size={self.batch_size}; use 6 or more.")
        if kind in ("balanced", "mined") and card.per_class and self.batch_size % card.per_class:
            near = max(2, round(self.batch_size / card.per_class)) * card.per_class
            raise ValueError(f"{loss} is defined for {card.per_class} images of each class, but batch_size={self.batch_size}; use {near}.")
        if self.memory and not card.memory:
            able = ", ".join(name for name, each in LOSSES.items() if each.memory)
            raise ValueError(f"memory={self.memory} is for losses over tuples without a miner, not {loss}; leave it out, or take {able}.")
        if 0 < self.memory < self.batch_size:
            raise ValueError(f"memory={self.memory} must hold a batch at least; use {self.batch_size} or more.")
        if card.batches == "triplets" != kind:
            raise ValueError(f"{loss} reads its batches as anchor, positive, negative; batches={kind} does not hold them: leave it out.")
        if card.per_class and kind != "balanced":
            raise ValueError(f"{loss} is defined for {card.per_class} images of each class, which batches={kind} lacks: leave it out.")

    def notices(self) -> list[str]:
        """What a reader should know though nothing is wrong."""
        fewest = {
            (dataset, name): min(len(split.train) for split in self.splits(dataset, name))
            for dataset, name in product(self.dataset, self.protocols)
        }
        found = [notice for cell in self.cells() for notice in self.of(cell)._notices_of(cell, fewest[cell.dataset, cell.protocol])]
        found = list(dict.fromkeys(found))
        counts = {self.label(cell): self.trials(cell)[0] for cell in self.cells()}
        found += [
            f"{label}: {self.strategy} tries {count:,} settings, whatever search_trials says."
            for label, count in counts.items()
            if count not in (0, self.search_trials)
        ]
        if self.max_classes:
            found.append(f"max_classes={self.max_classes}: fewer classes are easier, so no number of this study compares with others.")
        scratch = [name for name in self.backbone if self.weights == "none" and find_backbone(name).weights]
        return found + [f"{name} starts from random weights (weights=none); papers start from weights=imagenet." for name in scratch]

    def _notices_of(self, cell: Cell, classes: int) -> list[str]:
        """classes: that it trains on at least."""
        found = []
        if self.batch_size // self.images_per_class > classes:
            found.append(
                f"{cell.dataset} has {classes} classes to train on under {cell.protocol}: a balanced batch holds "
                f"{classes * self.images_per_class} images, not {self.batch_size}."
            )
        own = find_card(cell.loss).per_class
        if own and own != self.images_per_class:
            found.append(f"{cell.loss} is defined for {own} images of each class and takes {own}, whatever images_per_class says.")
        if self.workers > 1 and not self.freeze_bn and find_backbone(cell.backbone).batch_norm:
            found.append(
                f"Batch norm in {cell.backbone} sees each worker's part of a batch only; with freeze_bn=true any number of workers agree."
            )
        return found


def make(values: Mapping[str, Any]) -> StudyConfig:
    """A StudyConfig, or one ValueError that says law, fact and cure."""
    for key in values:
        if key not in StudyConfig.model_fields:
            near = get_close_matches(key, StudyConfig.model_fields, n=1, cutoff=0.5)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            hint = f" A loss's own values stand under settings.{key}." if key in LOSSES else hint
            raise ValueError(f"Unknown key '{key}'.{hint} `fairtrial config keys` lists all.")
    try:
        return StudyConfig(**values)
    except ValidationError as error:
        raise ValueError(_sentence(error)) from None


def _sentence(error: ValidationError) -> str:
    """pydantic's first complaint as one sentence."""
    first = error.errors()[0]
    message = first["msg"].removeprefix("Value error, ")
    key = ".".join(str(part) for part in first["loc"][:3])
    if first["loc"][:1] == ("settings",) and len(first["loc"]) > 3:  # one complaint for each type that a value may have
        return f"{key}={first['input']!r}: a finite number, true, false or a name is needed."
    if first["type"] == "missing":
        return f"The key '{key}' has no value; a study needs one."
    return message if first["type"] == "value_error" else f"{key}={first['input']!r}: {message}."
