"""Shrink a study to small drawings for --smoke, so that all of it runs in a minute or two."""

from collections.abc import Iterable, Mapping
from typing import Any

from search_spaces import untagged
from search_spaces.training import AUTO

FEW = 8  # a smoke study with at most so many cells may run each twice

# These replace a study's own values. The tiny network learns nothing; it only has to run.
SMOKE: dict[str, Any] = {
    "dataset": ["sketches"],
    "data_root": None,
    "train_classes": [],
    "test_classes": [],
    "exclude": [],
    # shares of 0.3 to 0.05 still hold out different numbers of them, two at least
    "max_classes": 40,
    "split_file": None,
    "where": [],
    "leave_out": [],
    "train": "all",
    "views": 0,
    "backbone": ["tiny"],
    "weights": "none",
    "pooling": "grid",
    "image_size": None,
    "embedding_size": [16],
    "folds": 2,
    "searches": 2,
    "search_trials": 2,
    "search_epochs": None,
    "grace": 1,
    "reduction": 2,
    "reproductions": 1,
    "epochs": 2,
    "warm_up": 0,
    "steps_per_epoch": 2,
    "batch_size": 20,
    "images_per_class": 2,
}


# Of `where` a smoke study keeps these for losses with a tag, because they are what the tag means.
MEANT = ("label_fraction", "memory", "batches", "normalize")

# A study of heads needs a trunk with weights: the one that ships.
FROZEN: dict[str, Any] = {
    "train": "head",
    "backbone": ["small"],
    "weights": "pretrained",
    "pooling": "gap-gmp",
}


def shrink(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return SMOKE with the study's own losses and protocols, each once and k_fold with two folds.

    Grids keep both ends. A tag that has its own settings, or an entry of `where` that is kept,
    stays; the others differed only in values that are gone.
    """
    where = _kept(values.get("where") or ())
    named = {*(values.get("settings") or {}), *(loss for each in where for loss in each["loss"])}
    losses = [
        loss if loss in named else untagged(str(loss)) for loss in several(values.get("losses", ()))
    ]
    folds = f"k_fold:{SMOKE['folds']}"
    protocols = [
        folds
        if str(name).partition(":")[0] == "k_fold"
        else "fixed_validation"
        if name == AUTO
        else name
        for name in several(values.get("protocols", ()))
    ]
    frozen = FROZEN if values.get("train") in ("head", AUTO) else {}
    axes = {"losses": list(dict.fromkeys(losses)), "protocols": list(dict.fromkeys(protocols))}
    few = len(axes["losses"]) * len(axes["protocols"]) <= FEW
    repeats = {key: _at_most(values, key, few=few) for key in ("searches", "reproductions")}
    changed = {key: names for key, names in axes.items() if names and names != several(values[key])}
    return SMOKE | changed | repeats | frozen | {"grid_levels": 2, "where": where}


def _kept(entries: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what entries of `where` say about losses with a tag, as far as a smoke study can."""
    found = []
    for entry in entries:
        tagged = [str(loss) for loss in several(entry.get("loss", ())) if "@" in str(loss)]
        meant = {key: entry[key] for key in MEANT if key in entry}
        if tagged and meant:
            found.append({"loss": tagged, **meant})
    return found


def _at_most(values: Mapping[str, Any], key: str, *, few: bool) -> int:
    """Return the study's own number, but at most two, and one if it has many cells."""
    own = values.get(key, SMOKE[key])
    return min(2 if few else 1, own if isinstance(own, int) else 2)


def several(value: Any) -> list[Any]:
    """Return a list as the keys read it; they refuse anything else."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return list(value) if isinstance(value, (list, tuple)) else [value]
