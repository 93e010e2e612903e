"""What a study reads, made ready on this machine before anything starts: weight files, decoded images."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

from study.config import StudyConfig
from study.preflight import PreflightError
from trainables.datasets.catalogue import index
from trainables.datasets.pixels import decode_once
from trainables.fetch import home
from trainables.networks.backbones import find_backbone
from trainables.networks.weights import IMAGENET, NONE, fetch_weights, load_weights


def stage(config: StudyConfig, console: Console | None = None) -> None:
    """ValueError: the data are not here, or an image is broken. ConnectionError: weights cannot be fetched. Quick the second time."""
    for dataset in config.dataset:
        index(config.origin(dataset))
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console or Console(quiet=True), transient=True) as bars:
        for backbone in config.backbone:
            fetch_weights(backbone, config.weights, _Stage(bars, f"Fetching the weights of {backbone}"))
            if config.weights not in (IMAGENET, NONE):
                load_weights(find_backbone(backbone).build(3)[0], Path(config.weights))  # a file that does not fit is told now
        for dataset in config.dataset:
            try:
                decode_once(config.origin(dataset), config.cache_size, _Stage(bars, f"Decoding {dataset}, once for this machine"))
            except OSError as error:
                raise PreflightError(f"Images cannot be decoded into {home()} ({error}); set FAIRTRIAL_DATA to a better place.") from None


class _Stage:
    """A bar that opens with the first news: what was done before shows none."""

    def __init__(self, bars: Progress, title: str) -> None:
        self.bars, self.title = bars, title
        self.task: TaskID | None = None

    def __call__(self, done: int, total: int | None) -> None:
        if self.task is None:
            self.task = self.bars.add_task(self.title)
        self.bars.update(self.task, completed=done, total=total)
