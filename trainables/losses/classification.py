"""Builders of the losses over a weight per class."""

from trainables.losses.objective import Builder

BUILDERS: dict[str, Builder] = {}
