"""The small actor between a slot and its workers: one command at a time, answered by every one of them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

GRACE = 10.0  # seconds in which the others must answer once one has failed: after that they wait for it in vain


class OutOfMemory(str):
    """The error of a worker whose GPU was too small; any other error is a plain text."""


@dataclass(frozen=True)
class Answers:
    """lost: these workers are gone or out of step, whatever they held. errors: by rank, of a command that failed."""

    values: list[Any]
    errors: dict[int, str]
    lost: bool = False


class Mailbox:
    """Commands have numbers. Workers that come back after a failure are a new generation, which knows nothing of the old one's trial.

    Ray Train starts all of them anew when one is lost; a token that they agree on tells those that came up together from the ones before.
    """

    def __init__(self, world: int) -> None:
        self.world, self.generation, self.token = world, 0, ""
        self.present: dict[int, str] = {}  # rank -> node
        self.number, self.command = 0, ("", ())  # the last one
        self.answers: dict[int, tuple[bool, Any]] = {}  # rank -> whether it went well, what it said
        self.news = asyncio.Condition()

    async def join(self, rank: int, node: str, token: str) -> int:
        """A worker is there; it waits for the command after this one."""
        async with self.news:
            if token != self.token:
                self.token = token
                self._forget()
            self.present[rank] = node
            self.news.notify_all()
            return self.number

    async def next(self, after: int) -> tuple[int, str, tuple[Any, ...]]:
        """The command that follows; returns when there is one."""
        async with self.news:
            await self.news.wait_for(lambda: self.number > after)
            return self.number, *self.command

    async def answer(self, number: int, rank: int, well: bool, value: Any) -> None:
        async with self.news:
            if number == self.number:
                self.answers[rank] = well, value
                self.news.notify_all()

    async def gathered(self) -> tuple[int, list[str]]:
        """The generation and the nodes of its workers; returns when all are there."""
        async with self.news:
            await self.news.wait_for(self._complete)
            return self.generation, [self.present[rank] for rank in range(self.world)]

    async def ask(self, generation: int, name: str, payload: tuple[Any, ...]) -> Answers:
        """One command to all workers of this generation, and what they say."""
        async with self.news:
            if generation != self.generation or not self._complete():
                return Answers([], {}, lost=True)
            self.number, self.command, self.answers = self.number + 1, (name, payload), {}
            self.news.notify_all()
            await self.news.wait_for(lambda: self._settled(generation) or bool(self._errors()))
            if not self._settled(generation):  # one has failed
                await self._wait_for_the_others(generation)
            errors = self._errors()
            lost = generation != self.generation or len(self.answers) < self.world
            if lost and generation == self.generation:
                self.number, self.command = self.number + 1, ("abort", ())
                self._forget()
                self.news.notify_all()
            return Answers([] if errors or lost else [self.answers[rank][1] for rank in range(self.world)], errors, lost)

    async def dismiss(self) -> None:
        """The workers may go; no one waits for an answer."""
        async with self.news:
            self.number, self.command = self.number + 1, ("stop", ())
            self.news.notify_all()

    async def _wait_for_the_others(self, generation: int) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self.news.wait_for(lambda: self._settled(generation)), GRACE)

    def _forget(self) -> None:
        """The workers so far: others will come in their place."""
        self.generation += 1
        self.present = {}

    def _complete(self) -> bool:
        return len(self.present) == self.world

    def _settled(self, generation: int) -> bool:
        return len(self.answers) == self.world or generation != self.generation

    def _errors(self) -> dict[int, str]:
        return {rank: value for rank, (well, value) in sorted(self.answers.items()) if not well}
