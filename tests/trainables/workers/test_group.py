"""Ray Train groups give the numbers of one process, trial after trial, and recover from faults."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray
import torch
from ray import cloudpickle

from tests.support.actors import our_actors
from tests.support.specs import SPLIT, final, search
from tests.support.waiting import await_that
from trainables.contract import Split, TrialSpec
from trainables.outputs.artifacts import read_state, write_outputs
from trainables.outputs.checkpoints import epoch_of, new_checkpoint
from trainables.workers import group as module
from trainables.workers.group import Group
from trainables.workers.mailbox import Exhausted, GroupLost, TrialError
from trainables.workers.placement import WorkerResources
from trainables.workers.worker import Worker

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("local_ray")]
slow = pytest.mark.slow
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not import tests

OTHER = Split(tuple(range(4, 16)), tuple(range(4)), SPLIT.test)
THIRD = Split(tuple(range(12)), tuple(range(12, 16)), SPLIT.test)
CURVE = "select/recall_at_1"
# Seed -> the ranks that run out of memory, and the epoch in which they do.
EXHAUSTED = {14: ((1,), 2), 15: ((0, 1), 1)}


def usage() -> dict[str, int]:
    """Return the process id, the memory and the open files of this process."""
    gc.collect()
    rss = next(
        int(line.split()[1])
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmRSS")
    )
    return {"pid": os.getpid(), "kilobytes": rss, "files": len(os.listdir("/proc/self/fd"))}


class Probed(Worker):
    """A Worker that reports on its process, and fails on some ranks in the trials of some seeds."""

    mark: Path
    hung: Path

    def usage(self) -> dict[str, int]:
        return usage()

    def step(self) -> dict[str, Any]:
        if self.spec.seed == 13 and self.team.rank == 1 and not self.mark.exists():
            self.mark.touch()
            raise ValueError("stumbled once")
        if self.spec.seed == 16 and self.team.rank == 1 and not self.hung.exists():
            self.hung.touch()
            time.sleep(3600)
        ranks, epoch = EXHAUSTED.get(self.spec.seed, ((), 0))
        if self.team.rank in ranks and len(self.learner.rows) + 1 == epoch:
            raise RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED")
        if self.spec.seed == 17 and self.team.rank == 1 and len(self.learner.rows) == 1:
            full = self.mark.with_name("full")
            if not full.exists():
                full.touch()
                raise torch.OutOfMemoryError("CUDA out of memory")
        return super().step()


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory, local_ray: None) -> Iterator[Group]:
    class Here(Probed):
        mark = tmp_path_factory.mktemp("marks") / "stumbled"
        hung = mark.with_name("hung")

    group = Group(WorkerResources(workers=2, folder=str(tmp_path_factory.mktemp("train"))), Here)
    yield group
    group.stop()


def train(worker: Worker | Group, spec: TrialSpec) -> list[dict[str, Any]]:
    """Return all rows of a trial."""
    worker.begin(spec)
    rows = []
    while not rows or not rows[-1]["done"]:
        rows.append(worker.step())
    return rows


def save(worker: Worker | Group, home: Path) -> Path:
    """Save a trial, and wait until that is on the disk."""
    folder = new_checkpoint(home)
    worker.save(str(folder))
    await_that(lambda: epoch_of(folder) is not None)
    return folder


def curve(rows: list[dict[str, Any]]) -> list[float]:
    return [row["metrics"][CURVE] for row in rows]


def usages(group: Group) -> list[dict[str, int]]:
    return group._do("usage")


@pytest.mark.parametrize(
    "loss", ["contrastive", pytest.param("proxy_anchor", marks=pytest.mark.slow)]
)
def test_two_workers_give_the_curve_of_one(group: Group, loss: str, tmp_path: Path) -> None:
    spec = final(loss, epochs=5, steps_per_epoch=6)
    alone = Worker()
    one, two = train(alone, spec), train(group, spec)
    assert curve(two) == pytest.approx(curve(one), abs=1e-3)
    assert two[-1]["metrics"]["test/recall_at_1"] == pytest.approx(
        one[-1]["metrics"]["test/recall_at_1"], abs=5e-3
    )
    assert two[-1]["metrics"]["test/queries"] == one[-1]["metrics"]["test/queries"] == 360
    write_outputs(tmp_path, group.outputs())
    assert (tmp_path / "queries.csv").read_text().count("\n") == 361


@slow
def test_four_workers_on_two_nodes_give_the_curve_of_one(
    more_nodes: Any, tmp_path: Path, group: Group
) -> None:
    group.stop()
    more_nodes(num_cpus=2)
    four = Group(WorkerResources(workers=4, folder=str(tmp_path)))
    spec = final("multi_similarity", epochs=5, steps_per_epoch=6)
    try:
        assert curve(train(four, spec)) == pytest.approx(curve(train(Worker(), spec)), abs=1e-3)
        assert len({place.node for place in four.places}) == 2
        assert {place.device for place in four.places} == {"CPU"}
    finally:
        four.stop()


def test_splits_are_dealt_out_and_each_is_trained_as_if_alone(group: Group) -> None:
    spec = replace(final("margin"), splits=(SPLIT, OTHER, THIRD))
    one, two = train(Worker(), spec), train(group, spec)
    for mine, theirs in zip(one, two, strict=True):
        assert {**mine["metrics"], "seconds": 0} == {**theirs["metrics"], "seconds": 0}
    assert sorted(group.outputs()["artifacts"]["folds"]) == [0, 1, 2]


def test_a_trial_moves_between_one_worker_and_several_that_write_their_own_parts(
    group: Group, tmp_path: Path
) -> None:
    spec = replace(search("triplet", epochs=4), splits=(SPLIT.sealed(), OTHER.sealed()))
    whole = curve(train(Worker(), spec))
    alone = Worker()
    alone.begin(spec)
    alone.step()
    group.begin(spec)
    group.resume(str(save(alone, tmp_path / "one")))
    group.step()
    saved = save(group, tmp_path / "two")
    written = {path.name for path in saved.iterdir()}
    assert written >= {"fold-0.pt", "fold-1.pt", "seal-0.json", "seal-1.json"}
    again = Worker()
    again.begin(spec)
    again.resume(str(saved))
    assert [again.step()["metrics"][CURVE] for _ in range(2)] == whole[2:]


def test_a_trial_that_cannot_be_built_fails_and_leaves_the_group_as_it_was(group: Group) -> None:
    group.begin(search())
    before = [usage["pid"] for usage in usages(group)]
    group.begin(replace(search(), fingerprint="0123"))
    with pytest.raises(
        TrialError, match=r"(?s)Worker 0: .*Worker 1: .*not those that the study was started with"
    ):
        group.step()
    assert len(train(group, search())) == 3
    assert [usage["pid"] for usage in usages(group)] == before


@pytest.mark.slow
def test_a_killed_worker_comes_back_and_the_trial_goes_on_from_its_last_save(
    group: Group, tmp_path: Path
) -> None:
    spec = search("contrastive", epochs=4)
    whole = curve(train(group, spec))
    victim = usages(group)[1]["pid"]
    group.begin(spec)
    rows = [group.step(), group.step()]
    save(group, tmp_path)
    rows.append(group.step())  # not saved: must be trained again
    os.kill(victim, signal.SIGKILL)
    rows.append(group.step())
    assert rows[-1]["again"] == [4, 3]
    assert curve(rows) == pytest.approx(whole, abs=1e-6)
    assert [row["epoch"] for row in rows] == [1, 2, 3, 4]
    assert victim not in [usage["pid"] for usage in usages(group)]


@slow
def test_a_worker_that_fails_while_the_other_waits_for_it_brings_both_back(group: Group) -> None:
    train(group, search(seed=1))
    before = [usage["pid"] for usage in usages(group)]
    assert len(train(group, search(seed=13))) == 3
    assert not set(before) & {usage["pid"] for usage in usages(group)}


@slow
def test_a_worker_that_hangs_is_ended_at_its_deadline_and_the_trial_goes_on(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = train(group, search(seed=1))
    hangs = usages(group)[1]["pid"]
    monkeypatch.setattr(module, "FIRST_STEP", 30.0)  # the other one waits for its gradients
    rows = train(group, search(seed=16))
    assert [row["epoch"] for row in rows] == [row["epoch"] for row in before]
    assert hangs not in [usage["pid"] for usage in usages(group)]


@slow
def test_a_worker_that_always_hangs_fails_the_trial(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    group.begin(search(seed=1))
    group.step()
    monkeypatch.setattr(module, "ANY_COMMAND", 1e-3)
    monkeypatch.setattr(module, "SLOWER", 0)
    monkeypatch.setattr(module, "RETURNS", 1)
    with pytest.raises(GroupLost, match=r"2 workers did not answer step in 0\.001 s"):
        group.step()


def test_the_deadline_grows_with_the_slowest_step_of_the_trial(tmp_path: Path) -> None:
    group = Group(WorkerResources(workers=2, folder=str(tmp_path)))
    group.begin(search())
    assert [group._patience(name) for name in ("begin", "step")] == [1800, 7200]
    group.slowest = 60.0
    assert group._patience("step") == 1800
    group.slowest = 3600.0
    assert group._patience("step") == 36000
    group.begin(search())
    assert group._patience("step") == 7200, "another trial has another pace"


@slow
@pytest.mark.parametrize("seed", sorted(EXHAUSTED))
def test_a_search_trial_that_is_too_large_for_any_worker_ends_with_the_worst_score(
    group: Group, seed: int, tmp_path: Path
) -> None:
    epoch = EXHAUSTED[seed][1]
    rows = train(group, search(seed=seed))  # the other worker would wait for half an hour
    assert [row["epoch"] for row in rows] == list(range(1, epoch + 1))
    last = rows[-1]
    assert (last["done"], last["out_of_memory"], last["diverged"], last["score"]) == (
        True,
        True,
        False,
        0.0,
    )
    assert last["metrics"].keys() == {"select/best", "seconds"}
    write_outputs(tmp_path, group.outputs())
    again = Worker()
    again.begin(search(seed=seed))
    again.load(read_state(tmp_path))
    assert again.step()["out_of_memory"]  # the result of before
    assert len(train(group, search(seed=1))) == 3  # and the group goes on


@slow
def test_a_final_trial_that_is_too_large_has_failed(group: Group) -> None:
    group.begin(final(seed=15))
    with pytest.raises(Exhausted, match=r"(?s)Worker 0: .*ALLOC_FAILED.*Worker 1: "):
        group.step()


@slow
def test_an_epoch_that_lacked_memory_once_is_tried_again_from_where_the_trial_was_saved(
    group: Group,
) -> None:
    rows, plain = train(group, search(seed=17)), train(Worker(), search(seed=17))
    assert not any(row["out_of_memory"] for row in rows)
    assert [row.get("again") for row in rows] == [None, [2], None]
    assert curve(rows) == pytest.approx(curve(plain), abs=1e-3)


@slow
def test_a_worker_that_fails_every_time_fails_the_trial(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETURNS", 1)
    group.begin(search())
    group.step()
    os.kill(usages(group)[0]["pid"], signal.SIGKILL)
    with pytest.raises(GroupLost):
        group.step()


@slow
@pytest.mark.parametrize("command", ["save", "outputs"])
def test_a_final_trial_whose_save_is_lost_is_not_done_again_in_silence(
    group: Group, tmp_path: Path, command: str
) -> None:
    group.begin(final(seed=1))
    group.step()
    save(group, tmp_path)
    group.step()  # the next save would have it done again
    os.kill(usages(group)[0]["pid"], signal.SIGKILL)
    with pytest.raises(GroupLost):
        group.save(str(new_checkpoint(tmp_path))) if command == "save" else group.outputs()
    assert len(train(group, search(seed=1))) == 3


class Broken(Worker):
    """A worker on whose node something is missing."""

    def __init__(self, team: Any = None) -> None:
        if team.rank:
            raise ImportError("no such library here")
        super().__init__(team)


@slow
def test_workers_that_cannot_start_fail_the_trial_with_the_reason(
    group: Group, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group.stop()  # its place is needed
    monkeypatch.setattr(module, "RETURNS", 1)
    broken = Group(WorkerResources(workers=2, folder=str(tmp_path)), Broken)
    broken.begin(search())
    with pytest.raises(GroupLost, match="no such library here"):
        broken.step()
    await_that(lambda: not our_actors())


@slow
def test_thirty_trials_leave_memory_files_and_actors_where_they_were(group: Group) -> None:
    seen = []
    for seed in range(100, 130):
        train(group, final("proxy_anchor" if seed % 2 else "multi_similarity", seed=seed, epochs=1))
        seen.append((our_actors(), [*usages(group), usage()]))
    (actors, early), (later_actors, later) = seen[2], seen[-1]
    assert Counter(later_actors) <= Counter(actors)  # helpers of an earlier test's workers may go
    for before, after in zip(early, later, strict=True):
        assert after["pid"] == before["pid"]
        assert after["files"] <= before["files"] + 5
        # Of some 700,000; a leaked trial would be 27 times its 2 MB.
        assert after["kilobytes"] < before["kilobytes"] + 30_000


def test_a_trial_that_was_stopped_in_its_middle_leaves_the_same_workers_for_the_next(
    group: Group, tmp_path: Path
) -> None:
    group.begin(search(seed=1))
    group.step()
    save(group, tmp_path)
    before = [usage["pid"] for usage in usages(group)]
    assert curve(train(group, search(seed=2))) == curve(train(Worker(), search(seed=2)))
    assert [usage["pid"] for usage in usages(group)] == before


def test_a_clock_that_rings_while_a_command_runs_ends_nothing(group: Group) -> None:
    group.begin(search())
    group.step()
    before = [usage["pid"] for usage in usages(group)]
    group.rest()
    assert group.clock is not None
    late = group.clock.function
    usages(group)
    late()  # it was waiting for the command to end
    assert [usage["pid"] for usage in usages(group)] == before


@slow
def test_a_dead_mailbox_is_replaced_and_the_trial_goes_on(group: Group, tmp_path: Path) -> None:
    group.begin(search(epochs=2))
    group.step()
    save(group, tmp_path)
    ray.kill(group.mailbox)
    assert group.step()["epoch"] == 2


@slow
def test_an_idle_group_gives_its_place_away_leaves_nothing_and_can_be_used_again(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(module, "IDLE", 0.5)
        group.begin(search())
        group.step()
        group.rest()
    await_that(lambda: not our_actors())
    await_that(lambda: ray.available_resources().get("CPU") == ray.cluster_resources()["CPU"])
    await_that(lambda: not os.listdir(group.resources.folder))
    assert group.step()["epoch"] == 2  # the epoch before was not saved: it is trained again


@slow
def test_a_final_trial_that_loses_its_group_while_it_reads_test_classes_reads_them_again(
    group: Group, tmp_path: Path
) -> None:
    spec = final(seed=1)
    whole = train(Worker(), spec)[-1]["metrics"]["test/recall_at_1"]
    for saves in (True, False):
        group.begin(spec)
        while "reads" not in group.step():
            pass
        if saves:
            save(group, tmp_path)
        os.kill(usages(group)[1]["pid"], signal.SIGKILL)
        last = group.step()
        assert last["done"]
        assert last["metrics"]["test/recall_at_1"] == pytest.approx(whole, abs=5e-3)
