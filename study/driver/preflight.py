"""Make ready what a study needs before it starts: storage, server, weights, images, features."""

from __future__ import annotations

import os
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from study.config.cells import image_transform, values_of_fields
from study.config.plan import StudyPlan, expand
from study.config.study_config import StudyConfig
from study.driver.folder import make_private, new_folder, old_folder
from study.errors import PreflightError
from study.view.heartbeat import shown_busy
from trainables.contract import OWN_FEATURES, PIXELS, ModelConfig
from trainables.datasets.catalogue import DATASETS
from trainables.datasets.indexing import index
from trainables.datasets.pixels import decode_once
from trainables.distributed.process import find_cpp_compiler
from trainables.fetch import ProgressCallback, home
from trainables.inputs.feature_cache import FeaturePass, passes_of
from trainables.networks.backbones import find_backbone
from trainables.networks.weights import NAMED, NONE, fetch_weights, load_weights

if TYPE_CHECKING:  # they import pandas and Ray
    from study.view.live_view import LiveView
    from trainables.workers.placement import WorkerResources

SERVER_TIMEOUT = 10  # seconds for a tracking server to answer
LINE_SECONDS = 2.0  # between two lines of progress


@dataclass(frozen=True)
class PreparedStudy:
    """Hold a study that can start: its plan, and the folder that it owns."""

    plan: StudyPlan
    folder: Path


def prepare(
    config: StudyConfig, *, resume: bool = False, console: Console | None = None
) -> PreparedStudy:
    """Check everything that can be checked without Ray, and make ready what trials read.

    Raise ValueError if the name is taken, there is nothing to resume, or the data are not here,
    PreflightError if this machine cannot run a study, and TrackingError if MLflow cannot be used.
    """
    folder = old_folder(config) if resume else new_folder(config)
    check_place(config, asks_server=not resume)  # what is resumed can train without MLflow
    console = console or Console(quiet=True)
    with shown_busy(console, "Checking the study and its data"):
        plan = expand(config)
        for dataset in config.dataset:
            index(plan.dataset_ref(dataset))
    stage(plan, console)
    make_private(folder)
    return PreparedStudy(plan, folder)


def check_place(config: StudyConfig, *, asks_server: bool = True) -> None:
    """Raise PreflightError if the studies folder is read-only, or if a tracking server or a
    compiler that the study needs is away.
    """
    root = Path(config.studies).absolute()
    existing = next(path for path in (root, *root.parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise PreflightError(
            f"The studies folder must be writable, but {existing} is not; choose another with "
            "--set studies=FOLDER."
        )
    if asks_server and (config.tracking_uri or "").startswith("http"):
        ask_server(str(config.tracking_uri))
    if config.compile and not find_cpp_compiler():
        raise PreflightError(
            "compile=true needs a C++ compiler, but there is none on the PATH; install g++, or "
            "leave compile out."
        )


def ask_server(uri: str) -> None:
    """Raise PreflightError if an MLflow server does not answer."""
    parts = urlsplit(uri)
    # No password in a message.
    address = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
    try:
        urllib.request.urlopen(f"{address}/health", timeout=SERVER_TIMEOUT).close()
    except (OSError, ValueError) as error:
        raise PreflightError(
            f"The MLflow server {address} did not answer ({error}); start it, or leave "
            "tracking_uri empty for the embedded store."
        ) from None


def stage(plan: StudyPlan, console: Console | None = None) -> None:
    """Fetch weight files and decode images on this machine; quick the second time.

    Raise ValueError if the data are not here or an image is broken, and ConnectionError if weights
    cannot be fetched.
    """
    config, console = plan.config, console or Console(quiet=True)
    with _progress(console) as progress:
        for backbone in config.backbone:
            bar = progress(f"Fetching the weights of {backbone}")
            fetch_weights(backbone, config.weights, bar)
        with shown_busy(console, "Checking the weight file"):
            check_weight_file(config)
        for dataset in images_to_decode(plan):
            bar = progress(f"Decoding {dataset}, once for this machine")
            try:
                ref = plan.dataset_ref(dataset)
                decode_once(ref, config.cache_size, bar, resize=config.resize)
            except OSError as error:
                raise PreflightError(
                    f"Images cannot be decoded into {home()} ({error}); set FAIRTRIAL_DATA to a "
                    "better place."
                ) from None


def check_weight_file(config: StudyConfig) -> None:
    """Raise ValueError if the user's own weight file does not fit each backbone."""
    if config.weights in (*NAMED, NONE):
        return
    for backbone in config.backbone:
        for channels in {DATASETS[dataset].channels for dataset in config.dataset}:
            trunk, _ = find_backbone(backbone).build(channels)
            load_weights(trunk, Path(config.weights))


def images_to_decode(plan: StudyPlan) -> list[str]:
    """Return the datasets whose images this machine decodes: not those that bring vectors, and
    not those whose features are all here already.
    """
    missing = {each.dataset_ref.dataset for each in feature_passes(plan) if not each.is_cached}
    pixels = {cell.dataset for cell in plan.cells if plan.for_cell(cell).train == "all"}
    pixels |= {cell.dataset for cell, _ in plan.baseline_cells() if cell.backbone == PIXELS}
    return [name for name in plan.config.dataset if name in missing | pixels]


def feature_passes(plan: StudyPlan) -> list[FeaturePass]:
    """Return the passes over images that the study's frozen trunks make, each once."""
    found: dict[FeaturePass, None] = {}
    for cell in plan.cells:
        own = plan.for_cell(cell)
        if own.train == "head" and cell.dataset != OWN_FEATURES:
            transform = image_transform(own, cell.dataset, cell.backbone)
            model = ModelConfig(**values_of_fields(own, ModelConfig))
            ref = plan.dataset_ref(cell.dataset)
            found |= dict.fromkeys(passes_of(ref, cell.backbone, model, transform, views=own.views))
    return list(found)


def compute_features(plan: StudyPlan, view: LiveView, resources: WorkerResources) -> None:
    """Compute the features of frozen trunks on all nodes of the Ray cluster; quick the second time.

    Raise PreflightError if they cannot be written.
    """
    passes = feature_passes(plan)
    if not passes:
        return
    from trainables.workers.extraction import extract_on_ray

    with _progress(view.console, view.say) as progress:
        for each in passes:
            what = f"{each.dataset_ref.dataset} through {each.backbone}"
            crops = "centre crops" if each.view is None else f"view {each.view + 1}"
            title = f"Computing the features of {what} ({crops}), once for this machine"
            try:
                extract_on_ray(
                    each,
                    gpus=resources.gpus,
                    gpu_type=resources.gpu_type,
                    progress=progress(title),
                    say=view.say,
                )
            except OSError as error:
                raise PreflightError(
                    f"Features cannot be cached in {home()} ({error}); set FAIRTRIAL_DATA to a "
                    "better place."
                ) from None


@contextmanager
def _progress(
    console: Console, say: Callable[[str], None] | None = None
) -> Iterator[Callable[[str], ProgressCallback]]:
    """Yield what shows the progress of some work: bars on a terminal, lines elsewhere."""
    if not console.is_terminal:
        out = say or partial(console.print, markup=False, highlight=False, soft_wrap=True)
        yield partial(_Lines, out)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        yield partial(_Bar, bars)


class _Lines:
    """Print progress as lines, where there is no terminal for a bar."""

    def __init__(self, say: Callable[[str], None], title: str) -> None:
        self.say, self.title = say, title
        self.said = -LINE_SECONDS

    def __call__(self, done: int, total: int | None) -> None:
        now = time.monotonic()
        if now - self.said >= LINE_SECONDS or done == total:
            of = f" of {total:,}" if total else ""
            self.say(f"{self.title}: {done:,}{of}.")
            self.said = now


class _Bar:
    """Show a progress bar once there is progress; work that was done before shows none."""

    def __init__(self, bars: Progress, title: str) -> None:
        self.bars, self.title = bars, title
        self.task: TaskID | None = None

    def __call__(self, done: int, total: int | None) -> None:
        if self.task is None:
            self.task = self.bars.add_task(self.title)
        self.bars.update(self.task, completed=done, total=total)
