"""Compare frozen trunks with plain code: how features are extracted, and how heads are trained.

Extraction is ours, from image files to the feature file on all cores, against a DataLoader with
torchvision's transforms and a loop over the same model: both decode every file once. By default the
files are generated JPEGs and the model is a ResNet-18 with random weights; `--folder`, `--backbone`
(also `timm:NAME`) and `--weights` take real ones. The cosine says how alike their features are:
they resize differently by a little.

Head trials are real ones through a worker, from its spec to the state that a slot would save, with
all that a trial begins with. The bare loop has the same vectors in memory, the same loss, batches,
optimiser and scoring, and nothing else. Both run one thread.

Core-seconds are those of the process and its children. Runs alternate; medians are printed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.images import MEAN, SIDE, STD, make_files

BATCH, SHORTER = 64, 256
CLASSES = 40  # of the vectors that heads are trained on
LOSSES = ("contrastive", "multi_similarity", "proxy_anchor")
ROW = "{:<34}{:>12}{:>12}{:>12}"


class Clock:
    """Hold the seconds of the last piece of work: on the wall, and of all cores."""

    wall = cores = 0.0


@contextmanager
def timed(clock: Clock) -> Any:
    """Note how long the block takes, with the processes that it starts and ends."""
    began, before = time.perf_counter(), _core_seconds()
    yield
    clock.wall, clock.cores = time.perf_counter() - began, _core_seconds() - before


def _core_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def plain_model(backbone: str) -> Any:
    """Return the model as its library makes it, without a classifier: images to pooled features."""
    import torch

    torch.manual_seed(0)
    if backbone.startswith("timm:"):
        import timm

        return timm.create_model(backbone.removeprefix("timm:"), num_classes=0)
    import torchvision

    model = torchvision.models.get_model(backbone)
    model.fc = torch.nn.Identity()
    return model


def norm_of(backbone: str) -> tuple[Any, Any]:
    """Return the mean and the deviation of the model's input."""
    if not backbone.startswith("timm:"):
        return MEAN, STD
    import timm

    config = timm.get_pretrained_cfg(backbone.removeprefix("timm:"))
    return config.mean, config.std


def extract_plainly(root: str, backbone: str, weights: str, clock: Clock) -> Any:
    """Return the features of a DataLoader and a loop, in the order of the sorted files."""
    import torch
    from torchvision import datasets, transforms

    cores = os.cpu_count() or 1
    mean, std = norm_of(backbone)
    steps = [transforms.Resize(SHORTER), transforms.CenterCrop(SIDE), transforms.ToTensor()]
    steps += [transforms.Normalize(mean, std)]
    torch.set_num_threads(cores)
    with timed(clock):
        model = plain_model(backbone).eval()
        state = torch.load(weights, map_location="cpu", weights_only=True)
        model.load_state_dict(state, strict=False)  # without its classifier
        folder = datasets.ImageFolder(root, transforms.Compose(steps))
        loader = torch.utils.data.DataLoader(
            folder, BATCH, num_workers=cores, multiprocessing_context="fork"
        )
        with torch.inference_mode():
            found = torch.cat([model(images) for images, _ in loader]).numpy()
    return found


def extract_ours(root: str, backbone: str, weights: str, clock: Clock) -> Any:
    """Return the features of the file that a study reads, from an empty cache."""
    from trainables.contract import DatasetRef, ImageTransform, ModelConfig
    from trainables.datasets.pixels import decode_once
    from trainables.inputs.feature_cache import extract, passes_of

    ref = DatasetRef("image_folder", root)
    model = ModelConfig("gap", weights, freeze_bn=True, precision="float32", train="head")
    centre = SIDE / SHORTER
    seen = ImageTransform(SIDE, SHORTER, centre, "resized", (0.25, 1), (0.75, 4 / 3), 0, flip=True)
    (wanted,) = passes_of(ref, backbone, model, seen, views=0)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["FAIRTRIAL_DATA"] = cache
        with timed(clock):
            decode_once(ref, SHORTER)
            extract(wanted)
        features, ids = wanted.open()
        return features[np.argsort(ids)].copy()


def in_new_process(work: Callable[..., Any], *arguments: Any) -> tuple[Any, float, float]:
    """Return what the work returns in a process of its own, its wall and its core-seconds."""
    context = multiprocessing.get_context("spawn")
    answers = context.SimpleQueue()
    process = context.Process(target=_answer, args=(answers, work, *arguments))
    process.start()
    found: tuple[Any, float, float] = answers.get()
    process.join()
    return found


def _answer(answers: Any, work: Callable[..., Any], *arguments: Any) -> None:
    import torchvision  # noqa: F401  both sides have their libraries before the clock starts

    clock = Clock()
    found = work(*arguments, clock)
    answers.put((found, clock.wall, clock.cores))


def head_specs(path: Path, *, count: int, width: int, trials: int, epochs: int) -> list[Any]:
    """Return search trials of several losses on vectors, which are written to the path."""
    from study.config.plan import expand
    from study.config.study_config import make
    from study.presets.laptop import vectors

    rng = np.random.default_rng(0)
    labels = np.arange(count) % CLASSES
    rows = rng.normal(size=(CLASSES, width))[labels] + 3 * rng.normal(size=(count, width))
    np.savez(path, features=rows.astype(np.float32), labels=labels)
    changes = {"data_root": str(path), "protocols": ["fixed_validation"], "losses": list(LOSSES)}
    plan = expand(make(vectors() | changes | {"val_fraction": 0.25}))
    cells = [plan.cells[number % len(plan.cells)] for number in range(trials)]
    specs = [plan.spec(cell, "search", 1, plan.published(cell.loss)) for cell in cells]
    return [replace(spec, training=replace(spec.training, epochs=epochs)) for spec in specs]


def train_ours(specs: list[Any], clock: Clock) -> list[float]:
    """Return the best score of every trial, trained by a worker as in a slot."""
    from trainables.workers.worker import Worker

    scores = []
    worker = Worker()
    with timed(clock):
        for spec in specs:
            worker.begin(spec)
            while not (result := worker.step())["done"]:
                pass
            worker.outputs()
            scores.append(float(result["score"]))
    return scores


def train_plainly(specs: list[Any], clock: Clock) -> list[float]:
    """Return the best score of every trial, trained by a bare loop over arrays in memory."""
    from trainables.datasets.vectors import load_vectors
    from trainables.distributed.process import prepare_process

    prepare_process()
    with timed(clock):
        vectors = np.array(load_vectors(specs[0].dataset_ref))
        return [bare_trial(spec, vectors) for spec in specs]


def bare_trial(spec: Any, vectors: Any) -> float:
    """Return the best score of a linear head, trained with nothing around it."""
    import torch
    from torch.nn import functional as F

    from search_spaces import find_card
    from trainables.datasets.indexing import index
    from trainables.inputs.batches import BATCHES
    from trainables.losses import find_builder
    from trainables.metrics.retrieval import score_retrieval

    training, (split,), card = spec.training, spec.splits, find_card(spec.cell.loss)
    found = index(spec.dataset_ref)
    train, held = found.ids(split.train), found.ids(split.select)
    x, targets = vectors[train], np.unique(found.labels[train], return_inverse=True)[1]
    out, wanted = torch.from_numpy(vectors[held]), torch.from_numpy(found.labels[held])
    torch.manual_seed(spec.seed)
    head = torch.nn.Linear(vectors.shape[1], spec.cell.embedding_size)
    values = {key.removeprefix("loss."): value for key, value in spec.setting.items()}
    loss = find_builder(spec.cell.loss)(len(split.train), spec.cell.embedding_size, **values)
    groups = [{"params": head.parameters(), "lr": training.learning_rate}]
    if own := list(loss.parameters()):
        groups.append({"params": own, "lr": values.get("weights_lr", training.learning_rate)})
    optimizer = torch.optim.AdamW(groups, weight_decay=training.weight_decay, foreach=True)
    best = 0.0
    for epoch in range(1, training.epochs + 1):
        rng = np.random.default_rng((spec.seed, 0, epoch))
        batches = BATCHES[card.batches](
            targets, rng, size=training.batch_size, per_class=training.images_per_class
        )
        for _ in range(-(-len(x) // training.batch_size)):
            rows = next(batches)
            embeddings = head(torch.from_numpy(x[rows]))
            seen = F.normalize(embeddings) if card.normalize else embeddings
            value = loss(seen, torch.from_numpy(targets[rows]))
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            value.item()
        with torch.inference_mode():
            scores = score_retrieval(head(out), wanted, training.metrics).means
        best = max(best, scores[training.select_metric])
    return best


def compare(title: str, unit: str, count: int, runs: dict[str, list[tuple[float, float]]]) -> float:
    """Print a row per side, and return ours in core-seconds as a multiple of the plain one."""
    print(ROW.format(title, "wall s", "core-s", unit))
    cores = {}
    for name, times in runs.items():
        wall, cores[name] = (statistics.median(part) for part in zip(*times, strict=True))
        pace = count / cores[name]
        print(ROW.format(name, f"{wall:.2f}", f"{cores[name]:.2f}", f"{pace:.1f}"))
    ours, plain = cores.values()
    return ours / plain


def compare_extraction(options: argparse.Namespace, root: str, weights: str) -> None:
    sides = {"ours": extract_ours, "DataLoader and a plain loop": extract_plainly}
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    found: dict[str, Any] = {}
    for _ in range(options.repeats):
        for name, work in sides.items():
            found[name], wall, cores = in_new_process(work, root, options.backbone, weights)
            runs[name].append((wall, cores))
    ours, plain = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in found.values())
    count = len(ours)
    ratio = compare(f"Extraction, {count:,} files", "images/core-s", count, runs)
    print(
        f"ours: {1 / ratio:.2f} times the images per core-second, decoding included (goal: 1); "
        f"cosine {np.mean(np.sum(ours * plain, axis=1)):.3f}\n"
    )


def compare_heads(options: argparse.Namespace, folder: str) -> None:
    specs = head_specs(
        Path(folder, "vectors.npz"),
        count=options.vectors,
        width=options.width,
        trials=options.trials,
        epochs=options.epochs,
    )
    sides = {"ours": train_ours, "a bare loop": train_plainly}
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    scores: dict[str, list[float]] = {}
    for _ in range(options.repeats):
        for name, work in sides.items():
            scores[name], wall, cores = in_new_process(work, specs)
            runs[name].append((wall, cores))
    ratio = compare(
        f"{len(specs)} head trials, {options.epochs} epochs", "trials/core-s", len(specs), runs
    )
    apart = np.abs(np.subtract(*scores.values())).max()
    print(
        f"ours: {ratio:.2f} times the core-seconds, start of every trial included (goal: at most "
        f"1.3); best scores differ by {apart:.4f} at most"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", help="a folder of classes of images; generated if not given")
    parser.add_argument("--backbone", default="resnet18")
    parser.add_argument("--weights", help="a file; random if not given")
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--vectors", type=int, default=3000)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FAIRTRIAL_DATA"] = f"{folder}/cache"
        root, weights = options.folder or f"{folder}/photos", options.weights
        if not options.folder:
            make_files(Path(root), options.images)
        if not weights:
            import torch

            weights = f"{folder}/random.pth"
            torch.save(plain_model(options.backbone).state_dict(), weights)
        compare_extraction(options, root, weights)
        compare_heads(options, folder)


if __name__ == "__main__":
    main()
