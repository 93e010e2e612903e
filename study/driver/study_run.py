"""Run every trial of a study on Ray, in the only Tuner, then rank the losses."""

from __future__ import annotations

import os
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import ray
from ray import tune

from analysis.record.commands import resuming
from analysis.record.events import StudyFinished, StudyResumed, StudyStopping
from analysis.record.ledger import has_begun
from analysis.record.record import Record
from analysis.record.trial_id import folder_of
from analysis.report.page import Page
from analysis.tracking import TrackingError
from analysis.tracking.system_metrics import monitored
from study.cluster.local_ray import stop_ray
from study.cluster.nodes import ask_nodes, check_nodes
from study.cluster.slot_pool import SlotPool, open_slot_pool
from study.config.plan import StudyPlan
from study.config.study_config import StudyConfig
from study.driver.checkpoints import RAY
from study.driver.folder import (
    CONFIG,
    config_yaml,
    nothing_left,
    tracking_uri,
    write_readings,
    write_splits,
)
from study.driver.lease import Lease
from study.driver.mlflow_mirror import MlflowMirror
from study.driver.preflight import PreparedStudy, compute_features, prepare
from study.driver.publisher import Publisher
from study.driver.resume import check_same, first_plan, identity, rebuild, take_up
from study.driver.tune_callback import Ends, TuneCallback
from study.ends.interrupts import Interrupts
from study.ends.ray_watch import RayWatch, silence_ray
from study.ends.stalls import RETRIES
from study.ends.study_end import StudyEnd, StudyResult, end_of
from study.search.early_stopping import EarlyStopping
from study.search.searcher import StudySearcher
from study.view.live_view import LiveView
from trainables.outputs.disk import replace_text
from trainables.workers.slot import Slot


def run_study(
    config: StudyConfig,
    *,
    resume: bool = False,
    new_code: bool = False,
    view: LiveView | None = None,
) -> StudyResult:
    """Run every trial of the study on local Ray, or on the cluster that RAY_ADDRESS names.

    resume: continue a study that was interrupted, or let one grow. new_code: even if the code has
    changed since it began.
    """
    done = drive(prepare(config, resume=resume), new_code=new_code, view=view)
    if done.error:
        raise done.error
    return done


def drive(
    study: PreparedStudy, *, new_code: bool = False, view: LiveView | None = None
) -> StudyResult:
    """Run what is left of a prepared study, with one driver at a time."""
    interrupts, view = Interrupts(resuming(study.folder)), view or LiveView(study.plan)
    lease = Lease(study.folder, interrupts.ask, view.say)
    with lease, interrupts.watched(), nothing_left(study.folder):
        return StudyRun(study.plan, study.folder, interrupts, view, new_code=new_code).run()


class StudyRun:
    """Run one driver's part of a study, from where its record ends."""

    def __init__(
        self,
        plan: StudyPlan,
        folder: Path,
        interrupts: Interrupts,
        view: LiveView,
        *,
        new_code: bool,
    ) -> None:
        self.plan, self.folder, self.interrupts, self.view = plan, folder, interrupts, view
        self.uri = tracking_uri(plan.config)
        if not has_begun(folder):  # so that the study can be resumed from here on
            self._write_config()
        trained = sum(sum(plan.trials(cell)) for cell in plan.cells)
        self.identity = identity(plan, total=trained + len(plan.baseline_cells()))
        self.record = Record(folder)
        state, past = self.record.state, bool(self.record.past)
        self.grows = check_same(state, self.identity, new_code=new_code) if past else {}
        self.stopping = EarlyStopping(plan)
        self.searcher = StudySearcher(first_plan(state, plan.config) if past else plan)
        rebuild(self.record, self.searcher, self.stopping)
        view.follow(state)  # with what rebuilding has ended
        self.record.follower = view
        self.callback = TuneCallback(plan, self.record)
        self.publisher = Publisher(plan, folder, view)
        self.watch: RayWatch | None = None
        self.met: StudyEnd | None = None  # what the driver itself met
        self.error: Exception | None = None  # of an end that nobody knows

    def run(self) -> StudyResult:
        """Train what is left, bring MLflow up to date, and rank if nothing is left."""
        with closing(self.publisher):
            untracked = self._run(MlflowMirror(self.plan, self.record, say=self.view.say))
            written: Page | None = None
            if self.is_over:
                try:
                    written, untracked = self.publisher.publish(untracked)
                except Exception as error:
                    self._meet(error)
            return self._result(written, untracked)

    def _run(self, mirror: MlflowMirror) -> str:
        """Train what is left, shut everything down, and return what MLflow lacks."""
        ours, untracked = not ray.is_initialized(), ""
        try:
            with self.interrupts.limited(self.plan.config.max_hours):
                self._train(mirror)
            if self.is_over and not self.record.state.finished:
                self.record.note(StudyFinished())
        finally:
            # Before Ray goes: a thread that frees a Ray object at that moment ends the process.
            try:
                untracked = self._close(mirror)
            finally:
                self.record.close()
                with suppress(OSError):  # a full disk: the next driver or report writes it
                    write_readings(self.folder, self.record.state)
                if ours and ray.is_initialized():
                    with self.view.busy("Stopping Ray"):
                        stop_ray()
                if self.watch:
                    self.watch.close()
        return untracked

    def _train(self, mirror: MlflowMirror) -> None:
        if self.record.past and self.searcher.over and not self.grows:  # only MLflow may lack some
            self._write_config()
            mirror.wait_until_ready()
            return
        own = not ray.is_initialized() and os.environ.get("RAY_ADDRESS", "local") == "local"
        with self.view.busy("Starting Ray"), self.interrupts.starting_ray():
            pool = open_slot_pool(self.plan.config, self.view.say, load=self.searcher.load)
        if len([node for node in ray.nodes() if node["Alive"]]) > 1:
            check_nodes(self.folder, ask_nodes(self.folder))
        with self.view.busy("Opening MLflow's store"):
            mirror.wait_until_ready()
        self._begin()
        again, rescue = self.interrupts.again, partial(self._rescue, mirror)
        self.watch = RayWatch(own=own, again=again, rescue=rescue)
        try:
            with self.watch, closing(pool):
                self._search(pool)
        except KeyboardInterrupt:  # Ray makes a plain one of ours
            self.met = self.watch.end
            if not self.met:
                raise

    def _rescue(self, mirror: MlflowMirror, end: StudyEnd) -> None:
        """Close what can be closed while the main thread hangs in a call to a dead Ray."""
        self.met = end
        if self.view.live:
            self.view.live.stop()
        write_readings(self.folder, self.record.state)
        self._close(mirror)

    def _search(self, pool: SlotPool) -> None:
        compute_features(self.plan, self.view, pool.resources)
        interrupts, config = self.interrupts, self.plan.config  # Tune pickles its searcher
        self.searcher.serve(
            slots=pool.slots,
            assigned=self.callback.assigned,
            halts=lambda: interrupts.stopping,
            saving=self.callback.saving,
        )
        slots, watch = min(pool.slots(), self.identity.total), config.system_metrics
        monitor = monitored(self.uri, config.name, self.view.say, wanted=watch)
        with self.view.running(slots=slots), monitor, self.interrupts.obeyed():
            self.publisher.start_later()
            try:
                _tuner(self, pool).fit()
            except Exception as error:  # Tune also writes files of its own
                self._meet(error, self.watch.look() if self.watch else None)

    def _meet(self, error: Exception, died: StudyEnd | None = None) -> None:
        """Note what an error of the driver means for the study. died: Ray's death."""
        self.met = self.obstacle or died or end_of(error, self.folder)
        self.error = error if self.met.kind == "bug" else None

    def _begin(self) -> None:
        """Note the first line of this driver. From here on there is something to resume."""
        write_splits(self.plan, self.folder)
        write_readings(self.folder, self.record.state)
        if self.record.past:
            self._write_config()
            now = {name: getattr(self.identity, name) for name in ("code", "total", "commit")}
            self.record.note(StudyResumed(grows=self.grows, **now))
            if self.grows:
                self.searcher.grow(self.plan)
        else:
            self.record.note(self.identity)
            if self.record.failure:
                raise self.record.failure
        take_up(self.record, self.searcher)

    def _write_config(self) -> None:
        replace_text(self.folder / CONFIG, config_yaml(self.plan.config))

    @property
    def obstacle(self) -> StudyEnd | None:
        failure = self.record.failure
        full = StudyEnd("disk_full", str(failure)) if failure else None
        return full or self.callback.end or self.met

    @property
    def is_over(self) -> bool:
        """Return whether nothing is left; a trial that was cut off counts as left."""
        return self.searcher.over and not self.obstacle

    def _close(self, mirror: MlflowMirror) -> str:
        """Bring MLflow up to date, and return what it lacks; nothing after an interruption."""
        try:
            with self.view.busy("Bringing MLflow up to date"):
                mirror.close(patient=not self.obstacle)  # a full disk also stops the store
            if self.is_over:  # while Ray stops and the page is written
                self.publisher.ask_models()
        except TrackingError as error:
            if not (self.interrupts.end or self.obstacle):
                return str(error)
        return ""

    def must_end(self, pool: SlotPool) -> bool:
        """Return whether the study ends now. Tune asks after every event."""
        pool.slots()  # also tells a growing cluster that nothing is left to start
        self.publisher.offer_models(self.record.state)
        if self.is_over:
            self.publisher.ask_page()
        if self.interrupts.stopping and not self.record.state.stopping:
            self.record.note(StudyStopping())
        if self.obstacle:
            silence_ray()  # it cannot write its own files either
        return (self.interrupts.end or self.obstacle) is not None

    def _result(self, written: Page | None, untracked: str) -> StudyResult:
        state = self.record.state
        return StudyResult(
            self.folder,
            self.uri,
            trials=state.ended,
            failed=state.failed,
            end=self._end(),
            rankings=written.rankings if written else [],
            fairness=written.fairness if written else None,
            page=written.files[0] if written else None,
            untracked=untracked,
            error=self.error,
        )

    def _end(self) -> StudyEnd | None:
        """Return why the study ends before it is over."""
        if self.is_over:
            return None
        return self.obstacle or self.interrupts.end or StudyEnd("interrupted")


def _tuner(run: StudyRun, pool: SlotPool) -> tune.Tuner:
    slot = tune.with_parameters(Slot, resources=pool.resources)
    return tune.Tuner(
        tune.with_resources(slot, pool.slot_resources()),
        tune_config=tune.TuneConfig(
            search_alg=run.searcher,
            scheduler=run.stopping,
            num_samples=-1,  # the searcher knows when it is over
            reuse_actors=True,
            trial_name_creator=lambda trial: trial.trial_id,
            trial_dirname_creator=lambda trial: folder_of(trial.config["trial"]),
        ),
        run_config=tune.RunConfig(
            name=str(run.callback.attempt),
            storage_path=str((run.folder / RAY).absolute()),
            verbose=0,
            stop=Ends(lambda: run.must_end(pool)),
            callbacks=[run.callback],
            failure_config=tune.FailureConfig(max_failures=RETRIES),
            # Slots save by themselves; Tune only asks them for what a trial leaves at its end. No
            # num_to_keep: with it Tune writes down the whole experiment each time.
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
        ),
    )
