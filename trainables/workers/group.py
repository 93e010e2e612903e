"""Serve a slot with one Ray Train worker group for all trials; the only user of TorchTrainer."""

from __future__ import annotations

import os
import shutil
import threading
import time
import uuid
from dataclasses import asdict
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from trainables.contract import EpochRow, TrialSpec
from trainables.outputs.artifacts import merge
from trainables.outputs.checkpoints import newest_whole, said_to_wait, sealed_epoch
from trainables.outputs.saver import SaveProgress
from trainables.workers.mailbox import (
    Answers,
    Exhausted,
    GroupLost,
    Mailbox,
    OutOfMemory,
    Place,
    TrialError,
)
from trainables.workers.placement import WorkerResources, alive_nodes, placement
from trainables.workers.serving import serve
from trainables.workers.worker import Worker, as_result, exhausted

# How often Ray Train itself restarts the workers. Then it ends and says why, and the next try
# starts a new Ray Train run.
RESTARTS = 1
RETURNS = 3  # times that a group may be lost within one command before the trial fails
IDLE = 30.0  # seconds at rest after which the workers end: another slot may need their resources
STOP = 4.0  # seconds that the workers get to end by themselves; Tune waits for five
# Seconds to answer a command: for a trial's first step, for others, times its slowest step.
FIRST_STEP, ANY_COMMAND, SLOWER = 7200.0, 1800.0, 10
for _name, _value in {
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",  # how soon a dead worker is noticed; Ray says 2
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",  # one process less: trials are saved in time
    "RAY_TRAIN_METRICS_ENABLED": "0",
}.items():
    os.environ.setdefault(_name, _value)


class Group:
    """Act as one Worker to its slot, with n of them behind it, on any nodes.

    Lost workers come back, and the trial continues from where it was saved.
    """

    def __init__(self, resources: WorkerResources, worker: type[Worker] = Worker) -> None:
        self.resources, self.worker = resources, worker
        self.lock = threading.Lock()  # between a command and the clock that ends an idle group
        self.clock: threading.Timer | None = None
        self.mailbox: Any = None
        self.places: list[Place] = []  # of the workers, by rank
        self.waiting: Path | None = None  # a file that is there while the workers are not

    def begin(self, spec: TrialSpec) -> None:
        """Note a new trial; the workers get it with the next command."""
        self.spec = spec
        self.saved: list[Path] = []  # its checkpoints, the newest last; it may not be whole yet
        self.epoch = 0  # the last one that was reported
        self.announced = self.has_read = False  # test classes
        self.begun = False
        self.slowest: float | None = None  # seconds of its slowest step so far
        self.exhausted: dict[str, Any] | None = None  # the state of one that ran out of memory

    def resume(self, folder: str) -> None:
        """Note a checkpoint of the trial; the workers read it with the next command."""
        self.saved, self.begun = [Path(folder)], False
        self.epoch = sealed_epoch(Path(folder))

    def step(self) -> dict[str, Any]:
        """Run one epoch. A search trial that runs out of memory in any worker ends here."""
        began = time.perf_counter()
        try:
            results = self._do("step")
        except Exhausted:
            if self.spec.phase != "search":
                raise
            return as_result(self._end_exhausted(time.perf_counter() - began))
        result: dict[str, Any] = results[0]
        self.epoch = result["epoch"]
        self.has_read = "chosen_epoch" in result
        self.announced = self.has_read or "reads" in result
        result["saver"] = SaveProgress.of_all([each["saver"] for each in results])
        return result | ({"again": self.again} if self.again else {})

    def _end_exhausted(self, seconds: float) -> EpochRow:
        best, epoch = [(-1.0, 0) for _ in self.spec.splits], self.epoch + 1
        row = exhausted(self.spec, best, epoch=epoch, seconds=seconds)
        # The rows so far were the workers'; of such a trial nobody reads them.
        self.exhausted = {"folds": {}, "best": best, "rows": [asdict(row)] * epoch}
        return row

    def save(self, folder: str) -> None:
        """Let every rank begin to write its part of a checkpoint into this folder."""
        self._do("save", folder, returns=self._returns())
        self.saved.append(Path(folder))

    def outputs(self) -> dict[str, Any]:
        """Return what the trial leaves: artifacts of a finished final trial, else its state."""
        if self.exhausted:
            return {"state": self.exhausted, "artifacts": {}}
        return merge(self._do("outputs", returns=self._returns()))

    def _returns(self) -> int:
        """Return how many times a group may be lost before a command fails that is no step.

        A trial that sees test classes never silently repeats what a lost group did: it fails, Tune
        begins it again, and every reading of the test classes is recorded.
        """
        return 1 if self.spec.phase == "final" or self.spec.peeks else RETURNS

    def rest(self) -> None:
        """Stop the workers after IDLE seconds, unless a command comes before."""
        with self.lock:
            self._stop_clock()
            self.clock = threading.Timer(IDLE, self._stop_idle)
            self.clock.daemon = True
            self.clock.start()

    def _do(self, name: str, *payload: Any, returns: int | None = None) -> list[Any]:
        """Run one command; if the group is lost, run it in a new one, from the last checkpoint.

        An epoch of a search trial that lacks memory is tried once more in the same way.
        """
        with self.lock:
            self._stop_clock()
            self.again: list[int] = []  # epochs that run again
            lost = 0
            tries = 2 if name == "step" and self.spec.phase == "search" else 1
            while True:
                try:
                    return self._try(name, *payload)
                except GroupLost:
                    lost += 1
                    self._lose_trial()
                    if lost >= (returns or RETURNS):
                        raise
                except Exhausted:
                    tries -= 1
                    self._lose_trial()
                    if not tries:
                        raise

    def _lose_trial(self) -> None:
        """Note that the workers have lost the trial in the middle of an epoch."""
        if self.begun:
            self.again.append(self.epoch + 1)
        self.begun = False

    def _try(self, name: str, *payload: Any) -> list[Any]:
        try:
            answers = self._begin_and_ask(name, *payload)
            return ray.get([ref for (ref,) in answers]) if name == "outputs" else answers
        except ray.exceptions.RayActorError as error:  # the mailbox; its workers go with it
            self.mailbox = None
            raise GroupLost(str(error)) from error
        except ray.exceptions.RayError as error:  # the node that holds what was saved
            raise GroupLost(str(error)) from error

    def _begin_and_ask(self, name: str, *payload: Any) -> list[Any]:
        if not self.mailbox:
            self._start()
        if not self.begun:
            with said_to_wait(self.waiting):
                self.generation, self.places = self._wait(self.mailbox.gathered.remote())
            self._ask("begin", self.spec)
            start = newest_whole(self.saved, epoch=self.epoch)
            reached = sealed_epoch(start) if start else 0
            if start:
                self._ask("resume", str(start))
            self.again += range(reached + 1, self.epoch + 1)
            for _ in range(self._past_steps(reached)):
                self._ask("step")
            self.begun = True
        return self._ask(name, *payload)

    def _past_steps(self, reached: int) -> int:
        """Return how many steps lead from an epoch to where the trial is.

        Workers that continue after the last epoch announce a reading of the test classes again.
        """
        return self.epoch - reached + (self.announced and self.epoch == reached) + self.has_read

    def _ask(self, name: str, *payload: Any) -> list[Any]:
        seconds, began = self._patience(name), time.monotonic()
        ask = self.mailbox.ask.remote
        answers: Answers = self._wait(ask(self.generation, name, payload, seconds=seconds))
        for actor in answers.late:  # Ray Train then restarts all workers
            ray.kill(actor)
        if late := len(answers.late):
            raise GroupLost(f"{late} workers did not answer {name} in {seconds:g} s.")
        if name == "step":
            self.slowest = max(self.slowest or 0.0, time.monotonic() - began)
        said = "\n".join(f"Worker {rank}: {error}" for rank, error in answers.errors.items())
        if any(isinstance(error, OutOfMemory) for error in answers.errors.values()):
            raise Exhausted(said)
        if answers.lost:
            raise GroupLost(said or f"A worker was lost during {name}.")
        if answers.errors:
            raise TrialError(said)
        return answers.values

    def _patience(self, name: str) -> float:
        """Return the seconds that the workers have for a command."""
        if self.slowest is None:
            return FIRST_STEP if name == "step" else ANY_COMMAND
        return max(ANY_COMMAND, SLOWER * self.slowest)

    def _wait(self, news: Any) -> Any:
        """Return the answer. Raise GroupLost if Ray Train gave up before."""
        while True:
            ready, _ = ray.wait([news], timeout=1.0)
            if ready:
                return ray.get(news)
            if not self.thread.is_alive():
                ray.kill(self.mailbox)
                self.mailbox = None
                raise GroupLost(f"Ray Train ended: {self.ending}")

    def _start(self) -> None:
        """Start the mailbox and the workers, without waiting for the workers."""
        # On the slot's node, so that the mailbox ends with the slot.
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        actor = ray.remote(num_cpus=0)(Mailbox).options(scheduling_strategy=here)
        self.mailbox = actor.remote(self.resources.workers)
        self.name = uuid.uuid4().hex[:12]
        self.ending = "it gave no reason"
        self.thread = threading.Thread(
            target=self._run, args=(self.mailbox, self.name), daemon=True
        )
        self.thread.start()

    def _run(self, mailbox: Any, name: str) -> None:
        from ray.train import FailureConfig, RunConfig, ScalingConfig
        from ray.train.torch import TorchConfig, TorchTrainer

        try:
            TorchTrainer(
                serve,
                train_loop_config={
                    "mailbox": mailbox,
                    "worker": self.worker,
                    "gpus": self.resources.gpus,
                },
                torch_config=TorchConfig(backend=_backend(self.resources)),
                scaling_config=ScalingConfig(
                    num_workers=self.resources.workers,
                    use_gpu=self.resources.gpus > 0,
                    resources_per_worker=self.resources.worker,
                    placement_strategy=placement(alive_nodes(), self.resources),
                ),
                run_config=RunConfig(
                    name=name,
                    storage_path=self.resources.folder,
                    failure_config=FailureConfig(max_failures=RESTARTS),
                ),
            ).fit()
        except Exception as error:
            self.ending = str(error)
        finally:
            shutil.rmtree(Path(self.resources.folder) / name, ignore_errors=True)

    def stop(self) -> None:
        """Stop the workers. The group can be used again: the next command starts new ones."""
        with self.lock:
            self._dismiss()

    def _stop_idle(self) -> None:
        with self.lock:
            if self.clock is threading.current_thread():  # else a command came in between
                self._dismiss()

    def _dismiss(self) -> None:
        self._stop_clock()
        if not self.mailbox:
            return
        self.mailbox.dismiss.remote()
        self.thread.join(STOP)
        ray.kill(self.mailbox)
        self.mailbox, self.begun = None, False
        shutil.rmtree(Path(self.resources.folder) / self.name, ignore_errors=True)

    def _stop_clock(self) -> None:
        if self.clock:
            self.clock.cancel()
            self.clock = None


def _backend(resources: WorkerResources) -> str:
    """Return torch's backend: nccl needs a whole GPU per worker, and objects travel by gloo."""
    return "cpu:gloo,cuda:nccl" if resources.gpus >= 1 else "gloo"
