"""Pass commands from a slot to its workers, one at a time, and collect their answers: an actor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

# Seconds in which the others must answer once one has failed; after that they wait in vain.
GRACE = 10.0


class OutOfMemory(str):
    """Carry the error of a worker whose GPU was too small; any other error is a plain text."""


class TrialError(RuntimeError):
    """Report that the trial raised an error in a worker; the workers still serve."""


class Exhausted(TrialError):
    """Report that a worker's GPU was too small. If the others wait in vain, all restart."""


class GroupLost(RuntimeError):
    """Report that a worker or its node is gone, or that the workers are out of step."""


@dataclass(frozen=True)
class Answers:
    """Hold what all workers answered to one command."""

    values: list[Any]
    errors: dict[int, str]  # by rank, of a command that failed
    lost: bool = False  # the workers are gone or out of step
    late: list[Any] = field(default_factory=list)  # the actors that did not answer in time


class Place(NamedTuple):
    """Say where a worker is."""

    node: str
    device: str  # the model of its GPU, or CPU


class Mailbox:
    """Pass numbered commands to the workers, and their answers back.

    Ray Train restarts all workers when one is lost. The new ones are a new generation, which knows
    nothing of the old one's trial; a token that they agree on identifies a generation.
    """

    def __init__(self, world: int) -> None:
        self.world, self.generation, self.token = world, 0, ""
        self.present: dict[int, tuple[Place, Any]] = {}  # rank -> place, actor
        self.number, self.command = 0, ("", ())  # the last one
        self.answers: dict[int, tuple[bool, Any]] = {}  # rank -> whether it succeeded, its value
        self.news = asyncio.Condition()

    async def join(self, rank: int, place: Place, token: str, actor: Any = None) -> int:
        """Add a worker, which waits for the next command; return the number of the last one."""
        async with self.news:
            if token != self.token:
                self.token = token
                self._forget()
            self.present[rank] = place, actor
            self.news.notify_all()
            return self.number

    async def next(self, after: int) -> tuple[int, str, tuple[Any, ...]]:
        """Wait for the command that follows, and return it with its number."""
        async with self.news:
            await self.news.wait_for(lambda: self.number > after)
            return self.number, *self.command

    async def answer(self, number: int, rank: int, succeeded: bool, value: Any) -> None:
        """Take a worker's answer to this command; drop answers to earlier ones."""
        async with self.news:
            if number == self.number:
                self.answers[rank] = succeeded, value
                self.news.notify_all()

    async def gathered(self) -> tuple[int, list[Place]]:
        """Wait for all workers, and return their generation and their places."""
        async with self.news:
            await self.news.wait_for(self._all_present)
            return self.generation, [self.present[rank][0] for rank in range(self.world)]

    async def ask(
        self, generation: int, name: str, payload: tuple[Any, ...], *, seconds: float
    ) -> Answers:
        """Give one command to all workers of this generation, and return their answers.

        Workers that have not answered after so many seconds are lost, and named.
        """
        async with self.news:
            if generation != self.generation or not self._all_present():
                return Answers([], {}, lost=True)
            self.number, self.command, self.answers = self.number + 1, (name, payload), {}
            self.news.notify_all()
            await self._wait(lambda: self._complete(generation) or bool(self._errors()), seconds)
            if self._errors():
                await self._wait(lambda: self._complete(generation), GRACE)
            errors = self._errors()
            lost = generation != self.generation or len(self.answers) < self.world
            late: list[Any] = []
            if lost and generation == self.generation:
                silent = self.present.keys() - self.answers.keys()
                late = [] if errors else [self.present[rank][1] for rank in sorted(silent)]
                self.number, self.command = self.number + 1, ("abort", ())
                self._forget()
                self.news.notify_all()
            return Answers(
                [] if errors or lost else [self.answers[rank][1] for rank in range(self.world)],
                errors,
                lost,
                late,
            )

    async def dismiss(self) -> None:
        """Tell the workers to stop; no one waits for an answer."""
        async with self.news:
            self.number, self.command = self.number + 1, ("stop", ())
            self.news.notify_all()

    async def _wait(self, holds: Callable[[], bool], seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self.news.wait_for(holds), seconds)

    def _forget(self) -> None:
        """Begin a new generation, of workers that will replace those so far."""
        self.generation += 1
        self.present = {}

    def _all_present(self) -> bool:
        return len(self.present) == self.world

    def _complete(self, generation: int) -> bool:
        """Return whether all have answered, or this generation is over."""
        return len(self.answers) == self.world or generation != self.generation

    def _errors(self) -> dict[int, str]:
        answers = sorted(self.answers.items())
        return {rank: value for rank, (succeeded, value) in answers if not succeeded}
