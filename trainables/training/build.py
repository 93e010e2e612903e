"""Build the network and the loss that a trial's spec describes."""

import torch

from trainables.contract import NOT_TRAINED, PCA, PIXELS, POOLED, TrialSpec
from trainables.datasets.pixels import Dataset
from trainables.inputs.features import Features
from trainables.losses import Objective, find_builder
from trainables.losses.memory import remember
from trainables.networks.network import (
    HeadConfig,
    HeadNetwork,
    Network,
    build_head_network,
    build_network,
)
from trainables.networks.weights import weights_path


def network_of(spec: TrialSpec, data: Dataset | Features) -> Network | HeadNetwork:
    """Return the network with this trial's initial weights, equal on every rank."""
    model, backbone, loss = spec.model, spec.cell.backbone, spec.cell.loss
    head = HeadConfig(
        0 if loss == POOLED else spec.cell.embedding_size,
        "linear" if loss == PCA else model.head,
        model.head_width,
    )
    if isinstance(data, Features):
        return build_head_network(data.width, head, seed=spec.seed)
    network = build_network(
        backbone,
        data.index.channels,
        head=head,
        pooling=model.pooling,
        weights=None if backbone == PIXELS else weights_path(backbone, model.weights),
        freeze_bn=model.freeze_bn,
        bf16=model.precision == "bfloat16",
        seed=spec.seed,
    )
    network.chunk = model.chunk
    if model.compile and loss not in NOT_TRAINED:
        network.trunk.compile()
    return network


def objective_of(spec: TrialSpec, *, classes: int) -> Objective:
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
