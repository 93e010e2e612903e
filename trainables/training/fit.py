"""Fit one network to one split: build it, train an epoch, embed, score, save."""

from collections.abc import Iterator
from contextlib import closing
from itertools import islice, tee
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from search_spaces import find_card
from trainables.contract import NOT_TRAINED, PCA, POOLED, Split, TrialSpec, hold
from trainables.datasets.pixels import Dataset
from trainables.distributed.gather import gather
from trainables.distributed.gpu_memory import with_memory
from trainables.distributed.process import own_device, set_tf32
from trainables.distributed.team import ALONE, Team
from trainables.inputs.batches import (
    BATCHES,
    Rows,
    half_labelled,
    hardest_neighbours,
    labelled,
)
from trainables.inputs.features import FeatureRows, Features
from trainables.inputs.images import Images
from trainables.inputs.loader import on_device
from trainables.losses.labels import UNLABELLED, put_labels
from trainables.metrics.retrieval import LOSS_VALUE, Retrieval, feature_of, score_retrieval
from trainables.networks.network import learning_statistics
from trainables.networks.pca import set_principal
from trainables.training.build import network_of, objective_of
from trainables.training.loss_value import mean_loss
from trainables.training.optimiser import make_optimiser, parameter_groups, set_learning_rates
from trainables.training.step import EpochLosses, TrainingStep

EMBEDDING = "embedding"  # the features after the head; those before it are POOLED


class Fit:
    """Train and score one network on one split.

    Everything random is keyed by seed, fold, epoch or step, so that a state holds no generator and
    ranks agree.
    """

    def __init__(
        self,
        spec: TrialSpec,
        split: Split,
        data: Dataset | Features,
        *,
        fold: int = 0,
        team: Team = ALONE,
    ) -> None:
        self.spec, self.split, self.fold, self.team = spec, split, fold, team
        self.data, self.device = data, own_device()
        set_tf32(spec.model.tf32)
        self.select = self.images(split.select)
        self.network = network_of(spec, data).to(self.device)
        if spec.cell.loss == PCA:
            set_principal(self.network.head, self.embed(self.images(split.train), {POOLED})[POOLED])
        if spec.cell.loss in NOT_TRAINED:
            return
        training = spec.training
        self.card = find_card(spec.cell.loss)
        self.train, self.known = self._labelled(self.images(split.train))
        self.targets = _numbered(self.train.labels)
        self.targets[torch.from_numpy(~self.known)] = UNLABELLED
        self.neighbours: Rows | None = None  # of each train image, when batches are mined
        self.diagnostics: dict[str, float] = {}  # of the last epoch
        self.objective = objective_of(spec, classes=len(split.train)).to(self.device)
        parts = parameter_groups(
            self.network,
            self.objective,
            learning_rate=training.learning_rate,
            head_learning_rate=training.head_learning_rate,
            weight_decay=training.weight_decay,
            loss_decay=training.weight_decay if self.card.decay else 0.0,
            weights_rate=training.weights_rate,
        )
        self.optimizer = make_optimiser(training.optimizer, parts, momentum=training.momentum)
        self.step = TrainingStep(
            # Buffers do not matter in training, and are made equal at the end of an epoch.
            DistributedDataParallel(self.network, broadcast_buffers=False)
            if team.world > 1
            else self.network,
            self.objective,
            self.optimizer,
            team=team,
            normalize=self.card.normalize if training.normalize is None else training.normalize,
            clip_norm=training.clip_norm,
            clip_value=training.clip_value,
        )

    def images(self, classes: tuple[int, ...]) -> Images | FeatureRows:
        """Return the images of `classes`, which must all belong to this split.

        A search trial's split has no test classes.
        """
        hold(
            {*self.split.train, *self.split.select, *self.split.test}.issuperset(classes),
            "a trial sees the classes of its split only",
        )
        return self._open(self.data.index.ids(classes))

    def _open(self, ids: Rows) -> Images | FeatureRows:
        if isinstance(self.data, Features):
            return FeatureRows(self.data, ids)
        return Images(self.data, ids, self.spec.transform)

    def _labelled(
        self, train: Images | FeatureRows
    ) -> tuple[Images | FeatureRows, NDArray[np.bool_]]:
        """Return the images to train on, and which of them have a label that the loss may see.

        The others stay only where the loss can use them, and its batches need no labels.
        """
        share = self.spec.training.label_fraction
        if share == 1:
            return train, np.ones(len(train), dtype=bool)
        known = labelled(train.labels, share, self.spec.label_seed)
        if self.card.unlabelled and self._batch_kind()[0] == "random":
            return train, known
        return self._open(train.ids[known]), known[known]

    def steps(self) -> int:
        """Return the steps of an epoch: ceil(train images / global batch), unless the study says.

        They are the same for every loss: images without a label do not count.
        """
        training = self.spec.training
        return training.steps_per_epoch or -(-int(self.known.sum()) // training.batch_size)

    def train_epoch(self, epoch: int) -> float:
        """Train one epoch and return the mean loss; a loss that is not finite ends it early."""
        training = self.spec.training
        set_learning_rates(
            self.optimizer,
            epoch,
            step=training.lr_step,
            gamma=training.lr_gamma,
            warm_up=training.warm_up,
        )
        losses = EpochLosses(self.team)
        batches, again = tee(self.batches(epoch))
        numbers = self.train.draws((self.spec.seed, self.fold, epoch, 1))
        pending = (self.train.augmented(self.team.part(batch), numbers) for batch in batches)
        self.network.train()
        with closing(on_device(pending, self.device)) as seen:
            for images, batch in zip(seen, again, strict=True):
                targets = put_labels(self.targets[batch], self.device)
                if not losses.add(self.step(images, targets), self.step.share):
                    break
        # Each rank's batch norm has seen its own parts of the batches; score and save one network.
        self.team.average(learning_statistics(self.network))
        mean = losses.mean(self.steps())
        if np.isfinite(mean):
            self.diagnostics = losses.describe(self.step.last)
        return mean

    def _batch_kind(self) -> tuple[str, dict[str, Any]]:
        """Return which kind of batches the loss has, and their size and images per class."""
        training, card = self.spec.training, self.card
        each = card.per_class or training.images_per_class
        return training.batches or card.batches, {"size": training.batch_size, "per_class": each}

    def batches(self, epoch: int) -> Iterator[Rows]:
        """Return the rows of every batch of all ranks."""
        training, key = self.spec.training, (self.spec.seed, self.fold, epoch)
        kind, options = self._batch_kind()
        if kind == "mined":
            if epoch > 1 and (epoch - 2) % training.mine_every == 0:
                self.neighbours = hardest_neighbours(
                    self.embed(self.train, {EMBEDDING})[EMBEDDING], self.targets.to(self.device)
                )
            options["neighbours"] = self.neighbours
        rng = np.random.default_rng(key)
        if not self.known.all():
            return islice(half_labelled(self.known, rng, size=options["size"]), self.steps())
        return islice(BATCHES[kind](self.train.labels, rng, **options), self.steps())

    def measured(self) -> set[str]:
        """Return the features that the metrics need."""
        return {feature_of(name)[0] for name in self.spec.training.metrics} | {EMBEDDING}

    def layers(self) -> set[str]:
        """Return the features that differ: without a head, the embedding is the pooled features."""
        return {EMBEDDING} if isinstance(self.network.head, nn.Identity) else {EMBEDDING, POOLED}

    def embed(self, images: Images | FeatureRows, wanted: set[str]) -> dict[str, Tensor]:
        """Return the wanted features: raw embeddings, and the pooled features below the head.

        Each rank computes its part, and all ranks get all rows.
        """
        if self.team.world > 1:
            return self._embed(images, wanted)
        return with_memory(lambda: self._embed(images, wanted))

    def _embed(self, images: Images | FeatureRows, wanted: set[str]) -> dict[str, Tensor]:
        self.network.eval()
        size = images.per_pass
        rows = self.team.part(np.arange(len(images)))
        # A rank without images embeds one and drops it below.
        mine = rows if len(rows) else np.arange(1)
        pending = (images.plain(mine[i : i + size]) for i in range(0, len(mine), size))
        parts: dict[str, list[Tensor]] = {feature: [] for feature in sorted(wanted)}
        with torch.inference_mode(), closing(on_device(pending, self.device)) as seen:
            for batch in seen:
                pooled = self.network.pooled(batch)
                found = {EMBEDDING: self.network.head(pooled).float(), POOLED: pooled}
                for feature, chunks in parts.items():
                    chunks.append(found[feature])
            return {
                feature: gather(torch.cat(chunks)[: len(rows)], self.team, len(images))
                for feature, chunks in parts.items()
            }

    def score(self, images: Images | FeatureRows) -> Retrieval:
        """Embed and rate these images."""
        return self.rate(images, self.embed(images, self.measured()))

    def rate(self, images: Images | FeatureRows, features: dict[str, Tensor]) -> Retrieval:
        """Score every image as a query against the others. Only the first rank does it."""
        if self.team.rank:
            return Retrieval({}, {}, torch.empty(0, dtype=torch.long), 0)
        labels = _numbered(images.labels).to(self.device)
        wanted: dict[str, dict[str, str]] = {}
        for name in self.spec.training.metrics:
            feature, bare = feature_of(name)
            if name != LOSS_VALUE:
                wanted.setdefault(feature, {})[bare] = name
        means: dict[str, float] = {}
        queries: dict[str, Tensor] = {}
        for each, names in wanted.items():
            with torch.inference_mode():
                found = score_retrieval(
                    features[each],
                    labels,
                    tuple(names),
                    gallery_classes=len(self.split.select) or None,
                )
            means |= {names[bare]: value for bare, value in found.means.items()}
            queries |= {names[bare]: values for bare, values in found.queries.items()}
        if LOSS_VALUE in self.spec.training.metrics and self.spec.cell.loss not in NOT_TRAINED:
            key, (kind, options) = (self.spec.seed, self.fold), self._batch_kind()
            means[LOSS_VALUE] = mean_loss(
                self.step, features[EMBEDDING], images.labels, kind=kind, key=key, **options
            )
        return Retrieval(means, queries, found.scored, found.lone)

    def state(self) -> dict[str, Any]:
        """Return what load() needs to continue from here."""
        if self.spec.cell.loss in NOT_TRAINED:
            return {"network": self.network.state_dict()}
        return {
            "network": self.network.state_dict(),
            "loss": self.objective.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "neighbours": None if self.neighbours is None else torch.from_numpy(self.neighbours),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Continue from a state that state() returned."""
        self.network.load_state_dict(state["network"])
        if self.spec.cell.loss not in NOT_TRAINED:
            self.objective.load_state_dict(state["loss"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.neighbours = None if state["neighbours"] is None else state["neighbours"].numpy()


def _numbered(labels: NDArray[np.int64]) -> Tensor:
    """Number the classes that occur from 0."""
    return torch.from_numpy(np.unique(labels, return_inverse=True)[1])
