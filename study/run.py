"""run_study(config): Ray in, table out. The only place that says Tuner."""

from __future__ import annotations

import shutil
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import ray
from ray import tune

from analysis.page import write_page
from analysis.tables import Ranking
from analysis.tracking import TrackingError, read_study
from study.audit import write_readings
from study.config import StudyConfig
from study.interrupts import Interrupts
from study.lease import Lease
from study.ledger import LEDGER, Ledger, events
from study.live import View
from study.mirror import Mirror
from study.nodes import ask_nodes, check_nodes
from study.preflight import PreflightError, check_place, close_folder, study_folder, tracking_uri
from study.recorder import Recorder
from study.resume import began_with, check_same, identity, rebuild, take_up
from study.room import Room, find_room
from study.search import StudySearcher
from study.staging import stage
from study.stopping import StopPerCell
from study.storage import RAY, config_yaml, next_attempt, trial_folder, write_splits
from trainables.disk import replace_text
from trainables.slot import Slot
from trainables.versions import code

RETRIES = 2  # of a trial whose process died, until it gets on by an epoch


@dataclass(frozen=True)
class Finished:
    """How a study ended; all its numbers are in MLflow. An interrupted one has no ranking and no page."""

    folder: Path
    tracking_uri: str
    trials: int
    failed: int
    interrupted: bool
    rankings: list[Ranking]
    page: Path | None
    signal: int = 0  # that interrupted it, if it was one
    no_room: str = ""  # or what the disk said, or a node


def run_study(config: StudyConfig, *, resume: bool = False, new_code: bool = False, view: View | None = None) -> Finished:
    """Run every trial of the study on local Ray, or on the cluster that RAY_ADDRESS names.

    resume: go on with a study that was interrupted, or let one grow. new_code: although the code is another one.
    """
    check_place(config)
    stage(config)
    folder = study_folder(config, resume=resume)
    try:
        folder.mkdir(parents=True, mode=0o700, exist_ok=True)
        close_folder(folder)
    except OSError as error:
        raise PreflightError(f"The studies folder must be writable: {error}; choose another with --set studies=FOLDER.") from None
    interrupts, view = Interrupts(), view or View(config)
    with Lease(folder, interrupts.ask, view.say), interrupts.watched(), _nothing_left(folder):
        done = Drive(config, folder, interrupts, view, new_code=new_code).run()
    if done.interrupted:
        return done
    rows = read_study(done.tracking_uri, config.name)
    page, found = write_page(rows, folder=folder, config_yaml=config_yaml(config), uri=done.tracking_uri, maps=False)
    return replace(done, rankings=found, page=page)


@contextmanager
def _nothing_left(folder: Path) -> Iterator[None]:
    """Of a study that ended before its first line."""
    try:
        yield
    except BaseException:
        if not events(folder):
            shutil.rmtree(folder, ignore_errors=True)
        raise


class Drive:
    """One driver's part of a study: from where its ledger stands to its end, or to the next interruption."""

    def __init__(self, config: StudyConfig, folder: Path, interrupts: Interrupts, view: View, *, new_code: bool) -> None:
        self.config, self.folder, self.interrupts, self.view = config, folder, interrupts, view
        if not (folder / "config.yaml").exists():  # so that whatever happens next can be gone on with
            replace_text(folder / "config.yaml", config_yaml(config))
        past = events(folder)
        self.past = bool(past)
        self.identity = identity(config, code())
        self.grows = check_same(past, self.identity, new_code=new_code) if past else {}
        self.ledger = Ledger(folder / LEDGER)
        self.total = sum(sum(config.trials(cell)) for cell in config.cells()) + len(config.baseline_cells())
        self.stopping = StopPerCell(config)
        self.searcher = StudySearcher(began_with(past, config) if past else config)
        self.searcher.halts = lambda: interrupts.stopping
        self.standing = rebuild(past, self.searcher, self.stopping, self.ledger)

    def run(self) -> Finished:
        mirror = Mirror(self.config, self.folder, self.ledger, resumed=self.past, say=self.view.say)
        recorder = Recorder(self.ledger, self.view, self.standing.epochs)
        ours = not ray.is_initialized()
        try:
            self._train(mirror, recorder)
            if self._over(recorder) and not self.standing.finished:
                self.ledger.note("finished")
        finally:
            try:  # before Ray goes: a thread that frees a reference to Ray's objects at that moment ends the process
                self._close(mirror, recorder)
            finally:
                self.ledger.close()
                with suppress(OSError):  # a full disk: it is made from the ledger, by the next driver too
                    write_readings(self.folder)
                if ours:
                    ray.shutdown()
        return self._done(recorder)

    def _train(self, mirror: Mirror, recorder: Recorder) -> None:
        if self.past and self.searcher.over and not self.grows:  # all that is left is to write it down
            replace_text(self.folder / "config.yaml", config_yaml(self.config))
            mirror.wait_until_ready()
            return
        room = self._ready(mirror)
        self._note_beginning()
        self.searcher.slots, self.searcher.note = room.slots, recorder.given
        room.load = self.searcher.load
        self.view.took_up(self.standing.ended)
        with self.view.running(total=self.total, slots=min(room.slots(), self.total)), self.interrupts.obeyed(), closing(room):
            try:
                _tuner(self, recorder, room).fit()
            except Exception as error:  # Tune writes files of its own, too
                if not recorder.lacks_room("".join(traceback.format_exception(error))):
                    raise

    def _note_beginning(self) -> None:
        """From here on there is something to go on with."""
        replace_text(self.folder / "config.yaml", config_yaml(self.config))
        write_splits(self.config, self.folder / "splits")
        write_readings(self.folder)
        if self.past:
            self.ledger.note("resumed", grows=self.grows, code=self.identity["code"], total=self.total)
            if self.grows:
                self.searcher.grow(self.config)
            self.standing.finished = False
        else:
            self.ledger.note("study", **self.identity, total=self.total)
            if self.ledger.failure:
                raise self.ledger.failure
        take_up(self.folder, self.searcher, self.standing)

    def _ready(self, mirror: Mirror) -> Room:
        """Ray and MLflow."""
        room = self._room()
        if len([node for node in ray.nodes() if node["Alive"]]) > 1:
            check_nodes(self.folder, ask_nodes(self.folder))
        mirror.wait_until_ready()
        return room

    def _room(self) -> Room:
        with self.interrupts.starting_ray():
            try:
                return find_room(self.config, self.view.say)
            except Exception as error:
                if ray.is_initialized() or isinstance(error, (PreflightError, ValueError)):
                    raise
                why = " ".join(str(error).split())
                raise PreflightError(
                    f"A study needs Ray, but it did not start ({why}); try again when this machine has less to do."
                ) from error

    def _over(self, recorder: Recorder) -> bool:
        """The searcher takes a trial that the disk cut off for one that failed."""
        return self.searcher.over and not self._no_room(recorder)

    def _close(self, mirror: Mirror, recorder: Recorder) -> None:
        """After a signal or on a full disk what MLflow lacks is no error: the study is interrupted anyway, and all is in the ledger."""
        try:
            mirror.close(waits=not self._no_room(recorder))  # a full disk is the store's, too
        except TrackingError:
            if not (self.interrupts.signal or self._no_room(recorder)):
                raise

    def _no_room(self, recorder: Recorder) -> str:
        return str(self.ledger.failure or recorder.no_room)

    def must_end(self, recorder: Recorder, room: Room) -> bool:
        """Asked by Tune after every event."""
        room.slots()  # a cluster that grows hears, too, that nothing is left to start
        if self.interrupts.stopping and not self.searcher.stopping:
            self.searcher.stopping = True
            self.ledger.note("stopping")
        return self.interrupts.ending or bool(self._no_room(recorder))

    def _done(self, recorder: Recorder) -> Finished:
        ended = [event["outcome"] for event in events(self.folder) if event["event"] == "end"]
        done = Finished(self.folder, tracking_uri(self.config), len(ended), ended.count("failed"), not self._over(recorder), [], None)
        return replace(done, signal=self.interrupts.signal, no_room=self._no_room(recorder))


class _Ends(tune.Stopper):
    """Tune pickles it, though nobody reads that."""

    def __init__(self, must_end: Callable[[], bool]) -> None:
        self.must_end = must_end

    def __getstate__(self) -> dict[str, bool]:
        return {}

    def __call__(self, trial_id: str, result: dict[str, object]) -> bool:
        return False

    def stop_all(self) -> bool:
        return self.must_end()


def _tuner(drive: Drive, recorder: Recorder, room: Room) -> tune.Tuner:
    return tune.Tuner(
        tune.with_resources(tune.with_parameters(Slot, crew=room.crew), room.slot_resources()),
        tune_config=tune.TuneConfig(
            search_alg=drive.searcher,
            scheduler=drive.stopping,
            num_samples=-1,  # the searcher knows when it is over
            reuse_actors=True,
            trial_name_creator=lambda trial: trial.trial_id,
            trial_dirname_creator=lambda trial: trial_folder(trial.config["key"]),
        ),
        run_config=tune.RunConfig(
            name=str(next_attempt(drive.folder)),
            storage_path=str((drive.folder / RAY).absolute()),
            verbose=0,
            stop=_Ends(lambda: drive.must_end(recorder, room)),
            callbacks=[recorder],
            failure_config=tune.FailureConfig(max_failures=RETRIES),
            # No num_to_keep: with it Tune writes down the whole experiment after every checkpoint. The recorder removes old ones.
            checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1, checkpoint_at_end=True),
        ),
    )
