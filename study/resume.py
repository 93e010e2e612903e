"""A study taken up again: is it the same study, and where does it stand?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from study.config import StudyConfig, make
from study.ledger import Event, Ledger
from study.recorder import LOST, outcome_of
from study.search import StudySearcher
from study.splits import digest
from study.stopping import StopPerCell
from study.storage import newest
from trainables.contract import TrialSpec
from trainables.datasets.catalogue import index
from trainables.versions import borrowed, file_digest

GROWS = ("search_trials", "reproductions")  # what may be more than before
ELSEWHERE = ("studies", "tracking_uri", "slots")  # a study may be moved, and to a place with more room
MOVED = ("data_root",)  # so may its images: they are known by what they are


def identity(config: StudyConfig, code: Mapping[str, str]) -> dict[str, Any]:
    """What makes a study this one: its config, its code, its images, its class lists, its weight files. The ledger's first line."""
    kept = {key: value for key, value in config.model_dump(mode="json").items() if key not in ELSEWHERE}
    return {
        "config": kept,
        "code": {**code, **borrowed(config.losses, config.backbone)},
        "data": {dataset: index(config.origin(dataset)).fingerprint for dataset in config.dataset},
        "splits": {f"{dataset}/{protocol}": digest(splits) for dataset, protocol, splits in config.all_splits()},
        "weights": {path: file_digest(path) for path in config.weight_files()},
    }


def began_with(past: Sequence[Event], config: StudyConfig) -> StudyConfig:
    """The config of the first driver, in the place where the study is now."""
    return make({**past[0]["config"], **{key: getattr(config, key) for key in ELSEWHERE + MOVED}})


def check_same(past: Sequence[Event], now: Mapping[str, Any], *, new_code: bool = False) -> dict[str, int]:
    """What the study grows by. ValueError: it is another study, with the differences. new_code: other code is allowed."""
    before = {part: dict(past[0][part]) for part in now if part in past[0]}  # an earlier version told less
    before["config"] = _whole(before["config"] | {key: now["config"][key] for key in MOVED})
    for event in past:
        before["config"] |= event.get("grows", {})
        before["code"] |= event.get("code", {})
    changed = []
    audited = any(event["event"] == "audit" for event in past)
    grows = {key: now["config"][key] for key in GROWS if now["config"][key] > before["config"][key]}
    for part in before:
        # A study that grows has splits of new seeds, and the code may be asked for.
        names = dict.fromkeys([*before[part], *(() if part == "splits" else now[part])] if part != "code" or not new_code else ())
        pairs = {name: (before[part].get(name), now[part].get(name)) for name in names}
        changed += [f"  {part} {name}: {old} -> {new}" for name, (old, new) in pairs.items() if old != new and name not in grows]
    if changed:
        cure = "put it back, or run it anew under another --name"
        if any(line.startswith("  code") for line in changed):
            cure += "; --new-code goes on with this code all the same, which the ledger notes"
        less = [key for key in GROWS if now["config"][key] < before["config"][key]]
        cure += f"; {' and '.join(less)} can only grow" if less else ""
        raise ValueError("A study goes on as it began, but this has changed:\n" + "\n".join(changed) + f"\n{cure[0].upper()}{cure[1:]}.")
    if audited and "search_trials" in grows:
        raise ValueError("An audit has read the test classes with every search trial, which closes the search: search_trials cannot grow.")
    return grows


def _whole(config: Mapping[str, Any]) -> dict[str, Any]:
    """With the keys that have come since, which had no other value than their default; one that this code cannot read stays as it was."""
    with suppress(ValueError):
        made = make(config).model_dump(mode="json")
        return {key: value for key, value in made.items() if key not in ELSEWHERE}
    return dict(config)


@dataclass
class Standing:
    """Where a study stands: what its ledger amounts to."""

    epochs: dict[str, int] = field(default_factory=dict)  # key -> last epoch that was written
    ended: list[tuple[TrialSpec, Event]] = field(default_factory=list)
    finished: bool = False

    @property
    def failed(self) -> int:
        return sum(event["outcome"] == "failed" for _, event in self.ended)


def rebuild(past: Sequence[Event], searcher: StudySearcher, stopping: StopPerCell, ledger: Ledger) -> Standing:
    """Bring searcher and early stopping to where they were, by telling them everything again in the same order.

    A search trial that early stopping had just ended, or that had done its last epoch, when the driver died is ended now.
    """
    standing, decided = Standing(), dict[str, Event]()
    config = searcher.config
    for event in past:
        kind = event["event"]
        if kind == "trial":
            searcher.replay(event)
        elif kind == "row":
            given = searcher.running[event["key"]]
            stops = stopping.judge(str(given.spec.cell), given.name, event) == StopPerCell.STOP
            standing.epochs[event["key"]] = event["epoch"]
            last = event["epoch"] >= given.spec.training.epochs or any(event.get(name) for name in LOST)
            if given.spec.phase == "search" and (stops or last):
                decided[event["key"]] = event
            else:
                decided.pop(event["key"], None)
        elif kind == "end":
            decided.pop(event["key"], None)
            _end(searcher, standing, event)
        elif kind == "resumed" and event.get("grows"):
            config = make({**config.model_dump(mode="json"), **event["grows"]})
            searcher.grow(config)
        standing.finished = kind == "finished" or (standing.finished and kind not in ("trial", "resumed"))
    for event in decided.values():
        _end(searcher, standing, _ended_late(ledger, searcher, event))
    return standing


def _end(searcher: StudySearcher, standing: Standing, event: Event) -> None:
    standing.ended.append((searcher.running[event["key"]].spec, event))
    searcher.complete(event["key"], None if event["outcome"] == "failed" else event)


def _ended_late(ledger: Ledger, searcher: StudySearcher, row: Event) -> Event:
    spec = searcher.running[row["key"]].spec
    told = {name: row[name] for name in ("epoch", "score", "metrics")}
    return ledger.note("end", key=row["key"], outcome=outcome_of(row, spec.training.epochs), **told, nodes=[])


def take_up(folder: Path, searcher: StudySearcher, standing: Standing) -> None:
    """Trials that were running go on from their last whole checkpoint; one that the ledger does not reach is not used."""
    for key, given in searcher.running.items():
        searcher.interrupted.append(given)
        if path := newest(folder, key, epoch=standing.epochs.get(key, 0)):
            searcher.starts[key] = str(path.absolute())
