"""Find a loss by name: one of ours, or your own as package.module:NAME; NAME@TAG repeats a loss."""

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

# In the order of their imports: each imports only those before it.
FAIRTRIAL_PACKAGES = ("search_spaces", "trainables", "analysis", "study")


LABELS = "labels_"  # starts the tag of a loss that sees a share of the labels


@dataclass(frozen=True)
class OwnLoss:
    """Hold a loss of your own; package.module:NAME must be one of these."""

    card: LossSpace
    # (classes, size, *, the card's parameters) -> trainables.losses.Objective
    build: Callable[..., Any]


def find_card(name: str) -> LossSpace:
    """Return the card of a loss, or raise ValueError if no loss has that name."""
    return find_own(name).card if ":" in name else pick(LOSSES, untagged(name), "loss")


def untagged(name: str) -> str:
    """Return the name without its tag: triplet@wide -> triplet.

    A tag lets a study have one loss several times, with other settings or other training.
    """
    loss, at, tag = name.partition("@")
    if at and not re.fullmatch(r"[A-Za-z0-9._-]+", tag):
        raise ValueError(
            f"What follows the @ of a loss is a tag of letters, digits, '.', '_' and '-', but got "
            f"'{name}'; write {loss}@1."
        )
    return loss


def labelled_name(loss: str, share: float) -> str:
    """Return the name under which a loss sees this share of the labels: itself if it sees all."""
    if share == 1:
        return loss
    return f"{loss}{'-' if '@' in loss else '@'}{LABELS}{share:g}"


def split_labels(name: str) -> tuple[str, float]:
    """Return the loss and the share of the labels that labelled_name() made a name of."""
    found = re.fullmatch(rf"(.+)[@-]{LABELS}([0-9.e-]+)", name)
    return (found[1], float(found[2])) if found else (name, 1.0)


def find_function(name: str) -> Callable[..., Any]:
    """Return a function of your own by package.module:NAME. Raise ValueError if there is none."""
    found = _import_own(name, "function")
    if not callable(found):
        raise ValueError(f"{name} must be a function, but it is a {type(found).__name__}.")
    function: Callable[..., Any] = found
    return function


def _import_own(name: str, what: str) -> Any:
    """Return what is at package.module:NAME, of an installed module or one in this folder."""
    module, _, attribute = name.partition(":")
    if (first := module.partition(".")[0]) in FAIRTRIAL_PACKAGES:
        raise ValueError(
            f"The module of '{name}' must not be named {first}, as a package of Fair Trial is; "
            f"rename {first}.py."
        )
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)  # last, so that a user's analysis.py does not hide our package
    try:
        return getattr(import_module(module), attribute)
    except Exception as error:  # a module of the user's may raise anything
        raise ValueError(
            f"The {what} '{name}' must be package.module:NAME, but it cannot be imported: {error}."
        ) from None


def find_own(name: str) -> OwnLoss:
    """Return your own loss, from an installed module or one in the current folder."""
    found = _import_own(untagged(name), "loss")
    if not isinstance(found, OwnLoss):
        raise ValueError(
            f"{name} must be an OwnLoss(card, build), but it is a {type(found).__name__}."
        )
    taken = {
        each.name
        for each in signature(found.build).parameters.values()
        if each.kind is each.KEYWORD_ONLY
    }
    if taken != set(found.card.params):
        raise ValueError(
            f"The builder of {name} must take its card's {sorted(found.card.params)} after a *, "
            f"but takes {sorted(taken)}."
        )
    return found
