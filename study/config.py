"""StudyConfig: what a study is, frozen and fully checked before anything starts."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches
from itertools import pairwise, product
from typing import Annotated, Any, Self, cast
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from search_spaces import LOSSES, Range, pick
from study.protocols import PROTOCOLS, Divides
from study.strategies import STRATEGIES
from trainables.backbones import BACKBONES
from trainables.contract import PIXELS, UNTRAINED, Cell, Phase, Split, Training, TrialSpec
from trainables.datasets import DATASETS
from trainables.metrics import check_metric


def _several(value: Any) -> Any:
    """One value, 'a,b' from the command line, or a list."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value if isinstance(value, (list, tuple)) else (value,)


Names = Annotated[tuple[str, ...], BeforeValidator(_several), Field(min_length=1)]
Sizes = Annotated[tuple[Annotated[int, Field(gt=0)], ...], BeforeValidator(_several), Field(min_length=1)]


class StudyConfig(BaseModel):
    """Every key of a study. A value or a list where several make sense; the cells are their product."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$", description="the study's folder and its MLflow experiment")

    dataset: Names = Field(description="one or several of `fairtrial list datasets`")
    backbone: Names = Field(description="one or several of `fairtrial list backbones`")
    embedding_size: Sizes = Field(description="dimensions of the embedding")
    losses: Names = Field(description="the losses to compare")
    protocols: Names = Field(description="how classes are divided, and so how numbers are chosen")
    settings: dict[str, dict[str, float]] = Field({}, description="by loss: values in place of the published ones")
    val_fraction: float = Field(0.1, gt=0, lt=1, description="fixed_validation: share of the train classes held out")
    split_seed: int = Field(0, ge=0, description="fixed_validation: which classes are held out")

    strategy: str = Field("hyperopt", description="who proposes settings")
    search_trials: int = Field(8, ge=1, description="settings tried per searched cell; the first is the published one")
    grace: int = Field(2, ge=1, description="epochs before early stopping may end a search trial")
    reduction: int = Field(2, ge=2, description="of the trials at a rung, one in this many goes on")
    seeds: int = Field(3, ge=1, description="final trials per cell")
    seed: int = Field(0, ge=0, description="of searchers and search trials; final trials have the seeds after it")
    baselines: bool = Field(True, description="score raw pixels and the untrained network too")

    epochs: int = Field(ge=1)
    batch_size: int = Field(ge=2, description="images per step, over all workers")
    images_per_class: int = Field(ge=2, description="in a balanced batch")
    steps_per_epoch: int | None = Field(None, ge=1, description="empty: ceil(train images / batch_size)")
    learning_rate: float = Field(gt=0)
    weight_decay: float = Field(0, ge=0)
    lr_step: int = Field(ge=1, description="epochs between two decays")
    lr_gamma: float = Field(gt=0, le=1, description="factor of each decay")
    warm_up: int = Field(0, ge=0, description="epochs in which only head and loss learn")
    max_shift: int = Field(0, ge=0, description="augmentation: pixels, any direction")
    flip: bool = Field(False, description="augmentation: mirror half of the images")
    metrics: Names = Field(("recall_at_1", "map_at_r"), description="measured on select and test classes")
    select_metric: str = Field("recall_at_1", description="chooses epochs and settings")

    slots: int | None = Field(None, ge=1, description="trials at a time; empty: one per CPU of the cluster")
    studies: str = Field("studies", description="folder for studies and the embedded MLflow")
    tracking_uri: str | None = Field(None, description="an MLflow server; empty: SQLite in the studies folder")

    @field_validator("losses", "dataset", "backbone", "protocols", "metrics")
    @classmethod
    def _no_twins(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) < len(names):
            raise ValueError(f"Each name stands once, but got {', '.join(names)}.")
        return names

    @field_validator("name")
    @classmethod
    def _not_ours(cls, name: str) -> str:
        if name in ("mlflow.db", "mlartifacts"):
            raise ValueError(f"The studies folder keeps its own {name}; choose another name.")
        return name

    @field_validator("tracking_uri")
    @classmethod
    def _known_scheme(cls, uri: str | None) -> str | None:
        if uri:
            urlsplit(uri)  # a ValueError says what is wrong with a malformed one
        if uri and not uri.startswith(("http://", "https://", "sqlite:///", "postgresql://", "mysql://")):
            raise ValueError(
                "tracking_uri starts with http://, https://, sqlite:///, postgresql:// or mysql://, or is empty for the embedded store."
            )
        return uri

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        for names, table, what in (
            (self.dataset, DATASETS, "dataset"),
            (self.backbone, {k: v for k, v in BACKBONES.items() if v.head}, "backbone"),
            (self.losses, LOSSES, "loss"),
            (self.protocols, PROTOCOLS, "protocol"),
            ((self.strategy,), STRATEGIES, "strategy"),
        ):
            for name in names:
                pick(table, name, what)
        for name in (*self.metrics, self.select_metric):
            check_metric(name)
        if not {"recall_at_1", "map_at_r"} <= set(self.metrics):
            raise ValueError(f"metrics must hold recall_at_1 and map_at_r, which rank the losses, but got {', '.join(self.metrics)}.")
        if self.select_metric not in self.metrics:
            raise ValueError(f"select_metric={self.select_metric} must be measured; add it to metrics ({', '.join(self.metrics)}).")
        return self

    @model_validator(mode="after")
    def _check_settings(self) -> Self:
        for loss, values in self.settings.items():
            card = pick(LOSSES, loss, "loss")
            for key, value in values.items():
                param = pick(card.params, key, f"parameter of {loss}")
                if value not in param.domain:
                    raise ValueError(f"{loss}'s {key} is defined from {param.domain}, but got {value:g}; its paper has {param.paper:g}.")
                if self.strategy != "fixed" and value not in param.search:
                    raise ValueError(
                        f"{loss}'s {key} is searched from {param.search}, but would start at {value:g}; "
                        "start inside, or set strategy=fixed."
                    )
        return self

    @model_validator(mode="after")
    def _check_numbers(self) -> Self:
        """Against each other and against the data."""
        if self.batch_size % self.images_per_class:
            near = max(1, round(self.batch_size / self.images_per_class)) * self.images_per_class
            raise ValueError(f"batch_size={self.batch_size} must be a multiple of images_per_class={self.images_per_class}; use {near}.")
        if self.warm_up >= self.epochs:
            raise ValueError(f"warm_up={self.warm_up} must end before the last of epochs={self.epochs}.")
        for dataset, name in product(self.dataset, self.protocols):
            for split in self.splits(dataset, name):
                wanted = self.batch_size // self.images_per_class
                if wanted < 2:
                    raise ValueError(f"A batch needs two classes or more; use images_per_class={self.batch_size // 2} or less.")
                if wanted > len(split.train):
                    raise ValueError(
                        f"A batch of {self.batch_size} with {self.images_per_class} per class needs {wanted} classes, but {dataset} under "
                        f"{name} trains on {len(split.train)}; use batch_size={len(split.train) * self.images_per_class} or less."
                    )
        return self

    def protocol(self, name: str) -> Divides:
        kind = PROTOCOLS[name]
        return kind(**{field.name: getattr(self, field.name) for field in fields(kind)})

    def splits(self, dataset: str, protocol: str) -> tuple[Split, ...]:
        source = DATASETS[dataset]
        return self.protocol(protocol).splits(source.train, source.test)

    def cells(self) -> list[Cell]:
        """dataset x backbone x embedding size x loss x protocol, in that order."""
        return [Cell(*parts) for parts in product(self.dataset, self.backbone, self.embedding_size, self.losses, self.protocols)]

    def searched(self, cell: Cell) -> bool:
        return self.strategy != "fixed" and self.protocol(cell.protocol).searches

    def published(self, loss: str) -> dict[str, float]:
        """The published setting, with what `settings` puts in its place: flat keys."""
        return {f"loss.{key}": cast("float", value) for key, value in {**LOSSES[loss].defaults, **self.settings.get(loss, {})}.items()}

    def space(self, loss: str) -> dict[str, Range]:
        """What a searcher may try for this loss: flat keys."""
        return {f"loss.{key}": cast("Range", param.search) for key, param in LOSSES[loss].params.items()}

    def rungs(self) -> list[int]:
        """Epochs at which early stopping may end a search trial."""
        count = 0
        while self.grace * self.reduction**count < self.epochs:
            count += 1
        return [self.grace * self.reduction**i for i in range(count)]

    def expected_search_epochs(self) -> float:
        """Of one search trial, if at every rung one in `reduction` goes on."""
        stops = [*self.rungs(), self.epochs]
        return stops[0] + sum((b - a) / float(self.reduction ** (i + 1)) for i, (a, b) in enumerate(pairwise(stops)))

    def trials(self, cell: Cell) -> tuple[int, int]:
        """How many search and final trials a cell has."""
        return (self.search_trials if self.searched(cell) else 0), self.seeds

    def label(self, cell: Cell) -> str:
        """The cell's name without what is the same in all cells of this study."""
        axes = {"dataset": self.dataset, "backbone": self.backbone, "embedding_size": self.embedding_size}
        parts = [str(getattr(cell, axis)) for axis, values in axes.items() if len(values) > 1]
        if cell.loss == UNTRAINED:
            parts = [cell.dataset] * (len(self.dataset) > 1) + [cell.backbone]
        return "/".join([*parts, cell.loss] + ([cell.protocol] if cell.protocol in self.protocols else []))

    def training(self, **changes: Any) -> Training:
        return Training(**({field.name: getattr(self, field.name) for field in fields(Training)} | changes))

    def spec(self, cell: Cell, phase: Phase, seed: int, setting: Mapping[str, float]) -> TrialSpec:
        """One trial. A search trial's splits hold no test class."""
        splits = self.splits(cell.dataset, cell.protocol)
        if phase == "search":
            splits = tuple(split.sealed() for split in splits)
        rule = self.protocol(cell.protocol).rule
        return TrialSpec(cell, phase, rule, seed, splits, self.training(), dict(setting))

    def final_seeds(self) -> range:
        """None of them is the search's: the selected trial itself would be too good by luck."""
        return range(self.seed + 1, self.seed + 1 + self.seeds)

    def baseline_specs(self) -> Iterator[TrialSpec]:
        """Raw pixels once and the untrained network for every seed, scored on the test classes: nothing is chosen."""
        if not self.baselines:
            return
        untrained = self.training(epochs=0)
        for dataset in self.dataset:
            test = DATASETS[dataset].test
            splits = (Split((), test, test),)
            yield TrialSpec(Cell(dataset, PIXELS, 0, UNTRAINED, "none"), "final", "untrained", self.final_seeds()[0], splits, untrained)
            for backbone, size in product(self.backbone, self.embedding_size):
                cell = Cell(dataset, backbone, size, UNTRAINED, "none")
                for seed in self.final_seeds():
                    yield TrialSpec(cell, "final", "untrained", seed, splits, untrained)


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
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return f"The key '{key}' has no value; a study needs one."
    return message if first["type"] == "value_error" else f"{key}={first['input']!r}: {message}."
