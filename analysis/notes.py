"""What the numbers of a ranking mean: the mark, which variation an interval contains, and which trials diverged."""

from __future__ import annotations

from collections import Counter

import pandas as pd

from analysis.statistics import LEVEL

ENOUGH = 8  # seeds; of ten equal losses whose seeds scatter most, 3 seeds part some two in 43 % of simulated studies, 5 in 17 %, 8 in 12 %


def notes(finals: pd.DataFrame) -> list[str]:
    """finals: the finished final trials of one ranking."""
    own = finals[finals["role"] == "final"]
    seeds = own.groupby(["loss", "rule"])["seed"].nunique() if len(own) else pd.Series([0])
    spread = f"{seeds.min()}" if seeds.min() == seeds.max() else f"{seeds.min()} to {seeds.max()}"
    spread += " seed" if seeds.max() == 1 else " seeds"
    return [
        f"* chosen with test feedback: its {_peeked(own)} picked on the test classes. Never rank it among numbers without the mark.",
        f"[low, high]: {LEVEL:.0%} interval, bootstrap over test classes and {spread} (n - 1 of n drawn); {_fixed(own)}",
        "Rank: by validation-setup Recall@1; in brackets the ranks that a loss may hold: of two that cannot be told apart either"
        " may be ahead.",
        *_letters(own),
        *_few(int(seeds.min())),
        *_beside(finals),
        *_diverged(finals),
        *_extended(finals),
    ]


def _letters(own: pd.DataFrame) -> list[str]:
    if own.loc[~own["peeks"], "loss"].nunique() < 2:
        return []
    return [
        "Losses that share a letter cannot be told apart: the interval of their difference, paired and widened so that those of all pairs"
        f" hold together ({LEVEL:.0%}, max-|t|), leaves zero in."
    ]


def _peeked(own: pd.DataFrame) -> str:
    return "setting, its epoch or both were" if _tuned(own[own["peeks"]]) else "epoch was"


def _fixed(own: pd.DataFrame) -> str:
    """Which variation the interval contains beside that of test classes and seeds, and which it does not."""
    honest = own.assign(split=own.get("split", ""))[~own["peeks"]]
    setting = "searched setting" if _tuned(honest) else "setting"
    if honest.groupby("loss")["split"].nunique().gt(1).any():
        kept = f"each seed has a split of its own, so the interval contains that, too; the {setting} is held fixed."
    else:
        kept = f"the split and the {setting} are held fixed."
    folds = int(honest["folds"].max()) if len(honest) else 1
    if folds == 1:
        return kept
    return f"{kept} The models of the {folds} folds share most train classes: they are averaged, not resampled."


def _tuned(trials: pd.DataFrame) -> bool:
    """Whether a search chose some of their settings; trials of older studies do not tell it."""
    return "tuned" in trials and bool(trials["tuned"].eq(True).any())


def _few(seeds: int) -> list[str]:
    if seeds == 1:
        return ["With one seed the intervals hold no variation between seeds."]
    if seeds == 2:
        return ["With two seeds the intervals are too narrow: they cover the truth about 80 times in 100."]
    if seeds < ENOUGH:
        return [
            f"With {seeds} seeds the intervals are too narrow where seeds differ more than test classes do: losses that are equal may then"
            " have different letters."
        ]
    return []


def _beside(finals: pd.DataFrame) -> list[str]:
    """What is true of some of the numbers that stand beside."""
    found = []
    if finals["role"].str.endswith("refit").any():
        found.append("Refit: trained anew on all train classes, for as many epochs as the trial with held-out classes had chosen.")
    if (finals["folds"] > 1).any():
        found.append("With folds a loss's own number is the mean over their models (separated); concatenated: all of them as one model.")
    return found


def _diverged(finals: pd.DataFrame) -> list[str]:
    if "outcome" not in finals:
        return []
    lost = finals[finals["outcome"] == "diverged"]
    kept = {"refit": "last", "published_refit": "last"}
    read = lost.filter(like="last/").notna().any(axis=1)  # at the last epoch, too
    found = Counter(zip(lost["role"], lost["loss"] + " under " + lost["protocol"], read, strict=True))
    return [
        f"{count} of the {role} trials of {label} diverged; they count with their {kept.get(role, 'best')} epoch before that"
        f"{', and at the last epoch with the weights with which they broke down' if last else ''}."
        for (role, label, last), count in found.items()
    ]


def unsearched_notes(own: pd.DataFrame, searched: set[str]) -> list[str]:
    """Which cells have the published setting though they were searched. own: final trials of losses' own numbers."""
    lost = own[own["cell"].isin(searched) & own.get("tuned", pd.Series(True, index=own.index)).eq(False)]
    return [
        f"{label}: no search trial had a score, so nothing was chosen; its final trials have the published setting."
        for label in dict.fromkeys(lost["loss"] + " under " + lost["protocol"])
    ]


def _extended(finals: pd.DataFrame) -> list[str]:
    added = finals[finals.get("extended", pd.Series(index=finals.index, dtype=object)).notna()]
    if added.empty:
        return []
    losses = ", ".join(dict.fromkeys(added["loss"]))
    return [f"extended-after-test: {len(added)} final trials ({losses}) were added after the test classes had been read."]
