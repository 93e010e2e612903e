"""Identify a trial: the one place that knows how ledger, MLflow and folders name it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal, get_args

from trainables.contract import Cell, Phase

Role = Literal["search", "finalist", "final", "published", "refit", "published_refit"]
REFITS: dict[Role, Role] = {"final": "refit", "published": "published_refit"}
_NAME = re.compile(rf"({'|'.join(get_args(Role))})-(\d+)(?:-replicate(\d+))?(?:-round(\d+))?")


@dataclass(frozen=True)
class TrialId:
    """Name one trial of a study.

    number: a search trial's place in its search, a finalist's place in its race, any other trial's
    seed in the first replicate.
    replicate: which repetition of the whole pipeline it belongs to, from 1 on. round: how often a
    search grew and chose another setting, so that its final trials ran again.
    """

    cell: Cell
    role: Role
    number: int
    replicate: int = 1
    round: int = 1

    def __str__(self) -> str:
        return f"{self.cell}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> TrialId:
        """Return the trial that str() wrote as this text."""
        dataset, _, rest = text.partition("/")
        rest, _, name = rest.rpartition("/")
        rest, _, protocol = rest.rpartition("/")
        network, _, loss = rest.rpartition("/")
        backbone, _, size = network.rpartition("-")
        found = _NAME.fullmatch(name)
        if not found or not size.isdigit():
            raise ValueError(f"'{text}' does not name a trial.")
        cell = Cell(dataset, backbone, int(size), loss, protocol)
        numbers = (int(found[2]), int(found[3] or 1), int(found[4] or 1))
        return cls(cell, found[1], *numbers)  # type: ignore[arg-type]

    @property
    def name(self) -> str:
        """Return its name within its cell: search-3, final-1-replicate2, refit-1-round2."""
        more = {"replicate": self.replicate, "round": self.round}
        parts = [f"-{word}{number}" for word, number in more.items() if number > 1]
        return "".join([f"{self.role}-{self.number}", *parts])

    @property
    def phase(self) -> Phase:
        return "search" if self.role in ("search", "finalist") else "final"

    @property
    def is_published_setting(self) -> bool:
        """Return whether it is the first trial of a search, which tries the published setting."""
        return self.role == "search" and self.number == 0

    @property
    def folder(self) -> str:
        """Return the name of its folders: kept files, checkpoints."""
        return folder_of(str(self))

    def refit(self) -> TrialId:
        """Return the trial that trains on all train classes after this final trial."""
        return replace(self, role=REFITS[self.role])


def folder_of(trial: str) -> str:
    """Return the folder name of a trial whose identity is this text."""
    return re.sub(r"[^\w.@-]+", "-", trial)
