"""Expand a config into the plan of a study: cells, splits, search spaces and trial specs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

from analysis.record.trial_id import Role, TrialId
from search_spaces import Param, Value, find_card
from search_spaces.training import TRAINED, TRAINING
from study.config import budget
from study.config.cells import (
    dataset_ref,
    for_cell,
    image_transform,
    is_searched,
    list_baselines,
    list_cells,
    make_splits,
    make_training,
    values_of_fields,
)
from study.config.protocols import find_protocol
from study.config.seeds import first_seeds, replicate_of, split_seed
from study.config.study_config import StudyConfig
from study.strategies.catalogue import STRATEGIES
from trainables.contract import (
    CLOSED,
    NOT_TRAINED,
    PEEKING,
    Cell,
    DatasetRef,
    FinalKind,
    ModelConfig,
    Outputs,
    Phase,
    Split,
    TrialSpec,
)
from trainables.datasets.indexing import halves, index
from trainables.networks.weights import NAMED, NONE
from trainables.workers.versions import shared_code

Splits = tuple[Split, ...]


def expand(config: StudyConfig) -> "StudyPlan":
    """Return the plan of a study.

    It reads the split file once, so a file that changes later changes no trial.
    """
    every = product(config.dataset, config.protocols, range(1, config.searches + 1))
    drawn = {
        (dataset, protocol, replicate): make_splits(config, dataset, protocol, replicate=replicate)
        for dataset, protocol, replicate in every
    }
    return StudyPlan(config, list_cells(config), drawn)


@dataclass(frozen=True, eq=False)
class StudyPlan:
    """Hold a config with everything that follows from it. Nothing here writes, trains or starts
    Ray.
    """

    config: StudyConfig
    cells: tuple[Cell, ...]  # dataset x backbone x embedding size x loss x protocol
    drawn: Mapping[tuple[str, str, int], Splits]  # by dataset, protocol and replicate

    @cached_property
    def rungs(self) -> list[int]:
        """Return the epochs at which early stopping may end a search trial."""
        return budget.rungs(self.config)

    @property
    def replicates(self) -> range:
        """Return the replicates of the whole pipeline, shared by all losses and setups."""
        return range(1, self.config.searches + 1)

    def search_seed(self, replicate: int) -> int:
        """Return the seed of a replicate's searchers and search trials."""
        return first_seeds(self.config.seed, self.config.searches)[replicate - 1]

    def final_seeds(self, replicate: int) -> range:
        """Return the seeds of a replicate's final trials.

        None is the search's own: the selected trial itself would be too good by luck.
        """
        first = self.search_seed(replicate) + 1
        return range(first, first + self.config.reproductions)

    def all_final_seeds(self) -> list[int]:
        """Return the seeds of the final trials of all replicates."""
        return [seed for replicate in self.replicates for seed in self.final_seeds(replicate)]

    def replicate_of(self, seed: int) -> int:
        """Return the replicate that a trial with this seed belongs to."""
        return replicate_of(seed, first_seeds(self.config.seed, self.config.searches))

    def trial_id(self, cell: Cell, role: Role, seed: int, *, round: int = 1) -> TrialId:
        """Return the identity of a trial that is not a search trial."""
        replicate = self.replicate_of(seed)
        number = seed - self.search_seed(replicate) + self.config.seed
        return TrialId(cell, role, number, replicate=replicate, round=round)

    def for_cell(self, cell: Cell) -> StudyConfig:
        """Return the config as this cell has it: with the values of `where`."""
        return for_cell(self.config, cell)

    def dataset_ref(self, dataset: str) -> DatasetRef:
        """Return where the dataset is and which of its classes and images the study uses."""
        return dataset_ref(self.config, dataset)

    def splits(self, dataset: str, protocol: str, *, replicate: int = 1) -> Splits:
        """Return the splits of a dataset in one replicate."""
        found = self.drawn.get((dataset, protocol, replicate))
        return found or make_splits(self.config, dataset, protocol, replicate=replicate)

    def all_splits(self) -> Iterator[tuple[str, str, int, Splits]]:
        """Yield dataset, protocol, replicate and class lists, without those of further replicates
        that divide the classes as the first does.
        """
        for (dataset, protocol, replicate), splits in self.drawn.items():
            if replicate == 1 or splits != self.drawn[dataset, protocol, 1]:
                yield dataset, protocol, replicate, splits

    def weight_files(self) -> list[str]:
        """Return the weight files that any cell starts from.

        Those that ship or that a backbone's authors published have checksums, and are left out.
        """
        every = {self.for_cell(cell).weights for cell in self.cells}
        return sorted(every - {*NAMED, NONE})

    def searched(self, cell: Cell) -> bool:
        """Return whether the study searches settings for this cell."""
        return is_searched(self.config, cell)

    def published(self, loss: str) -> dict[str, Value]:
        """Return the published setting with the values of `settings`, under flat keys."""
        config = self.config
        values = {**find_card(loss).defaults, **config.settings.get(loss, {})}
        own = {f"loss.{key}": value for key, value in values.items()}
        return own | {f"{TRAINED}{key}": getattr(config, key) for key in config.search_training}

    def space(self, loss: str) -> dict[str, Param]:
        """Return what a strategy may try for this loss, under flat keys."""
        config = self.config
        own = {f"loss.{key}": param for key, param in find_card(loss).params.items()}
        if config.grids == "published":
            start = self.published(loss)
            own = {
                key: param if param.grid else param.held(start[key]) for key, param in own.items()
            }
        if config.grid_levels:
            own = {key: param.thinned(config.grid_levels) for key, param in own.items()}
        return own | {f"{TRAINED}{key}": TRAINING[key] for key in config.search_training}

    def search_trials(self, cell: Cell) -> int:
        """Return how many trials each search of a cell has."""
        config = self.config
        if not self.searched(cell):
            return 0
        return STRATEGIES[config.strategy].trials(
            self.space(cell.loss), first=self.published(cell.loss), budget=config.search_trials
        )

    def finalists(self, cell: Cell) -> int:
        """Return how many settings of each search of a cell are tried again on further splits."""
        return budget.finalists(self.config, cell.protocol, self.search_trials(cell))

    def races(self, cell: Cell) -> int:
        """Return how many trials the finalists of each search of a cell have."""
        return self.finalists(cell) * self.config.finalist_splits

    def trials(self, cell: Cell) -> tuple[int, int]:
        """Return how many search and final trials a cell has in all replicates."""
        config, kinds = self.config, len(self.final_kinds(cell))
        search = self.search_trials(cell) + self.races(cell)
        final = config.reproductions * kinds * (1 + self.refits(cell))
        return config.searches * search, config.searches * final

    def final_kinds(self, cell: Cell) -> tuple[FinalKind, ...]:
        """Return which final trials every final seed has."""
        both = self.config.published_too and self.searched(cell)
        return ("final", "published") if both else ("final",)

    def refits(self, cell: Cell) -> bool:
        """Return whether a refit on all train classes follows each final trial.

        Under default and closed_set the final trial has already trained on all of them.
        """
        return self.config.refit and find_protocol(cell.protocol).rule not in (PEEKING, CLOSED)

    def label(self, cell: Cell) -> str:
        """Return the cell's name without what is the same in all cells of this study."""
        config, shown = self.config, ("dataset", "backbone", "embedding_size")
        parts = [str(getattr(cell, axis)) for axis in shown if len(getattr(config, axis)) > 1]
        if cell.loss in NOT_TRAINED:
            parts = [cell.dataset] * (len(config.dataset) > 1) + [cell.backbone]
        protocol = [cell.protocol] if cell.protocol in config.protocols else []
        return "/".join([*parts, cell.loss, *protocol])

    def spec(
        self,
        cell: Cell,
        phase: Phase,
        seed: int,
        setting: Mapping[str, Value],
        *,
        tuned: bool = False,
    ) -> TrialSpec:
        """Return one trial; its seed says which replicate it belongs to.

        A search trial's splits hold no test class, unless its protocol peeks.
        """
        config, own, rule = self.config, self.for_cell(cell), find_protocol(cell.protocol).rule
        replicate = self.replicate_of(seed)
        splits = self.splits(cell.dataset, cell.protocol, replicate=replicate)
        if phase == "search" and rule != PEEKING:
            splits = tuple(split.sealed() for split in splits)
        ref = self.dataset_ref(cell.dataset)
        # Search trials are compared at the same epochs in all cells; final trials need not be.
        epochs = budget.search_epochs(config) if phase == "search" else own.epochs
        return TrialSpec(
            cell,
            phase,
            rule,
            seed,
            dataset_ref=ref,
            fingerprint=index(ref).fingerprint,
            splits=splits,
            transform=image_transform(own, cell.dataset, cell.backbone),
            model=ModelConfig(**values_of_fields(own, ModelConfig)),
            training=make_training(own, cell.dataset, epochs, setting),
            outputs=Outputs(
                last=config.last_too, embeddings=phase == "final" and self.keeps_embeddings(seed)
            ),
            setting=dict(setting),
            tuned=tuned,
            code=shared_code(cell.loss, cell.backbone),
            # The same images for every loss, search and final trial of a replicate.
            label_seed=split_seed(config.split_seed, replicate) if own.label_fraction < 1 else 0,
        )

    def finalist_spec(
        self, cell: Cell, replicate: int, setting: Mapping[str, Value], *, split: int
    ) -> TrialSpec:
        """Return a search trial on a further split, counted from 1, that no other trial has."""
        splits = make_splits(
            self.config, cell.dataset, cell.protocol, replicate=replicate, further=split
        )
        spec = self.spec(cell, "search", self.search_seed(replicate), setting)
        return replace(spec, splits=tuple(each.sealed() for each in splits))

    def refit_spec(self, final: TrialSpec, epochs: int) -> TrialSpec:
        """Return the same trial on all train classes, for this many epochs: it holds nothing out,
        so it chooses nothing.
        """
        train, test = halves(self.dataset_ref(final.cell.dataset))
        return replace(
            final,
            rule="refit",
            splits=(Split(tuple(train), (), tuple(test)),),
            training=replace(final.training, epochs=epochs),
            outputs=replace(final.outputs, last=False),
        )

    def keeps_embeddings(self, seed: int) -> bool:
        """Return whether the final trials and baselines with this seed keep their embeddings."""
        kept = self.config.keep_embeddings
        return kept == "all" or (kept == "first" and seed == self.config.seed + 1)

    def baseline_cells(self) -> list[tuple[Cell, int]]:
        """Return the baselines with their seeds."""
        return list_baselines(self.config, self.cells, self.all_final_seeds())

    def baseline_specs(self) -> Iterator[TrialSpec]:
        """Yield the trials that score the baselines on the test classes: they choose nothing.

        Only a PCA learns from train classes; the others hold them for the embeddings that they
        keep.
        """
        for cell, seed in self.baseline_cells():
            train, test = halves(self.dataset_ref(cell.dataset))
            spec = self.spec(replace(cell, protocol="default"), "final", seed, {})
            yield replace(
                spec,
                cell=cell,
                rule="untrained",
                splits=(Split(train, test, test),),
                training=replace(spec.training, epochs=0),
                outputs=replace(spec.outputs, last=False),
            )
