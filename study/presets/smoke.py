"""What --smoke makes of a study: every part of the road on small drawings, in a minute or two."""

from collections.abc import Mapping
from typing import Any

from search_spaces import untagged

FEW = 8  # cells, up to which a smoke study has two reproductions of each

# In place of a study's own values. The tiny network learns nothing here; it only has to pass everywhere.
SMOKE: dict[str, Any] = {
    "dataset": ["sketches"],
    "data_root": None,
    "train_classes": [],
    "test_classes": [],
    "exclude": [],
    "max_classes": 40,  # shares of 0.3 to 0.05 still hold out different numbers of them, two at least
    "split_file": None,
    "where": [],
    "leave_out": [],
    "backbone": ["tiny"],
    "weights": "none",
    "pooling": "grid",
    "image_size": None,
    "embedding_size": [16],
    "folds": 2,
    "search_trials": 2,
    "search_epochs": None,
    "grace": 1,
    "reduction": 2,
    "reproductions": 2,
    "epochs": 2,
    "warm_up": 0,
    "steps_per_epoch": 2,
    "batch_size": 20,
    "images_per_class": 2,
}


def shrink(values: Mapping[str, Any]) -> dict[str, Any]:
    """SMOKE, and what of a study's own axes is left: all losses and protocols, k_fold with two folds, each once.

    Grids keep both ends. A tag that has settings of its own stays; the others told apart only what is gone.
    """
    named = values.get("settings") or {}
    losses = [loss if loss in named else untagged(str(loss)) for loss in _several(values.get("losses", ()))]
    folds = f"k_fold:{SMOKE['folds']}"
    protocols = [folds if str(name).partition(":")[0] == "k_fold" else name for name in _several(values.get("protocols", ()))]
    axes = {"losses": list(dict.fromkeys(losses)), "protocols": list(dict.fromkeys(protocols))}
    few = len(axes["losses"]) * len(axes["protocols"]) <= FEW
    own = values.get("reproductions")
    reproductions = min(SMOKE["reproductions"] if few else 1, own if isinstance(own, int) else SMOKE["reproductions"])
    changed = {key: names for key, names in axes.items() if names and names != _several(values[key])}
    return SMOKE | changed | {"reproductions": reproductions, "grid_levels": 2}


def _several(value: Any) -> list[Any]:
    """As the keys read it; what is neither is refused there."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return list(value) if isinstance(value, (list, tuple)) else [value]
