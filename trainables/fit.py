"""One network learning on one split: build, one epoch, embed, state."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from search_spaces import LOSSES
from trainables.batches import BATCHES, share
from trainables.contract import UNTRAINED, Split, TrialSpec
from trainables.datasets import Dataset
from trainables.gather import gather
from trainables.images import Images, draws
from trainables.losses import BUILDERS, Objective
from trainables.metrics import Retrieval, retrieval
from trainables.network import build

EMBED_BATCH = 1000  # images per forward pass when scoring


class Fit:
    """Everything random in it is keyed by (seed, fold, epoch), so a state holds no generator and ranks agree."""

    def __init__(self, spec: TrialSpec, split: Split, data: Dataset, *, fold: int = 0, rank: int = 0, world: int = 1) -> None:
        self.spec, self.split, self.fold, self.rank, self.world = spec, split, fold, rank, world
        self.select = Images(data, split.select)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        network = build(spec.cell.backbone, self.select.shape, size=spec.cell.embedding_size, seed=spec.seed)
        self.network = network.to(self.device)
        if spec.cell.loss == UNTRAINED:
            return
        self.train = Images(data, split.train)
        self.targets = torch.from_numpy(np.unique(self.train.labels, return_inverse=True)[1]).to(self.device)  # 0..C-1 in this split
        self.card = LOSSES[spec.cell.loss]
        self.objective = _build_objective(spec, classes=len(split.train)).to(self.device)
        self.optimizer = torch.optim.AdamW(_groups(self.network, self.objective, spec), fused=True)
        self.parallel: nn.Module = DistributedDataParallel(self.network) if world > 1 else self.network

    def steps(self) -> int:
        """An epoch is ceil(train images / global batch), the same for every loss."""
        training = self.spec.training
        return training.steps_per_epoch or -(-len(self.train) // training.batch_size)

    def train_epoch(self, epoch: int) -> float:
        """The mean loss; not finite if training diverged, which ends the epoch at once."""
        training, key = self.spec.training, (self.spec.seed, self.fold)
        batches = BATCHES[self.card.batches](
            self.train.labels,
            np.random.default_rng((*key, epoch)),
            size=training.batch_size,
            per_class=training.images_per_class,
        )
        looks = draws((*key, epoch, 1), len(self.train))
        self._set_learning_rates(epoch)
        self.network.train()
        total = 0.0
        for _, batch in zip(range(self.steps()), batches, strict=False):
            loss = self._step(share(batch, self.rank, self.world), looks)
            if not np.isfinite(loss):
                return loss
            total += loss
        return total / self.steps()

    def _step(self, rows: NDArray[np.int64], looks: NDArray[np.float64]) -> float:
        training = self.spec.training
        images = self.train.augmented(rows, looks[rows], max_shift=training.max_shift, flip=training.flip)
        embeddings, targets = self.parallel(images.to(self.device)).float(), self.targets[rows]
        if self.world > 1:  # folds that are divided between workers stay apart
            embeddings, targets = gather(embeddings), gather(targets)
        loss: Tensor = self.objective(F.normalize(embeddings) if self.card.normalize else embeddings, targets)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.item()

    def _set_learning_rates(self, epoch: int) -> None:
        """StepLR; during warm-up the trunk's rate is 0 (never requires_grad, which breaks DDP)."""
        training = self.spec.training
        decay = training.lr_gamma ** ((epoch - 1) // training.lr_step)
        for group in self.optimizer.param_groups:
            waits = group["name"] == "trunk" and epoch <= training.warm_up
            group["lr"] = 0.0 if waits else group["base_lr"] * decay

    def score(self, images: Images) -> Retrieval:
        """Exact retrieval among these images: every one is a query against the others."""
        self.network.eval()
        with torch.inference_mode():
            slices = [slice(i, i + EMBED_BATCH) for i in range(0, len(images), EMBED_BATCH)]
            embeddings = torch.cat([self.network(images.plain(rows).to(self.device)).float() for rows in slices])
            labels = torch.from_numpy(np.unique(images.labels, return_inverse=True)[1]).to(self.device)
            return retrieval(embeddings, labels, self.spec.training.metrics)

    def state(self) -> dict[str, Any]:
        if self.spec.cell.loss == UNTRAINED:
            return {"network": self.network.state_dict()}
        return {
            "network": self.network.state_dict(),
            "loss": self.objective.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }

    def load(self, state: dict[str, Any]) -> None:
        self.network.load_state_dict(state["network"])
        if self.spec.cell.loss != UNTRAINED:
            self.objective.load_state_dict(state["loss"])
            self.optimizer.load_state_dict(state["optimizer"])


def _build_objective(spec: TrialSpec, *, classes: int) -> Objective:
    """The loss with this trial's setting; its weights start equal on every rank."""
    params = {key.removeprefix("loss."): value for key, value in spec.setting.items() if key.startswith("loss.")}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec.seed)
        objective = BUILDERS[spec.cell.loss](classes, spec.cell.embedding_size, **params)
    objective.seed = spec.seed
    return objective


def _groups(network: nn.Module, objective: Objective, spec: TrialSpec) -> list[dict[str, Any]]:
    """trunk, head, loss: every parameter in exactly one. The loss's own weights are not decayed (our choice)."""
    rate, decay = spec.training.learning_rate, spec.training.weight_decay
    wanted = [
        ("trunk", network.get_submodule("trunk"), rate, decay),
        ("head", network.get_submodule("head"), rate, decay),
        ("loss", objective, rate if objective.weights_lr is None else objective.weights_lr, 0.0),
    ]
    return [
        {"name": name, "params": params, "base_lr": lr, "lr": lr, "weight_decay": weight_decay}
        for name, module, lr, weight_decay in wanted
        if (params := list(module.parameters()))
    ]
