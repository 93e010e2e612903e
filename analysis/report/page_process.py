"""Write a study's page in a process that is warm by then, while the study itself shuts down."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from importlib import import_module
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from pathlib import Path

import analysis
from analysis.figures.from_study import FigureData
from analysis.figures.style import Drawing, Picture, styled_figure
from analysis.record.frames import read_record
from analysis.report.page import Page, write_page
from analysis.report.report import draw_in_turn, figure_data
from analysis.tables.catalogue import Study

# What a page needs and takes seconds to import.
LIBRARIES = (
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
    "optuna.importance",
    "scipy.interpolate",
    "scipy.optimize",
    "scipy.stats",
    "sklearn.ensemble",
)
# Figures for the second process: about half of the time of all, and they need no ranking.
OF_SECOND = ("curves", "search", "parallel_coordinates", "slices")


class PageProcess:
    """Start a process that imports what a page needs, and ask it for the page of one study.

    Whatever goes wrong there, `answer` returns None, and the caller writes the page itself.
    """

    module = "analysis.report.page_process"  # that the process runs

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._timer: threading.Timer | None = None
        self._asked = False

    def start_later(self, seconds: float) -> None:
        """Start the process this long from now, when slots have loaded."""
        self._timer = threading.Timer(seconds, self._start)
        self._timer.daemon = True
        self._timer.start()

    def _start(self) -> None:
        root = str(Path(analysis.__file__).parent.parent)
        found = os.environ.get("PYTHONPATH")
        env = os.environ | {
            "PYTHONPATH": os.pathsep.join([root, found] if found else [root]),
            "OMP_NUM_THREADS": "1",  # it forks
            "OPENBLAS_NUM_THREADS": "1",
        }
        with suppress(OSError):
            self._pipe, theirs = Pipe()
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", self.module, str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=env,
                    start_new_session=True,  # a signal is for the driver, which then ends this one
                )

    def ask(self, folder: Path, config_yaml: str) -> None:
        """Ask for the page of a study whose last trial has ended; once, and without waiting."""
        self._send((Path.cwd(), folder, config_yaml))

    def _send(self, question: tuple[object, ...]) -> None:
        if self._timer:
            self._timer.cancel()
        if self._asked or not self._process or not self._pipe:
            return
        self._asked = True
        with suppress(OSError):  # it has died
            self._pipe.send(question)

    def answer(self) -> Page | None:
        """Wait for the page, if the process was asked for one."""
        if not self._asked or not self._pipe:
            return None
        try:
            found: Page = self._pipe.recv()
        except Exception:  # it failed or died
            return None
        return found

    def close(self) -> None:
        """End the process, whatever it does."""
        if self._timer:
            self._timer.cancel()
        if self._pipe:
            self._pipe.close()
        if self._process:
            self._process.kill()
            self._process.wait()


def serve(driver: Connection) -> None:
    """Write one page, half of its figures in a second process. Nobody asks: end with the driver."""
    _warm_up()
    context = get_context("fork")
    with ProcessPoolExecutor(1, mp_context=context, initializer=driver.close) as second:
        second.submit(_warm_up).result()  # it exists from here on
        try:
            here, folder, config_yaml = driver.recv()
        except EOFError:
            return
        os.chdir(here)  # so that paths mean the same, and stay as the driver spells them
        page = write_page(
            read_record(folder),
            folder=folder,
            config_yaml=config_yaml,
            maps=False,
            draw_all=partial(_draw_in_two, second, folder.absolute(), config_yaml),
        )
    driver.send(page)


def _warm_up() -> None:
    """Import what a page needs, and load the fonts by drawing something."""
    for name in LIBRARIES:
        import_module(name)
    with styled_figure(1) as figure:
        figure.subplots().set_title("warm")
    pickle.dumps(Drawing("warm", "warm", figure))


def _draw_in_two(
    second: ProcessPoolExecutor,
    folder: Path,
    config_yaml: str,
    names: Sequence[str],
    data: FigureData,
) -> dict[str, list[Picture]]:
    """Return the pictures of all figures, some of them drawn in the second process."""
    theirs = second.submit(_draw_second, folder, config_yaml)
    mine = draw_in_turn([name for name in names if name not in OF_SECOND], data)
    for pictures in mine.values():
        for picture in pictures:
            picture.drawing.render()  # while the other process draws
    drawn = mine | theirs.result()
    return {name: drawn[name] for name in names}


def _draw_second(folder: Path, config_yaml: str) -> dict[str, list[Picture]]:
    return draw_in_turn(OF_SECOND, figure_data(Study(read_record(folder)), folder, config_yaml))


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
