"""Check fairness: name everything but the loss that differs between the losses of a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import pandas as pd

from analysis.ranking.comparisons import Comparison, comparisons
from analysis.ranking.notes import listed
from analysis.record.frames import StudyRows
from search_spaces import find_card
from search_spaces.training import TRAINED
from trainables.contract import ImageTransform, ModelConfig, Training

# Musgrave et al.: network, size, augmentation, optimiser, frozen batch norm. Size and backbone are
# equal wherever losses are ranked.
# Every field of these parts of a spec is compared.
PARTS = {"model": ModelConfig, "transform": ImageTransform, "training": Training}
# Except what else is measured, and slower ways to the same numbers.
HARMLESS = {"metrics", "deterministic", "chunk"}
COMPARED = (
    "pooling, weights, batch norm, crop, optimiser, schedule, batches, epochs, replicates, final "
    "trials and search trials"
)
EFFORT = "epochs and parameters of searches"
OUT_OF_MEMORY = "out of memory"  # as the record says how a trial ended
Treatments = dict[str, dict[str, str]]  # what -> loss -> value


@dataclass(frozen=True)
class FairnessCheck:
    """Hold what a fairness check found. unequal: a sentence per comparison and protocol."""

    unequal: list[str]
    remark: str = ""  # what else there is to say
    # What searches cost where it is not equal, and which settings no GPU had the memory for.
    effort: list[str] = field(default_factory=list)
    names: tuple[str, ...] = ()  # of all that is not equal

    @property
    def in_short(self) -> str:
        """Return one line without values."""
        if self.names:
            return f"Not equal between the losses: {', '.join(self.names)}."
        return self.remark.replace(COMPARED, "training and budgets")

    @property
    def sentences(self) -> list[str]:
        """Return all that is to stand above a table."""
        return [*self.unequal, *([self.remark] if self.remark else []), *self.effort]


def check_fairness(rows: StudyRows) -> FairnessCheck:
    """Find what differs between the losses of each comparison, protocol by protocol."""
    if rows.finals.empty:
        return FairnessCheck([])
    found = [each for one in comparisons(rows.trials) for each in _of_comparison(rows, one)]
    unequal = [sentence for sentence, _ in found]
    exhausted, spent = [*_exhausted(rows)], [*_efforts(rows)]
    names = [name for _, differs in found for name in differs]
    names += ["what fits into memory"] * bool(exhausted) + [EFFORT] * bool(spent)
    if not rows.specs:
        remark = "how trials were trained is unknown, so only budgets were compared."
    elif not unequal:
        remark = f"equal between the losses compared: {COMPARED}."
    else:
        remark = ""
    remark = f"Fairness check: {remark}" if remark else ""
    return FairnessCheck(unequal, remark, exhausted + spent, tuple(dict.fromkeys(names)))


def fairness(rows: StudyRows) -> list[str]:
    """Return the sentences of the fairness check, for above a table."""
    return check_fairness(rows).sentences


def _of_comparison(rows: StudyRows, comparison: Comparison) -> Iterator[tuple[str, list[str]]]:
    """Yield a sentence for each protocol under which losses differ, and the names of what does."""
    mine = comparison.trained(rows.trials)
    several = len(comparisons(rows.trials)) > 1
    found: dict[str, tuple[list[str], list[str]]] = {}  # by what differs: protocols, names
    for protocol, trials in mine.groupby("protocol", sort=False):
        unequal = dict(differing(treatments(rows, trials)))
        what = "; ".join(_sentence(*item) for item in unequal.items())
        names = [name.replace("_", " ") for name in unequal]
        found.setdefault(what, ([], names))[0].append(str(protocol))
    for what, (protocols, names) in found.items():
        if what:
            where = f"{comparison.title}, " * several + listed(protocols)
            yield f"Fairness check: not equal between the losses under {where}: {what}.", names


def _efforts(rows: StudyRows) -> Iterator[str]:
    """Yield by protocol what searches spent on each loss, and on how many parameters, where that is
    not equal: equal trials are not equal effort.
    """
    epochs = epochs_spent(rows)
    tried = rows.trials[rows.trials["role"].isin(["search", "finalist"])]
    for protocol, trials in tried.groupby("protocol", sort=False):
        by_loss = {str(loss): mine for loss, mine in trials.groupby("loss", sort=False)}
        spent = {
            loss: int(mine["run_id"].map(epochs).fillna(0).sum()) for loss, mine in by_loss.items()
        }
        params = {loss: len(searched_parameters(mine["setting"])) for loss, mine in by_loss.items()}
        if len({*spent.values()}) > 1 or len({*params.values()}) > 1:
            yield (
                f"Fairness check: searches under {protocol} spent {_span(spent)} epochs; searched "
                f"parameters: {_span(params)}."
            )


def _exhausted(rows: StudyRows) -> Iterator[str]:
    """Yield by loss and protocol how many settings did not fit into a GPU's memory."""
    if "outcome" not in rows.trials:
        return
    lost = rows.trials[rows.trials["outcome"] == OUT_OF_MEMORY]
    for (loss, protocol), mine in lost.groupby(["loss", "protocol"], sort=False):
        of = ((rows.trials["loss"] == loss) & (rows.trials["protocol"] == protocol))[
            rows.trials["role"].isin(["search", "finalist"])
        ]
        where = _devices(mine)
        yield (
            f"Fairness check: {len(mine)} of {of.sum()} search trials of {loss} under {protocol} "
            f"ran out of memory{f' on {where}' if where else ''}: their settings have no score, "
            f"and the search avoids them. chunk=N needs less memory for the same numbers."
        )


def epochs_spent(rows: StudyRows) -> Mapping[str, int]:
    """Return by trial how many epochs it ran."""
    ran = rows.curves[rows.curves["metric"] == "seconds"].groupby("run_id")["epoch"].nunique()
    return {str(run): int(count) for run, count in ran.items()}


def searched_parameters(settings: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the parameters of which a search tried several values."""
    values: dict[str, set[Any]] = {}
    for setting in settings:
        for name, value in setting.items():
            values.setdefault(name, set()).add(value)
    return [name for name, tried in values.items() if len(tried) > 1]


def _span(numbers: Mapping[str, int]) -> str:
    """Return the smallest and the largest number with the losses that have them."""
    low, high = min(numbers.values()), max(numbers.values())
    if low == high:
        return f"{low:,}"
    ends = (
        f"{end:,} ({', '.join(loss for loss, number in numbers.items() if number == end)})"
        for end in (low, high)
    )
    return " to ".join(ends)


def treatments(rows: StudyRows, trials: pd.DataFrame) -> Treatments:
    """Return how each loss was trained, without what its search chose."""
    found: Treatments = {}
    searched = {
        name.removeprefix(TRAINED)
        for setting in trials["setting"]
        for name in setting
        if name.startswith(TRAINED)
    }
    for loss, mine in trials.groupby("loss", sort=False):
        finals = mine[(mine["role"] == "final") & (mine["status"] == "FINISHED")]
        counts = {
            "search trials": int((mine["role"] == "search").sum()),
            "replicates": finals["replicate"].nunique(),
            "final trials": finals["seed"].nunique(),
        }
        for name, count in counts.items():
            found.setdefault(name, {})[str(loss)] = str(count)
        if devices := _devices(mine):
            found.setdefault("devices", {})[str(loss)] = devices
        for name, value in _flat(rows.specs.get(str(mine["cell"].iloc[0]), {}), str(loss)):
            if name not in searched:
                found.setdefault(name, {})[str(loss)] = value
    return found


def _devices(trials: pd.DataFrame) -> str:
    """Return the models of all GPUs that trials ran on; records before version 0.6 lack them."""
    named = trials["devices"].dropna() if "devices" in trials else ()
    return ", ".join(sorted({each for names in named for each in names.split(", ") if each}))


def _flat(spec: Mapping[str, Any], loss: str) -> Iterator[tuple[str, str]]:
    for part, kind in PARTS.items():
        for name in (each.name for each in fields(kind)):
            if name in spec.get(part, {}) and name not in HARMLESS:
                value = spec[part][name]
                yield name, _by_card(loss) if (name, value) == ("batches", None) else str(value)


def _by_card(loss: str) -> str:
    """Return the batches that a loss has where the study leaves them to its card."""
    try:
        return find_card(loss).batches
    except ValueError:  # a user's own loss that is not installed here
        return "as its card says"


def differing(found: Treatments) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Yield what has several values, and by value the losses that have it."""
    for name, values in found.items():
        by_value: dict[str, list[str]] = {}
        for who, value in values.items():
            by_value.setdefault(value, []).append(who)
        if len(by_value) > 1:
            yield name, by_value


def _sentence(name: str, by_value: Mapping[str, Iterable[str]]) -> str:
    """Name the most common value, then the losses that have another."""
    ordered = sorted(by_value.items(), key=lambda item: -len(list(item[1])))
    (most, _), *rest = ordered
    return f"{name.replace('_', ' ')} {most}, but " + ", ".join(
        f"{value} for {listed([*who])}" for value, who in rest
    )
