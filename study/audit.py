"""The audit of a study: one line for each time that test classes were read, by whom and under which rule."""

import csv
import os
from pathlib import Path

from trainables.contract import Rule

COLUMNS = ("cell", "trial", "seed", "epoch", "rule")


class Audit:
    """Appended to and flushed line by line: what was read stays told, whatever happens next."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def note(self, *, cell: str, trial: str, seed: int, epoch: str, rule: Rule) -> None:
        """epoch: of each fold's model, where there are several."""
        fresh = not self.path.exists()
        with self.path.open("a", newline="") as file:
            table = csv.writer(file)
            if fresh:
                table.writerow(COLUMNS)
            table.writerow([cell, trial, seed, epoch, rule])
            file.flush()
            os.fsync(file.fileno())
