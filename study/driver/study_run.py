"""Run every trial of a study on Ray, in the only Tuner, then rank the losses."""

from __future__ import annotations

import shutil
import traceback
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import ray
from ray import tune

from analysis.ranking.fairness import FairnessCheck
from analysis.ranking.ranking import Ranking
from analysis.record.events import StudyFinished, StudyResumed, StudyStopping
from analysis.record.frames import read_record
from analysis.record.ledger import has_begun
from analysis.record.record import Record
from analysis.record.trial_id import folder_of
from analysis.report.model_process import ModelProcess
from analysis.report.page import Page, keep_page, write_page
from analysis.report.page_process import PageProcess
from analysis.tracking import TrackingError
from analysis.tracking.system_metrics import monitored
from study.cluster.local_ray import stop_ray
from study.cluster.nodes import ask_nodes, check_nodes
from study.cluster.slot_pool import SlotPool, open_slot_pool
from study.config.complete_losses import CompleteLosses
from study.config.plan import StudyPlan
from study.config.study_config import StudyConfig
from study.driver.checkpoints import RAY
from study.driver.folder import CONFIG, config_yaml, tracking_uri, write_readings, write_splits
from study.driver.interrupts import Interrupts
from study.driver.lease import Lease
from study.driver.mlflow_mirror import MlflowMirror
from study.driver.preflight import PreparedStudy, compute_features, prepare
from study.driver.resume import check_same, first_plan, identity, rebuild, take_up
from study.driver.tune_callback import Ends, Obstacle, TuneCallback
from study.search.early_stopping import EarlyStopping
from study.search.searcher import StudySearcher
from study.view.live_view import LiveView
from trainables.outputs.disk import replace_text
from trainables.workers.slot import Slot

# Seconds until processes for the page and for networks start; the slots have loaded by then.
PAGE_AFTER, MODELS_AFTER = 15.0, 30.0
RETRIES = 2  # of a trial whose process died, until it makes progress by an epoch


@dataclass(frozen=True)
class StudyResult:
    """Hold how a study ended. An interrupted one has no ranking and no page."""

    folder: Path
    tracking_uri: str
    trials: int
    failed: int
    interrupted: bool
    rankings: list[Ranking] = field(default_factory=list)
    fairness: FairnessCheck | None = None
    page: Path | None = None
    signal: int = 0  # that interrupted it
    obstacle: Obstacle | None = None  # that interrupted it
    untracked: str = ""  # what MLflow lacks, and why


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
    return drive(prepare(config, resume=resume), new_code=new_code, view=view)


def drive(
    study: PreparedStudy, *, new_code: bool = False, view: LiveView | None = None
) -> StudyResult:
    """Run what is left of a prepared study, with one driver at a time."""
    interrupts, view = Interrupts(), view or LiveView(study.plan)
    lease = Lease(study.folder, interrupts.ask, view.say)
    with lease, interrupts.watched(), _nothing_left(study.folder):
        return StudyRun(study.plan, study.folder, interrupts, view, new_code=new_code).run()


@contextmanager
def _nothing_left(folder: Path) -> Iterator[None]:
    """Remove the folder of a study that ended before its first line."""
    try:
        yield
    except BaseException:
        if not has_begun(folder):
            shutil.rmtree(folder, ignore_errors=True)
        raise


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
        self.page, self.models, self.complete = PageProcess(), ModelProcess(), CompleteLosses(plan)

    def run(self) -> StudyResult:
        """Train what is left, bring MLflow up to date, and rank if nothing is left."""
        with closing(self.page), closing(self.models):
            untracked = self._run(MlflowMirror(self.plan, self.record, say=self.view.say))
            return self._result(untracked)

    def _run(self, mirror: MlflowMirror) -> str:
        """Train what is left, shut everything down, and return what MLflow lacks."""
        ours, untracked = not ray.is_initialized(), ""
        try:
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
        return untracked

    def _train(self, mirror: MlflowMirror) -> None:
        if self.record.past and self.searcher.over and not self.grows:  # only MLflow may lack some
            self._write_config()
            mirror.wait_until_ready()
            return
        with self.view.busy("Starting Ray"), self.interrupts.starting_ray():
            pool = open_slot_pool(self.plan.config, self.view.say, load=self.searcher.load)
        if len([node for node in ray.nodes() if node["Alive"]]) > 1:
            check_nodes(self.folder, ask_nodes(self.folder))
        with self.view.busy("Opening MLflow's store"):
            mirror.wait_until_ready()
        self._begin()
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
        with self.view.running(slots=slots), monitor, self.interrupts.obeyed(), closing(pool):
            self.page.start_later(PAGE_AFTER)
            if config.log_models != "none":
                self.models.start_later(MODELS_AFTER)
            try:
                _tuner(self, pool).fit()
            except Exception as error:  # Tune also writes files of its own
                if not self.callback.meets_obstacle("".join(traceback.format_exception(error))):
                    raise

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
    def obstacle(self) -> Obstacle | None:
        failure = self.record.failure
        return Obstacle("disk_full", str(failure)) if failure else self.callback.obstacle

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
                self.models.ask_models(self.uri, self.folder, self.plan.config.log_models)
        except TrackingError as error:
            if not (self.interrupts.signal or self.obstacle):
                return str(error)
        return ""

    def must_end(self, pool: SlotPool) -> bool:
        """Return whether the study ends now. Tune asks after every event."""
        config = self.plan.config
        pool.slots()  # also tells a growing cluster that nothing is left to start
        if config.log_models == "best" and self.complete.grew(self.record.state):
            self.models.offer(self.uri, self.folder, self.complete.losses)
        if self.is_over:  # while Tune, MLflow and Ray end, the page is written
            self.page.ask(self.folder, config_yaml(config))
        if self.interrupts.stopping and not self.record.state.stopping:
            self.record.note(StudyStopping())
        return self.interrupts.ending or self.obstacle is not None

    def _result(self, untracked: str) -> StudyResult:
        state, uri = self.record.state, self.uri
        written: Page | None = None
        if self.is_over:
            with self.view.busy("Ranking the losses and writing the page"):
                written = self.page.answer() or write_page(
                    read_record(self.folder),
                    folder=self.folder,
                    config_yaml=config_yaml(self.plan.config),
                    maps=False,
                )
            with self.view.busy("Giving the page to MLflow"):
                missed = keep_page(uri, self.plan.config.name, written, self.folder)
            untracked = untracked or missed
            with self.view.busy("Giving the networks to MLflow"):
                which = self.plan.config.log_models
                untracked = untracked or self.models.missing(uri, self.folder, which)
        return StudyResult(
            self.folder,
            uri,
            trials=state.ended,
            failed=state.outcomes["failed"],
            interrupted=not self.is_over,
            rankings=written.rankings if written else [],
            fairness=written.fairness if written else None,
            page=written.files[0] if written else None,
            signal=self.interrupts.signal,
            obstacle=self.obstacle,
            untracked=untracked,
        )


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
