"""Explain a ranking's numbers: the mark, what an interval contains, and which trials diverged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.ranking.measurement import CLOSED_NOTE
from analysis.ranking.readings import of_closed_set
from analysis.statistics import LEVEL
from trainables.contract import FEW_CLASSES, UNTRAINED

SELECT_RECALL = "select/recall_at_1"
SATURATED = 0.98  # Recall@1 on the held-out classes
ONE_SEARCH = (
    "Another search or split may order the losses differently, and the intervals do not contain "
    "that; more searches would repeat them."
)
SOME_ALONE = (
    "A loss with one finished replicate takes the spread of replicates from the other losses; "
    "where they have none to lend, no difference is shown."
)
AVERAGED = "The final trials of one replicate are averaged first."


def notes(finals: pd.DataFrame, *, unit: str) -> list[str]:
    """Return the notes of one ranking.

    finals: its finished final trials. unit: the column that is the unit of replication.
    """
    own = finals[finals["role"] == "final"]
    closed = bool(of_closed_set(own).any())
    star = (
        f"* chosen with test feedback: its {_peeked(own)} picked on the test classes. Never rank "
        f"it among numbers without the mark."
    )
    return [
        CLOSED_NOTE if closed else star,
        *interval_notes(finals, unit=unit),
        f"Rank: by {'closed-set' if closed else 'validation-setup'} Recall@1; in brackets the "
        "ranks that a loss may hold: of two without a shown difference either may be ahead.",
        *_letters(own),
        *_beside(finals),
        *_diverged(finals),
        *_extended(finals),
    ]


def interval_notes(finals: pd.DataFrame, *, unit: str) -> list[str]:
    """Say what the intervals of these final trials contain, and what they do not.

    unit: the column that is the unit of replication.
    """
    own = finals[finals["role"] == "final"] if len(finals) else finals
    own = own[own["rule"] != UNTRAINED] if len(own) else own
    if own.empty:
        return []
    own = own.assign(split=own.get("split", ""))
    said: dict[str, list[str]] = {}
    for protocol, trials in own.groupby("protocol", sort=False):
        said.setdefault(_contains(trials, unit), []).append(str(protocol))
    head = f"[low, high]: {LEVEL:.0%} interval"
    texts = [f"{head}; it contains {text}." for text in said]
    if len(said) > 1:
        under = [f"Under {listed(names)} it contains {text}." for text, names in said.items()]
        texts = [f"{head}. {' '.join(under)}"]
    return [*texts, *_caveats(own, unit)]


def _contains(trials: pd.DataFrame, unit: str) -> str:
    """Return what an interval of one protocol contains. trials: a loss's own, for every loss."""
    counts = trials.groupby("loss")[unit].nunique()
    spread = (
        f"{counts.min()}" if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"
    )
    searched = _tuned(trials)
    peeks = bool((trials["peeks"] | of_closed_set(trials)).all())  # then there is no split to draw
    if counts.max() == 1:
        return f"how test classes vary: there is one {'seed' if unit == 'seed' else 'replicate'}"
    if unit == "seed":
        fixed = ["one search"] * searched + ["one split"] * (not peeks)
        same = f" of {listed(fixed)}" if fixed else ""
        return (
            f"how test classes and initial weights vary; the {spread} seeds{same} count as "
            "replicates"
        )
    drawn = bool(trials.groupby("loss")["split"].nunique().gt(1).any())
    own = ["test classes"] + ["splits"] * drawn + ["searches"] * searched + ["initial weights"]
    text = f"how {listed(own)} vary, over {spread} replicates"
    if drawn or peeks:
        return text
    return f"{text}; all of them have the same split, so splits are not repeated"


def _caveats(own: pd.DataFrame, unit: str) -> Iterator[str]:
    """Yield what else there is to know of the intervals of these final trials."""
    if unit == "replicate" and own.groupby(["cell", "replicate"]).size().max() > 1:
        yield AVERAGED
    honest = own[~own["peeks"] & ~of_closed_set(own)]
    folds = int(honest["folds"].max()) if len(honest) else 1
    if folds > 1:
        yield (
            f"The models of the {folds} folds share most train classes: they are averaged, not "
            "counted as replicates."
        )
    varied = honest if len(honest) else own[own["peeks"]] if _tuned(own) else honest
    if varied.empty:
        return
    counts = varied.groupby(["protocol", "loss"])["replicate"].nunique()
    if unit == "seed" or counts.max() == 1:
        yield ONE_SEARCH
    elif counts.min() == 1:
        yield SOME_ALONE


def validation_notes(trials: pd.DataFrame, specs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Warn of protocols that chose nearly at random: on too few classes, or on too easy ones.

    specs: by cell.
    """
    if trials.empty:
        return []
    chooses = ~trials["peeks"].astype(bool) & ~of_closed_set(trials)
    honest = trials[chooses & (trials["rule"] != UNTRAINED)]
    fewest: dict[tuple[str, str], int] = {}
    for _, cell in honest.drop_duplicates("cell").iterrows():
        held = [len(split["select"]) for split in specs.get(cell["cell"], {}).get("splits", [])]
        key = str(cell["protocol"]), str(cell["dataset"])
        if held:
            fewest[key] = min(fewest.get(key, FEW_CLASSES), *held)
    few = [
        f"WARNING: {protocol} chose on {count} class{'es' * (count != 1)} of {dataset}; fewer than "
        f"{FEW_CLASSES} choose settings and epochs nearly at random. Hold out more classes."
        for (protocol, dataset), count in fewest.items()
        if count < FEW_CLASSES
    ]
    return few + _saturated(honest)


def _saturated(honest: pd.DataFrame) -> list[str]:
    """Warn of validation on which nearly everything is right, so that it tells nothing apart."""
    if SELECT_RECALL not in honest:
        return []
    usual = honest.groupby(["protocol", "dataset"])[SELECT_RECALL].median().reset_index()
    return [
        f"WARNING: validation is saturated: half of all trials under {protocol} reach Recall@1 of "
        f"{recall:.1%} or more on the held-out classes of {dataset}, so it hardly tells settings "
        f"apart. Hold out more classes, or harder ones."
        for protocol, dataset, recall in usual.itertuples(index=False)
        if recall >= SATURATED
    ]


def listed(names: Sequence[str]) -> str:
    """Return names as a sentence lists them."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _letters(own: pd.DataFrame) -> list[str]:
    if own.loc[~own["peeks"], "loss"].nunique() < 2:
        return []
    return [
        "Two losses share a letter exactly if no difference between them is shown: the interval of "
        "their difference contains zero. It is paired by test class and replicate, and widened so "
        f"that those of all pairs hold together ({LEVEL:.0%}, studentized range)."
    ]


def _peeked(own: pd.DataFrame) -> str:
    return "setting, its epoch or both were" if _tuned(own[own["peeks"]]) else "epoch was"


def _tuned(trials: pd.DataFrame) -> bool:
    """Return whether a search chose some of their settings; older studies do not record it."""
    return "tuned" in trials and bool(trials["tuned"].eq(True).any())


def _beside(finals: pd.DataFrame) -> list[str]:
    """Explain refits and concatenated models where there are any."""
    found = []
    if finals["role"].str.endswith("refit").any():
        found.append(
            "Refit: trained anew on all train classes, for as many epochs as the trial with "
            "held-out classes had chosen."
        )
    if (finals["folds"] > 1).any():
        found.append(
            "With folds a loss's own number is the mean over their models (separated); "
            "concatenated: all of them as one model."
        )
    return found


def _diverged(finals: pd.DataFrame) -> list[str]:
    if "outcome" not in finals:
        return []
    lost = finals[finals["outcome"] == "diverged"]
    counted = {"refit": "last", "published_refit": "last"}
    read = lost.filter(like="last/").notna().any(axis=1)  # at the last epoch, too
    found = Counter(
        zip(lost["role"], lost["loss"] + " under " + lost["protocol"], read, strict=True)
    )
    return [
        f"{count} of the {role} trials of {label} diverged; they count with their "
        f"{counted.get(role, 'best')} epoch before that"
        f"{', and at the last epoch with the weights with which they broke down' if last else ''}."
        for (role, label, last), count in found.items()
    ]


def unsearched_notes(own: pd.DataFrame, searched: set[str]) -> list[str]:
    """Name the cells that have the published setting although they were searched.

    own: final trials of the losses' own numbers.
    """
    mine = own[own["cell"].isin(searched)]
    tuned = mine.get("tuned", pd.Series(True, index=mine.index)).ne(False)
    labels = dict(zip(mine["cell"], mine["loss"] + " under " + mine["protocol"], strict=True))
    found = []
    for cell, label in labels.items():
        here = mine["cell"] == cell
        chose = tuned[here].groupby(mine.loc[here, "replicate"]).any()
        if not chose.all():
            where = "" if len(chose) == 1 else f"in {(~chose).sum()} of {len(chose)} searches "
            found.append(
                f"{label}: {where}no search trial had a score, so nothing was chosen; its final "
                f"trials have the published setting{' there' if where else ''}."
            )
    return found


def _extended(finals: pd.DataFrame) -> list[str]:
    added = finals[finals.get("extended", pd.Series(index=finals.index, dtype=object)).notna()]
    if added.empty:
        return []
    losses = ", ".join(dict.fromkeys(added["loss"]))
    return [
        f"extended-after-test: {len(added)} final trials ({losses}) were added after the test "
        f"classes had been read."
    ]
