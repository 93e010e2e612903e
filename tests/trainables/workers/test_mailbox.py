"""The mailbox without Ray: commands, answers, failures and generations, on one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from trainables.workers import mailbox as module
from trainables.workers.mailbox import Answers, Mailbox


async def worker(box: Mailbox, rank: int, work: Callable[[str], Any], token: str = "first") -> str:
    """Serve as trainables.workers.serving does, and return the command that ended it."""
    number = await box.join(rank, f"node {rank}", token)
    while True:
        number, name, _ = await box.next(number)
        if name in ("stop", "abort"):
            return name
        try:
            value = work(name)
        except ValueError as error:
            await box.answer(number, rank, False, str(error))
        else:
            if value is not None:
                await box.answer(number, rank, True, value)


def play(script: Callable[[Mailbox], Coroutine[Any, Any, Any]], world: int = 2) -> Any:
    async def run() -> Any:
        return await asyncio.wait_for(script(Mailbox(world)), 10)

    return asyncio.run(run())


def test_every_worker_answers_in_rank_order():
    async def script(box: Mailbox) -> list[Answers]:
        workers = [
            asyncio.create_task(worker(box, rank, lambda name, rank=rank: f"{name} {rank}"))
            for rank in (1, 0)
        ]
        generation, nodes = await box.gathered()
        assert (generation, nodes) == (1, ["node 0", "node 1"])
        answers = [await box.ask(generation, name, (), seconds=60) for name in ("begin", "step")]
        await box.dismiss()
        assert await asyncio.gather(*workers) == ["stop", "stop"]
        return answers

    begin, step = play(script)
    assert begin == Answers(["begin 0", "begin 1"], {})
    assert step == Answers(["step 0", "step 1"], {})


def failing(name: str) -> str:
    raise ValueError("no such loss")


def test_an_error_of_all_is_the_trials_and_the_group_goes_on():
    async def script(box: Mailbox) -> tuple[Answers, list[str]]:
        workers = [asyncio.create_task(worker(box, rank, failing)) for rank in range(2)]
        generation, _ = await box.gathered()
        answers = await box.ask(generation, "step", (), seconds=60)
        await box.dismiss()
        return answers, await asyncio.gather(*workers)

    answers, endings = play(script)
    assert answers == Answers([], {0: "no such loss", 1: "no such loss"})
    assert endings == ["stop", "stop"]


def test_who_waits_in_vain_for_a_failed_one_is_lost_with_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "GRACE", 0.05)

    async def script(box: Mailbox) -> tuple[Answers, str]:
        first = asyncio.create_task(worker(box, 0, failing))
        # In a collective call that never returns.
        second = asyncio.create_task(worker(box, 1, lambda name: None))
        generation, _ = await box.gathered()
        answers = await box.ask(generation, "step", (), seconds=60)
        second.cancel()
        return answers, await first

    answers, ending = play(script)
    assert answers.lost
    assert answers.errors == {0: "no such loss"}
    assert ending == "abort"


def test_a_worker_that_joins_again_means_that_the_command_was_lost():
    async def script(box: Mailbox) -> tuple[Answers, Answers, Answers]:
        old = [asyncio.create_task(worker(box, rank, lambda name: None)) for rank in range(2)]
        generation, _ = await box.gathered()
        asked = asyncio.create_task(box.ask(generation, "step", (), seconds=60))
        await asyncio.sleep(0)
        for task in old:
            task.cancel()
        new = [
            asyncio.create_task(worker(box, rank, lambda name: name, "second")) for rank in range(2)
        ]
        lost = await asked
        now, _ = await box.gathered()
        assert now == generation + 1
        stale, fresh = (
            await box.ask(generation, "step", (), seconds=60),
            await box.ask(now, "begin", (), seconds=60),
        )
        await box.dismiss()
        await asyncio.gather(*new)
        return lost, stale, fresh

    lost, stale, fresh = play(script)
    assert lost.lost
    assert stale.lost
    assert fresh == Answers(["begin", "begin"], {})


def test_nothing_is_asked_of_a_group_that_is_not_complete():
    async def script(box: Mailbox) -> Answers:
        await box.join(0, "node 0", "first")
        answers: Answers = await box.ask(1, "step", (), seconds=60)
        return answers

    assert play(script).lost


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_who_came_up_before_a_worker_died_is_not_waited_for(order: tuple[int, int]):
    """Rank 0 was there, rank 1 died on its way; both start anew, in any order."""

    async def script(box: Mailbox) -> Answers:
        await box.join(0, "a node that is gone", "first")
        new = []
        for rank in order:
            new.append(
                asyncio.create_task(
                    worker(box, rank, lambda name, rank=rank: f"{name} {rank}", "second")
                )
            )
            await asyncio.sleep(0)
        generation, nodes = await box.gathered()
        assert nodes == ["node 0", "node 1"]
        answers = await box.ask(generation, "step", (), seconds=60)
        await box.dismiss()
        await asyncio.gather(*new)
        return answers

    assert play(script) == Answers(["step 0", "step 1"], {})


def test_a_group_that_has_to_restart_is_not_there_until_it_has(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(module, "GRACE", 0.05)

    async def script(box: Mailbox) -> None:
        first, second = (
            asyncio.create_task(worker(box, rank, work))
            for rank, work in enumerate((failing, lambda name: None))
        )
        generation, _ = await box.gathered()
        assert (await box.ask(generation, "step", (), seconds=60)).lost
        there = asyncio.create_task(box.gathered())
        for _ in range(10):
            await asyncio.sleep(0)  # a turn for everyone
        assert not there.done()
        for rank in range(2):
            await box.join(rank, "new", "second")
        assert await there == (box.generation, ["new", "new"])
        second.cancel()
        await first

    play(script)


def test_a_worker_that_does_not_answer_in_time_is_named_and_the_others_restart():
    async def script(box: Mailbox) -> Answers:
        prompt = asyncio.create_task(worker(box, 0, lambda name: name))
        await box.join(1, "node 1", "first", "the actor that hangs")
        generation, _ = await box.gathered()
        answers: Answers = await box.ask(generation, "step", (), seconds=0.05)
        assert await prompt == "abort"
        return answers

    assert play(script) == Answers([], {}, lost=True, late=["the actor that hangs"])
