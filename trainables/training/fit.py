"""Fit one network to one split: build it, train an epoch, embed, score, save."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from search_spaces import find_card
from trainables.contract import NOT_TRAINED, PCA, PIXELS, POOLED, Split, TrialSpec, hold
from trainables.datasets.pixels import Dataset
from trainables.distributed.gather import gather
from trainables.distributed.process import own_device
from trainables.distributed.team import ALONE, Team
from trainables.losses import Objective, find_builder
from trainables.losses.diagnostics import describe_batch
from trainables.losses.memory import remember
from trainables.metrics.retrieval import Retrieval, feature_of, score_retrieval
from trainables.networks.network import (
    HeadConfig,
    HeadNetwork,
    Network,
    build_head_network,
    build_network,
)
from trainables.networks.pca import set_principal
from trainables.networks.weights import weights_path
from trainables.training.batches import BATCHES, Rows, hardest_neighbours
from trainables.training.features import FeatureRows, Features
from trainables.training.images import Images, ahead
from trainables.training.optimiser import clip, make_optimiser, parameter_groups, set_learning_rates

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
        self.select = self.images(split.select)
        self.network = _build_network(spec, data).to(self.device)
        if spec.cell.loss == PCA:
            set_principal(self.network.head, self.embed(self.images(split.train), {POOLED})[POOLED])
        if spec.cell.loss in NOT_TRAINED:
            return
        training = spec.training
        self.train = self.images(split.train)
        self.targets = _numbered(self.train.labels).to(self.device)
        self.card = find_card(spec.cell.loss)
        self.neighbours: Rows | None = None  # of each train image, when batches are mined
        self.diagnostics: dict[str, float] = {}  # of the last epoch
        self._last: tuple[Tensor, Tensor] | None = None  # embeddings and targets of the last step
        self.objective = _build_objective(spec, classes=len(split.train)).to(self.device)
        parts = parameter_groups(
            self.network,
            self.objective,
            learning_rate=training.learning_rate,
            head_learning_rate=training.head_learning_rate,
            weight_decay=training.weight_decay,
            loss_decay=training.weight_decay if self.card.decay else 0.0,
        )
        self.optimizer = make_optimiser(training.optimizer, parts, momentum=training.momentum)
        self.parallel: nn.Module = (
            DistributedDataParallel(self.network) if team.world > 1 else self.network
        )

    def images(self, classes: tuple[int, ...]) -> Images | FeatureRows:
        """Return the images of `classes`, which must all belong to this split.

        A search trial's split has no test classes.
        """
        hold(
            {*self.split.train, *self.split.select, *self.split.test}.issuperset(classes),
            "a trial sees the classes of its split only",
        )
        ids = self.data.index.ids(classes)
        if isinstance(self.data, Features):
            return FeatureRows(self.data, ids, self.device)
        return Images(self.data, ids, self.spec.transform, self.device)

    def steps(self) -> int:
        """Return the steps of an epoch: ceil(train images / global batch), unless the study says.

        They are the same for every loss.
        """
        training = self.spec.training
        return training.steps_per_epoch or -(-len(self.train) // training.batch_size)

    def train_epoch(self, epoch: int) -> float:
        """Train one epoch and return the mean loss; a loss that is not finite ends it at once."""
        training = self.spec.training
        set_learning_rates(
            self.optimizer,
            epoch,
            step=training.lr_step,
            gamma=training.lr_gamma,
            warm_up=training.warm_up,
        )
        # The loss's weights are outside DDP, and a GPU may add up in another order on each rank.
        self.team.broadcast(self.objective.parameters())
        batches = self._batches(epoch)
        self.network.train()
        total = 0.0
        self._shares: list[float] = []
        for images, targets in batches:
            loss = self._step(images, targets)
            if not np.isfinite(loss):
                return loss
            total += loss
        self.diagnostics = describe_batch(*self._last) if self._last else {}
        if self._shares:
            self.diagnostics["tuple_share"] = sum(self._shares) / len(self._shares)
        return total / self.steps()

    def _batches(self, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield this rank's augmented images and the targets of all ranks, for every batch."""
        training, key = self.spec.training, (self.spec.seed, self.fold, epoch)
        kind = training.batches or self.card.batches
        options: dict[str, Any] = {
            "size": training.batch_size,
            "per_class": self.card.per_class or training.images_per_class,
        }
        if kind == "mined":
            if epoch > 1 and (epoch - 2) % training.mine_every == 0:
                self.neighbours = hardest_neighbours(
                    self.embed(self.train, {EMBEDDING})[EMBEDDING], self.targets
                )
            options["neighbours"] = self.neighbours
        batches = BATCHES[kind](self.train.labels, np.random.default_rng(key), **options)
        numbers = self.train.draws((*key, 1))

        def ready(batch: Rows) -> tuple[Tensor, Tensor]:
            return self.train.augmented(self.team.part(batch), numbers), self.targets[batch]

        chosen = islice(batches, self.steps())
        return ahead(ready, chosen) if self.device.type == "cuda" else map(ready, chosen)

    def _step(self, images: Tensor, targets: Tensor) -> float:
        embeddings = gather(self.parallel(images).float(), self.team, len(targets))
        loss: Tensor = self.objective(
            F.normalize(embeddings) if self.card.normalize else embeddings, targets
        )
        self._last = embeddings.detach(), targets
        if (share := self.objective.tuple_share()) is not None:
            self._shares.append(share)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        clip(
            self._parameters(),
            norm=self.spec.training.clip_norm,
            value=self.spec.training.clip_value,
        )
        self.optimizer.step()
        return loss.item()

    def _parameters(self) -> list[Tensor]:
        return [param for group in self.optimizer.param_groups for param in group["params"]]

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
        self.network.eval()
        size = images.per_pass
        rows = self.team.part(np.arange(len(images)))
        parts: dict[str, list[Tensor]] = {feature: [] for feature in sorted(wanted)}
        with torch.inference_mode():
            for i in range(0, max(1, len(rows)), size):
                # A rank without images embeds one and drops it below.
                some = rows[i : i + size] if len(rows) else np.arange(1)
                pooled = self.network.pooled(images.plain(some))
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


def _build_network(spec: TrialSpec, data: Dataset | Features) -> Network | HeadNetwork:
    model, backbone, loss = spec.model, spec.cell.backbone, spec.cell.loss
    head = HeadConfig(
        0 if loss == POOLED else spec.cell.embedding_size,
        "linear" if loss == PCA else model.head,
        model.head_width,
    )
    if isinstance(data, Features):
        return build_head_network(data.width, head, seed=spec.seed)
    return build_network(
        backbone,
        data.index.channels,
        head=head,
        pooling=model.pooling,
        weights=None if backbone == PIXELS else weights_path(backbone, model.weights),
        freeze_bn=model.freeze_bn,
        bf16=model.precision == "bfloat16",
        seed=spec.seed,
    )


def _build_objective(spec: TrialSpec, *, classes: int) -> Objective:
    """Return the loss with this trial's setting; its weights start equal on every rank."""
    params = {
        key.removeprefix("loss."): value
        for key, value in spec.setting.items()
        if key.startswith("loss.")
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec.seed)
        objective = find_builder(spec.cell.loss)(classes, spec.cell.embedding_size, **params)
    objective.seed = spec.seed
    if spec.training.memory:
        remember(objective, spec.cell.embedding_size, memory=spec.training.memory)
    return objective
