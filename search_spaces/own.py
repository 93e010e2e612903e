"""Losses by name: one of ours, or one of your own as package.module:NAME; with @TAG behind it, the same loss again in a study."""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

from search_spaces.losses import LOSSES
from search_spaces.space import LossSpace, pick

OURS = ("search_spaces", "trainables", "analysis", "study")


@dataclass(frozen=True)
class OwnLoss:
    """What package.module:NAME must be: a card, and build(classes, size, *, the card's parameters) -> trainables.losses.Objective."""

    card: LossSpace
    build: Callable[..., Any]


def find_card(name: str) -> LossSpace:
    """The card of a loss. ValueError: there is none of that name."""
    return find_own(name).card if ":" in name else pick(LOSSES, untagged(name), "loss")


def untagged(name: str) -> str:
    """triplet@wide -> triplet: a tag lets a study have one loss several times, with other settings or other training."""
    loss, at, tag = name.partition("@")
    if at and not re.fullmatch(r"[A-Za-z0-9._-]+", tag):
        raise ValueError(f"What follows the @ of a loss is a tag of letters, digits, '.', '_' and '-', but got '{name}'; write {loss}@1.")
    return loss


def find_own(name: str) -> OwnLoss:
    """Return your own loss. Modules in the folder where the program was started are found, too, after all that is installed."""
    module, _, attribute = untagged(name).partition(":")
    if (first := module.partition(".")[0]) in OURS:
        raise ValueError(f"The module of '{name}' must not be named {first}, as a package of Fair Trial is; rename {first}.py.")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)  # last: a user's analysis.py must not stand in for our package of that name
    try:
        found = getattr(import_module(module), attribute)
    except Exception as error:  # a module of the user's may raise anything
        raise ValueError(f"The loss '{name}' must be package.module:NAME, but it cannot be imported: {error}.") from None
    if not isinstance(found, OwnLoss):
        raise ValueError(f"{name} must be an OwnLoss(card, build), but it is a {type(found).__name__}.")
    taken = {each.name for each in signature(found.build).parameters.values() if each.kind is each.KEYWORD_ONLY}
    if taken != set(found.card.params):
        raise ValueError(f"The builder of {name} must take its card's {sorted(found.card.params)} after a *, but takes {sorted(taken)}.")
    return found
