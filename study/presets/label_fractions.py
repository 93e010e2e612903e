"""Make an axis of label_fraction: repeat every loss, as LOSS@labels_0.1, for each of its values."""

from collections.abc import Mapping, Sequence
from typing import Any

from search_spaces.own import labelled_name
from study.presets.smoke import several

KEY = "label_fraction"


def repeat_losses(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a study that change because its label_fraction has several values.

    Each loss is repeated for each of them, with the settings and the entries of `where` and
    `leave_out` that are its own; a fraction of 1 leaves its name as it is.
    """
    fractions = several(values.get(KEY, 1))
    if len(fractions) < 2:
        return {KEY: fractions[0]} if fractions and KEY in values else {}
    try:
        shares = [float(each) for each in fractions]
    except ValueError:
        raise ValueError(
            f"label_fraction takes shares of the labels, as in 0.1,1, but got {fractions}."
        ) from None
    losses = [str(loss) for loss in several(values.get("losses", ()))]
    names = {loss: [labelled_name(loss, share) for share in shares] for loss in losses}
    entries = {
        key: [_for_all(entry, names) for entry in values.get(key) or ()]
        for key in ("where", "leave_out")
    }
    settings = values.get("settings") or {}
    own = [
        {"loss": [labelled_name(loss, share) for loss in losses], KEY: share}
        for share in shares
        if share != 1
    ]
    return {
        KEY: 1.0,
        "losses": [name for loss in losses for name in names[loss]],
        "where": [*entries["where"], *own],
        "leave_out": entries["leave_out"],
        "settings": {
            name: dict(setting)
            for loss, setting in settings.items()
            for name in names.get(loss, [loss])
        },
    }


def _for_all(entry: Mapping[str, Any], names: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the entry for every repetition of the losses that it names."""
    if "loss" not in entry:
        return dict(entry)
    repeated = [name for loss in several(entry["loss"]) for name in names.get(loss, [loss])]
    return {**entry, "loss": repeated}
