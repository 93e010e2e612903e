"""What a study reads, made ready on this machine before anything starts: weight files, decoded images."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from study.config import StudyConfig
from study.preflight import PreflightError
from trainables.contract import Origin
from trainables.datasets.catalogue import index
from trainables.networks.weights import fetch_weights


def stage(config: StudyConfig, console: Console | None = None) -> None:
    """ValueError: the data are not here, or an image is broken. ConnectionError: weights cannot be fetched. Quick the second time."""
    from trainables.datasets.pixels import decode_once

    for dataset in config.dataset:
        index(config.origin(dataset))
    for backbone in config.backbone:
        fetch_weights(backbone, config.weights)
    for dataset in config.dataset:
        with _bar(console) as bar:
            try:
                decode_once(config.origin(dataset), config.cache_size, _reporter(bar, config.origin(dataset)))
            except OSError as error:
                raise PreflightError(error.strerror or str(error)) from None


def _bar(console: Console | None) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console or Console(quiet=True), transient=True)


class _reporter:
    """Opens its bar with the first image: what was decoded before shows none."""

    def __init__(self, bar: Progress, origin: Origin) -> None:
        self.bar, self.origin = bar, origin

    def __call__(self, done: int, total: int) -> None:
        if not self.bar.tasks:
            self.bar.add_task(f"Decoding {self.origin.dataset}, once for this machine", total=total)
        self.bar.update(self.bar.tasks[0].id, completed=done)
