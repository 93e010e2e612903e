"""A Ray Train worker group that serves a slot trial after trial. The only place that says TorchTrainer."""

from __future__ import annotations

import os
import shutil
import threading
import time
import traceback
import uuid
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from trainables.artifacts import merge
from trainables.contract import Crew, EpochRow, TrialSpec
from trainables.mailbox import Answers, Mailbox, OutOfMemory
from trainables.process import take_gpus
from trainables.worker import Worker, exhausted, told

RESTARTS = 1  # of the workers, by Ray Train itself; then it ends and says why, and the next return begins with a new one
RETURNS = 3  # times that a group may be lost within one command before the trial is
IDLE = 30.0  # seconds at rest after which the workers go: another slot may be waiting for their place
STOP = 4.0  # seconds that the workers get to go by themselves; Tune waits for five
for _name, _value in {
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",  # how soon a dead worker is noticed; Ray says 2
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",  # one process less: every epoch is saved anyway
    "RAY_TRAIN_METRICS_ENABLED": "0",
}.items():
    os.environ.setdefault(_name, _value)


class TrialError(RuntimeError):
    """The workers are well, but the trial raised an error in one of them."""


class Exhausted(TrialError):
    """A worker's GPU was too small for the trial. The others may have waited for it in vain; then all of them come up anew."""


class GroupLost(RuntimeError):
    """A worker or its node is gone, or the workers are out of step."""


class Group:
    """A Worker to its slot, and n of them behind it, on any nodes. Lost workers come back, and the trial goes on where it was saved."""

    def __init__(self, crew: Crew, worker: type[Worker] = Worker) -> None:
        self.crew, self.worker = crew, worker
        self.lock = threading.Lock()  # between a command and the clock that ends an idle group
        self.clock: threading.Timer | None = None
        self.mailbox: Any = None
        self.nodes: list[str] = []  # of the workers, by rank

    def begin(self, spec: TrialSpec) -> None:
        self.load_from(spec, None)

    def load(self, state: dict[str, Any]) -> None:
        self.load_from(self.spec, state)

    def load_from(self, spec: TrialSpec, state: dict[str, Any] | None) -> None:
        """Only noted: the workers hear of it with the next command."""
        self.spec, self.state = spec, state
        self.since: list[str] = []  # commands after the state
        self.begun = self.ended = False

    def step(self) -> dict[str, Any]:
        """One epoch. A search trial that runs out of memory ends here, whichever worker it was: no worker has to tell the others."""
        began = time.perf_counter()
        try:
            result: dict[str, Any] = self._do("step")[0]
        except Exhausted:
            if self.spec.phase != "search":
                raise
            return told(self._end_exhausted(time.perf_counter() - began))
        if "chosen_epoch" in result and not self.since:  # workers that come up anew announce a reading before they read
            self.since.append("step")
        self.since.append("step")
        return result | ({"again": self.again} if self.again else {})

    def _end_exhausted(self, seconds: float) -> EpochRow:
        state = self.state or {"folds": {}, "best": [(-1.0, 0) for _ in self.spec.splits], "rows": []}
        row = exhausted(self.spec, state["best"], epoch=len(state["rows"]) + len(self.since) + 1, seconds=seconds)
        self.state, self.ended = {**state, "rows": [*state["rows"], asdict(row)]}, True
        return row

    def save(self) -> dict[str, Any]:
        """A trial that sees test classes does not do again in silence what a lost group did: Tune begins it anew, and readings are told."""
        if self.ended:
            return {"state": self.state, "artifacts": {}}
        sees_test = self.spec.phase == "final" or self.spec.peeks
        saved = merge(self._do("save", returns=1 if sees_test else None))
        self.state, self.since = saved["state"], []
        return saved

    def rest(self) -> None:
        """Nothing is asked of the workers now. A command that comes in time finds them as they are."""
        with self.lock:
            self._stop_clock()
            self.clock = threading.Timer(IDLE, self._rested)
            self.clock.daemon = True
            self.clock.start()

    def _do(self, name: str, *, returns: int | None = None) -> list[Any]:
        """One command; if the group is lost, the same again in the next one, from where the trial was saved."""
        with self.lock:
            self._stop_clock()
            self.again = 0  # times that a group was lost which had begun: what it did was done again
            lost = 0
            while True:
                try:
                    return self._try(name)
                except GroupLost:
                    lost += 1
                    self.again += self.begun
                    self.begun = False
                    if lost >= (returns or RETURNS):
                        raise

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
                self._ask("load", [ray.put(self.state)])  # in a list: the workers fetch it, not the mailbox
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
        """The answer, unless Ray Train gives up before."""
        while True:
            ready, _ = ray.wait([news], timeout=1.0)
            if ready:
                return ray.get(news)
            if not self.thread.is_alive():
                ray.kill(self.mailbox)
                self.mailbox = None
                raise GroupLost(f"Ray Train ended: {self.ending}")

    def _start(self) -> None:
        """The workers come up while the mailbox already waits for them; their start-up is not waited for here."""
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)  # so that it ends with the slot
        self.mailbox = ray.remote(num_cpus=0)(Mailbox).options(scheduling_strategy=here).remote(self.crew.workers)
        self.name = uuid.uuid4().hex[:12]
        self.ending = "without a word"
        self.thread = threading.Thread(target=self._run, args=(self.mailbox, self.name), daemon=True)
        self.thread.start()

    def _run(self, mailbox: Any, name: str) -> None:
        from ray.train import FailureConfig, RunConfig, ScalingConfig
        from ray.train.torch import TorchConfig, TorchTrainer

        try:
            TorchTrainer(
                serve,
                train_loop_config={"mailbox": mailbox, "worker": self.worker, "gpus": self.crew.gpus},
                torch_config=TorchConfig(backend=_backend(self.crew)),
                scaling_config=ScalingConfig(
                    num_workers=self.crew.workers, use_gpu=self.crew.gpus > 0, resources_per_worker=self.crew.worker
                ),
                run_config=RunConfig(
                    name=name,
                    storage_path=self.crew.folder,
                    failure_config=FailureConfig(max_failures=RESTARTS),
                ),
            ).fit()
        except Exception as error:
            self.ending = str(error)
        finally:
            shutil.rmtree(Path(self.crew.folder) / name, ignore_errors=True)

    def stop(self) -> None:
        """Let the workers go. The group can be used again: the next command brings up new ones."""
        with self.lock:
            self._dismiss()

    def _rested(self) -> None:
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
        shutil.rmtree(Path(self.crew.folder) / self.name, ignore_errors=True)

    def _stop_clock(self) -> None:
        if self.clock:
            self.clock.cancel()
            self.clock = None


def _backend(crew: Crew) -> str:
    """nccl wants a GPU for each worker alone; what is no tensor goes by gloo."""
    return "cpu:gloo,cuda:nccl" if crew.gpus >= 1 else "gloo"


def serve(config: dict[str, Any]) -> None:
    """What each Ray Train worker does until it is told to stop, or no one is left to tell it."""
    with suppress(ray.exceptions.RayActorError):
        _serve(config)


def _serve(config: dict[str, Any]) -> None:
    import torch
    from ray import train

    from trainables.team import Team

    take_gpus(config["gpus"])
    mailbox, context = config["mailbox"], train.get_context()
    team = Team(context.get_world_rank(), context.get_world_size())
    worker = config["worker"](team)
    token = team.everyone(uuid.uuid4().hex)[0]
    number = ray.get(mailbox.join.remote(team.rank, ray.get_runtime_context().get_node_id(), token))
    while True:
        number, name, payload = ray.get(mailbox.next.remote(number))
        if name == "stop":
            return
        if name == "abort":
            raise GroupLost("Another worker failed and this one could not go on without it.")  # Ray Train starts all anew
        try:
            well, value = True, _obey(worker, name, payload)
        except torch.OutOfMemoryError:
            well, value = False, OutOfMemory(traceback.format_exc())
        except Exception:
            well, value = False, traceback.format_exc()
        ray.get(mailbox.answer.remote(number, team.rank, well, value))


def _obey(worker: Worker, name: str, payload: tuple[Any, ...]) -> Any:
    """Large things travel through the object store, from node to node."""
    if name == "load":
        return worker.load(ray.get(payload[0][0]))
    if name == "save":
        return [ray.put(worker.save())]
    return getattr(worker, name)(*payload)
