"""Helpers that tests share: synthetic studies, slow derivations, drivers to kill, invariants."""

from pathlib import Path

ROOT = Path(__file__).parents[2]  # of the repository
