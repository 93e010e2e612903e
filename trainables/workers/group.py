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

from trainables.contract import EpochRow, TrialSpec, WorkerResources
from trainables.outputs.artifacts import merge
from trainables.workers.mailbox import (
    Answers,
    Exhausted,
    GroupLost,
    Mailbox,
    OutOfMemory,
    TrialError,
)
from trainables.workers.serving import serve
from trainables.workers.worker import Worker, as_result, exhausted

# How often Ray Train itself restarts the workers. Then it ends and says why, and the next try
# starts a new Ray Train run.
RESTARTS = 1
RETURNS = 3  # times that a group may be lost within one command before the trial fails
IDLE = 30.0  # seconds at rest after which the workers end: another slot may need their resources
STOP = 4.0  # seconds that the workers get to end by themselves; Tune waits for five
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
        self.nodes: list[str] = []  # of the workers, by rank

    def begin(self, spec: TrialSpec) -> None:
        """Note a new trial; the workers get it with the next command."""
        self._note(spec, None)

    def load(self, state: dict[str, Any]) -> None:
        """Note a saved state of the trial; the workers get it with the next command."""
        self._note(self.spec, state)

    def _note(self, spec: TrialSpec, state: dict[str, Any] | None) -> None:
        self.spec, self.state = spec, state
        self.since: list[str] = []  # commands after the state
        self.begun = self.ended = False

    def step(self) -> dict[str, Any]:
        """Run one epoch. A search trial that runs out of memory in any worker ends here."""
        began = time.perf_counter()
        try:
            result: dict[str, Any] = self._do("step")[0]
        except Exhausted:
            if self.spec.phase != "search":
                raise
            return as_result(self._end_exhausted(time.perf_counter() - began))
        # Workers that restart announce a reading of the test classes before they read.
        if "chosen_epoch" in result and not self.since:
            self.since.append("step")
        self.since.append("step")
        return result | ({"again": self.again} if self.again else {})

    def _end_exhausted(self, seconds: float) -> EpochRow:
        state = self.state or {
            "folds": {},
            "best": [(-1.0, 0) for _ in self.spec.splits],
            "rows": [],
        }
        row = exhausted(
            self.spec,
            state["best"],
            epoch=len(state["rows"]) + len(self.since) + 1,
            seconds=seconds,
        )
        # The rows since the last save were the workers'; of such a trial nobody reads them.
        missing = [asdict(row)] * (len(self.since) + 1)
        self.state, self.ended = {**state, "rows": [*state["rows"], *missing]}, True
        return row

    def save(self) -> dict[str, Any]:
        """Return the state of the trial and its artifacts.

        A trial that sees test classes never silently repeats what a lost group did: it fails, Tune
        begins it again, and every reading of the test classes is recorded.
        """
        if self.ended:
            return {"state": self.state, "artifacts": {}}
        sees_test = self.spec.phase == "final" or self.spec.peeks
        saved = merge(self._do("save", returns=1 if sees_test else None))
        self.state, self.since = saved["state"], []
        return saved

    def rest(self) -> None:
        """Stop the workers after IDLE seconds, unless a command comes before."""
        with self.lock:
            self._stop_clock()
            self.clock = threading.Timer(IDLE, self._stop_idle)
            self.clock.daemon = True
            self.clock.start()

    def _do(self, name: str, *, returns: int | None = None) -> list[Any]:
        """Run one command; if the group is lost, run it in a new one, from the last saved state."""
        with self.lock:
            self._stop_clock()
            self.again: list[int] = []  # epochs that run again, because a group was lost
            lost = 0
            while True:
                try:
                    return self._try(name)
                except GroupLost:
                    lost += 1
                    if self.begun:
                        self.again.append(self._epochs() + len(self.since) + 1)
                    self.begun = False
                    if lost >= (returns or RETURNS):
                        raise

    def _epochs(self) -> int:
        """Return how many epochs the saved state has."""
        return len(self.state["rows"]) if self.state else 0

    def _try(self, name: str) -> list[Any]:
        try:
            answers = self._begin_and_ask(name)
            return ray.get([ref for (ref,) in answers]) if name == "save" else answers
        except ray.exceptions.RayActorError as error:  # the mailbox; its workers go with it
            self.mailbox = None
            raise GroupLost(str(error)) from error
        except ray.exceptions.RayError as error:  # the node that holds what was saved
            raise GroupLost(str(error)) from error

    def _begin_and_ask(self, name: str) -> list[Any]:
        if not self.mailbox:
            self._start()
        if not self.begun:
            self.generation, self.nodes = self._wait(self.mailbox.gathered.remote())
            self._ask("begin", self.spec)
            if self.state is not None:
                self._ask("load", [ray.put(self.state)])  # in a list, so that the workers fetch it
            self.again += range(self._epochs() + 1, self._epochs() + len(self.since) + 1)
            for past in self.since:
                self._ask(past)
            self.begun = True
        return self._ask(name)

    def _ask(self, name: str, *payload: Any) -> list[Any]:
        answers: Answers = self._wait(self.mailbox.ask.remote(self.generation, name, payload))
        said = "\n".join(f"Worker {rank}: {error}" for rank, error in answers.errors.items())
        if any(isinstance(error, OutOfMemory) for error in answers.errors.values()):
            self.begun = False
            raise Exhausted(said)
        if answers.lost:
            raise GroupLost(said or f"A worker was lost during {name}.")
        if answers.errors:
            raise TrialError(said)
        return answers.values

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
        self.mailbox = (
            ray.remote(num_cpus=0)(Mailbox)
            .options(scheduling_strategy=here)
            .remote(self.resources.workers)
        )
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
