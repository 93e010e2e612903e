"""What the keys of a study amount to: its cells, their splits and spaces, and the spec of every trial."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any, Self

from search_spaces import Param, Value, find_card
from search_spaces.training import TRAINED, TRAINING
from study.budget import rungs, search_epochs
from study.keys import Keys
from study.protocols import Divides, check_splits, make_protocol
from study.splits import parse_splits
from study.strategies import STRATEGIES
from study.where import AXES, matches, values_for
from trainables.contract import (
    NOT_TRAINED,
    PCA,
    PEEKING,
    PIXELS,
    UNTRAINED,
    Cell,
    Design,
    FinalKind,
    Leaves,
    Look,
    Origin,
    Phase,
    Split,
    Training,
    TrialSpec,
)
from trainables.datasets.catalogue import DATASETS, halves, index
from trainables.networks.backbones import find_backbone
from trainables.networks.weights import IMAGENET, NONE
from trainables.versions import shared_code

RECALLS = "recalls"  # among metrics: recall at the dataset's own list of k


class Cells(Keys):
    """Nothing here is checked; StudyConfig does that."""

    def origin(self, dataset: str) -> Origin:
        if not DATASETS[dataset].needs_root:
            return Origin(dataset, exclude=self.exclude, max_classes=self.max_classes)
        return Origin(dataset, self.data_root, self.train_classes, self.test_classes, self.exclude, self.max_classes)

    def measured(self, dataset: str) -> tuple[str, ...]:
        """The metrics, with `recalls` spelled out."""
        recalls = [f"recall_at_{k}" for k in DATASETS[dataset].recalls]
        names = [part for name in self.metrics for part in (recalls if name == RECALLS else [name])]
        return tuple(dict.fromkeys(names))

    def look(self, dataset: str, backbone: str) -> Look:
        """The backbone's input size, unless the study says another or all images are smaller."""
        own = find_backbone(backbone).input_size
        size = own if backbone == PIXELS else self.image_size or own
        if not (self.image_size and backbone != PIXELS):
            size = min(size, DATASETS[dataset].side or size)
        return Look(**self._values(Look) | {"image_size": size})

    def _values(self, kind: Any) -> dict[str, Any]:
        """The keys of this study that are fields of a part of a spec."""
        return {field.name: getattr(self, field.name) for field in fields(kind)}

    def protocol(self, name: str, *, draw: int = 0) -> Divides:
        """draw: another division than the study's own."""
        return make_protocol(name, {**dict(self), "split_seed": self.split_seed + draw})

    def splits(self, dataset: str, protocol: str, *, draw: int = 0) -> tuple[Split, ...]:
        sides, divides = halves(self.origin(dataset)), self.protocol(protocol, draw=draw)
        if self.split_file and divides.rule != PEEKING:
            text = self._split_text(self.split_file)
            return parse_splits(text, self.split_file, dataset, protocol=protocol, divides=divides, halves=sides)
        splits = divides.splits(*sides)
        check_splits(splits, *sides, rule=divides.rule)
        return splits

    def _split_text(self, path: str) -> str:
        """Read once: a file that is changed under a study changes none of its trials."""
        if path not in self._files:
            try:
                self._files[path] = Path(path).read_text()
            except (OSError, UnicodeDecodeError) as error:
                why = error.strerror if isinstance(error, OSError) else "no text"
                raise ValueError(
                    f"split_file={path} cannot be read ({why}); every study writes such files into its splits folder."
                ) from None
        return self._files[path]

    def all_splits(self) -> Iterator[tuple[str, str, tuple[Split, ...]]]:
        """Dataset and protocol, with resplit also with each final seed's name: the class lists that trials of this study have."""
        for dataset, protocol in product(self.dataset, self.protocols):
            yield dataset, protocol, self.splits(dataset, protocol)
            for seed in self.final_seeds() if self.resplit else ():
                yield dataset, f"{protocol}-seed{seed}", self.splits(dataset, protocol, draw=seed - self.seed)

    def weight_files(self) -> list[str]:
        """That any cell starts from, without those that the authors of a backbone published: these have a checksum of their own."""
        every = {self.of(cell).weights for cell in self.cells()}
        return sorted(every - {IMAGENET, NONE})

    def axes(self) -> dict[str, tuple[Any, ...]]:
        return dict(zip(AXES, (self.dataset, self.backbone, self.embedding_size, self.losses, self.protocols), strict=True))

    def cells(self) -> list[Cell]:
        """dataset x backbone x embedding size x loss x protocol, in that order, without those that are left out."""
        every = [Cell(*parts) for parts in product(*self.axes().values())]
        return [cell for cell in every if not any(matches(entry, cell) for entry in self.leave_out)]

    def of(self, cell: Cell) -> Self:
        """The study as this cell has it: with what `where` puts in place."""
        return self.model_copy(update=values_for(self.where, cell)) if self.where else self

    def searched(self, cell: Cell) -> bool:
        return self.strategy != "fixed" and (self.peek_search or self.protocol(cell.protocol).searches)

    def published(self, loss: str) -> dict[str, Value]:
        """The published setting, with what `settings` puts in its place: flat keys."""
        own = {f"loss.{key}": value for key, value in {**find_card(loss).defaults, **self.settings.get(loss, {})}.items()}
        return own | {f"{TRAINED}{key}": getattr(self, key) for key in self.search_training}

    def space(self, loss: str) -> dict[str, Param]:
        """What a searcher may try for this loss: flat keys."""
        own = {f"loss.{key}": param for key, param in find_card(loss).params.items()}
        if self.grids == "published":
            start = self.published(loss)
            own = {key: param if param.grid else param.held(start[key]) for key, param in own.items()}
        if self.grid_levels:
            own = {key: param.thinned(self.grid_levels) for key, param in own.items()}
        return own | {f"{TRAINED}{key}": TRAINING[key] for key in self.search_training}

    def rungs(self) -> list[int]:
        return rungs(self)

    def trials(self, cell: Cell) -> tuple[int, int]:
        """How many search and final trials a cell has."""
        final = self.reproductions * len(self.final_kinds(cell)) * (1 + self.refits(cell))
        if not self.searched(cell):
            return 0, final
        space, first = self.space(cell.loss), self.published(cell.loss)
        return STRATEGIES[self.strategy].trials(space, first=first, budget=self.search_trials), final

    def final_kinds(self, cell: Cell) -> tuple[FinalKind, ...]:
        """What is trained with every final seed."""
        return ("final", "published") if self.published_too and self.searched(cell) else ("final",)

    def refits(self, cell: Cell) -> bool:
        """Whether each final trial is followed by one on all train classes; under default it was on all of them."""
        return self.refit and self.protocol(cell.protocol).rule != PEEKING

    def label(self, cell: Cell) -> str:
        """The cell's name without what is the same in all cells of this study."""
        axes = {"dataset": self.dataset, "backbone": self.backbone, "embedding_size": self.embedding_size}
        parts = [str(getattr(cell, axis)) for axis, values in axes.items() if len(values) > 1]
        if cell.loss in NOT_TRAINED:
            parts = [cell.dataset] * (len(self.dataset) > 1) + [cell.backbone]
        return "/".join([*parts, cell.loss] + ([cell.protocol] if cell.protocol in self.protocols else []))

    def spec(self, cell: Cell, phase: Phase, seed: int, setting: Mapping[str, Value], *, tuned: bool = False) -> TrialSpec:
        """One trial. A search trial's splits hold no test class, unless its protocol peeks."""
        splits = self.splits(cell.dataset, cell.protocol, draw=seed - self.seed if self.resplit else 0)
        if phase == "search" and self.protocol(cell.protocol).rule != PEEKING:
            splits = tuple(split.sealed() for split in splits)
        origin, own = self.origin(cell.dataset), self.of(cell)
        # Search trials are compared at the same epochs in all cells; final trials may have their own.
        epochs = search_epochs(self) if phase == "search" else own.epochs
        return TrialSpec(
            cell,
            phase,
            self.protocol(cell.protocol).rule,
            seed,
            origin=origin,
            fingerprint=index(origin).fingerprint,
            splits=splits,
            look=own.look(cell.dataset, cell.backbone),
            design=Design(**own._values(Design)),
            training=own._training(cell.dataset, epochs, setting),
            leaves=Leaves(last=self.last_too, embeddings=phase == "final" and self._keeps_embeddings(seed)),
            setting=dict(setting),
            tuned=tuned,
            code=shared_code(cell.loss, cell.backbone),
        )

    def spec_again(self, given: Mapping[str, Any]) -> TrialSpec:
        """The spec of a trial that a ledger tells of."""
        cell, seed, kind = Cell(**given["cell"]), given["seed"], given["name"].partition("-")[0]
        if cell.loss in NOT_TRAINED:
            return next(spec for spec in self.baseline_specs() if (spec.cell, spec.seed) == (cell, seed))
        spec = self.spec(cell, "search" if kind == "search" else "final", seed, given["setting"], tuned=given["tuned"])
        return self.refit_spec(spec, given["epochs"]) if kind.endswith("refit") else spec

    def refit_spec(self, final: TrialSpec, epochs: int) -> TrialSpec:
        """The same trial on all train classes, for so many epochs: nothing is held out, so nothing is chosen."""
        train, test = halves(self.origin(final.cell.dataset))
        training = replace(final.training, epochs=epochs)
        leaves = replace(final.leaves, last=False)
        return replace(final, rule="refit", splits=(Split(tuple(train), (), tuple(test)),), training=training, leaves=leaves)

    def _keeps_embeddings(self, seed: int) -> bool:
        return self.keep_embeddings == "all" or (self.keep_embeddings == "first" and seed == self.final_seeds()[0])

    def _training(self, dataset: str, epochs: int, setting: Mapping[str, Value]) -> Training:
        """The cell's, with what the setting puts in its place."""
        names = {key.removeprefix(TRAINED): value for key, value in setting.items() if key.startswith(TRAINED)}
        chosen = {name: type(getattr(self, name))(value) for name, value in names.items()}  # whole numbers are floats in a setting
        return Training(**self._values(Training) | chosen | {"metrics": self.measured(dataset), "epochs": epochs})

    def final_seeds(self) -> range:
        """None of them is the search's: the selected trial itself would be too good by luck."""
        return range(self.seed + 1, self.seed + 1 + self.reproductions)

    def baseline_cells(self) -> list[tuple[Cell, int]]:
        """With their seeds: raw pixels and a PCA of the network's features once, the network with a random head for every seed."""
        found: list[tuple[Cell, int]] = []
        networks = dict.fromkeys(replace(cell, loss=UNTRAINED, protocol="none") for cell in self.cells())
        seeds = self.final_seeds()
        for dataset in self.dataset:
            here = [cell for cell in networks if cell.dataset == dataset]
            parts = {
                PIXELS: [(Cell(dataset, PIXELS, 0, UNTRAINED, "none"), seeds[0])],
                UNTRAINED: list(product(here, seeds)),
                PCA: [(replace(cell, loss=PCA), seeds[0]) for cell in here],
            }
            found += [baseline for name, part in parts.items() if name in self.baselines for baseline in part]
        return found

    def baseline_specs(self) -> Iterator[TrialSpec]:
        """Scored on the test classes: nothing is chosen."""
        for cell, seed in self.baseline_cells():
            train, test = halves(self.origin(cell.dataset))
            split = Split(train if cell.loss == PCA else (), test, test)
            spec = self.spec(replace(cell, protocol="default"), "final", seed, {})
            training = replace(spec.training, epochs=0)
            leaves = Leaves(last=False, embeddings=False)
            yield replace(spec, cell=cell, rule="untrained", splits=(split,), training=training, leaves=leaves)
