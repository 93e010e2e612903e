"""Resume a study: check that it is the same study, and rebuild its searcher and early stopping."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from analysis.record.events import LOST, VERSION, StudyResumed, StudyStarted, TrialEnded
from analysis.record.record import Record, replay
from analysis.record.state import Follower, StudyState, TrialState
from analysis.record.trial_id import TrialId
from study.config.plan import StudyPlan, expand
from study.config.split_files import digest
from study.config.study_config import StudyConfig, make
from study.driver.checkpoints import files_left, keep_outputs, newest_outputs
from study.search.early_stopping import EarlyStopping
from study.search.searcher import StudySearcher
from trainables.datasets.indexing import index
from trainables.outputs.artifacts import epoch_of
from trainables.workers.versions import code, commit, extra_code, file_digest

GROWS = ("searches", "search_trials", "reproductions")  # keys that may be larger than before
# A study may move, and to a larger place, and show more or less of itself in MLflow.
ELSEWHERE = (
    *("studies", "tracking_uri", "slots", "cpus_per_worker", "checkpoint_seconds"),
    *("log_models", "system_metrics", "stall_minutes", "max_hours"),
)
MOVED = ("data_root",)  # so may its images: they are known by their content
PARTS = ("config", "code", "data", "splits", "weights")  # parts of a study's identity


def identity(plan: StudyPlan, total: int) -> StudyStarted:
    """Return what makes a study this one: its config, code, images, class lists, weight files."""
    config = plan.config
    values = config.model_dump(mode="json").items()
    return StudyStarted(
        version=VERSION,
        config={key: value for key, value in values if key not in ELSEWHERE},
        code={**code(), **extra_code(config.losses, config.backbone)},
        data={name: index(plan.dataset_ref(name)).fingerprint for name in config.dataset},
        splits={
            f"{dataset}/{protocol}/{replicate}": digest(splits)
            for dataset, protocol, replicate, splits in plan.all_splits()
        },
        weights={path: file_digest(path) for path in plan.weight_files()},
        total=total,
        commit=commit(),
    )


def first_plan(state: StudyState, config: StudyConfig) -> StudyPlan:
    """Return the plan of the first driver, with the folder that the study is in now."""
    assert state.identity is not None
    here = {key: getattr(config, key) for key in ELSEWHERE + MOVED}
    return expand(make({**state.identity.config, **here}))


def check_same(state: StudyState, now: StudyStarted, *, new_code: bool = False) -> dict[str, int]:
    """Return what the study grows by, or raise ValueError with the differences if it is another
    study.

    new_code: allow other code.
    """
    assert state.identity is not None
    before = {part: dict(getattr(state.identity, part)) for part in PARTS}
    before["config"] = _completed(state.config | {key: now.config[key] for key in MOVED})
    before["code"] = state.code
    grows = {key: now.config[key] for key in GROWS if now.config[key] > before["config"][key]}
    changed = []
    for part in PARTS:
        if part == "code" and new_code:
            continue
        new = getattr(now, part)
        # A study that grows has splits of new seeds.
        names = dict.fromkeys([*before[part], *(() if part == "splits" else new)])
        pairs = {name: (before[part].get(name), new.get(name)) for name in names}
        changed += [
            f"  {part} {name}: {old} -> {new}"
            for name, (old, new) in pairs.items()
            if old != new and name not in grows
        ]
    if changed:
        less = [key for key in GROWS if now.config[key] < before["config"][key]]
        raise ValueError(_refusal(changed, less))
    if state.audited and {"searches", "search_trials"} & grows.keys():
        raise ValueError(
            "An audit has read the test classes with every search trial, which closes the search: "
            "searches and search_trials cannot grow."
        )
    return grows


def _refusal(changed: list[str], less: list[str]) -> str:
    cure = "put it back, or run it anew under another --name"
    if any(line.startswith("  code") for line in changed):
        cure += "; --new-code resumes it with this code anyway, and the ledger records that"
    cure += f"; {' and '.join(less)} can only grow" if less else ""
    return "\n".join(
        [
            "A study must be resumed as it began, but this has changed:",
            *changed,
            f"{cure[0].upper()}{cure[1:]}.",
        ]
    )


def _completed(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config with keys that are new since; their defaults are what the study had."""
    with suppress(ValueError):
        made = make(config).model_dump(mode="json")
        return {key: value for key, value in made.items() if key not in ELSEWHERE}
    return dict(config)


class Replay(Follower):
    """Repeat every event for searcher and early stopping, so that both reach their old state."""

    def __init__(self, searcher: StudySearcher, stopping: EarlyStopping) -> None:
        self.searcher, self.stopping = searcher, stopping
        # Search trials that early stopping had just ended, or that had done their last epoch, when
        # their driver died.
        self.over: dict[str, TrialState] = {}

    def trial_started(self, trial: TrialState) -> None:
        self.searcher.replay(trial.started)

    def epoch_done(self, trial: TrialState) -> None:
        row = trial.rows[-1]
        stops = self.stopping.judge(trial.id, row.epoch, row.score)
        if trial.id.phase == "search" and (stops or trial.trained):
            self.over[row.trial] = trial
        else:
            self.over.pop(row.trial, None)

    def trial_ended(self, trial: TrialState) -> None:
        self.over.pop(trial.started.trial, None)
        assert trial.ended is not None
        complete(self.searcher, trial.id, trial.ended)

    def study_resumed(self, event: StudyResumed) -> None:
        if event.grows:
            config = self.searcher.plan.config
            self.searcher.grow(expand(make({**config.model_dump(mode="json"), **event.grows})))


def rebuild(record: Record, searcher: StudySearcher, stopping: EarlyStopping) -> None:
    """Bring searcher and early stopping to where they were, and end the trials that were over."""
    again = Replay(searcher, stopping)
    replay(record.past, again)
    config = searcher.plan.config
    for trial in again.over.values():
        row = trial.rows[-1]
        if files_left(trial.id, config) and not _is_saved(record.folder, trial):
            continue  # it stays open: it runs again from its checkpoint, and ends as it did
        keep_outputs(record.folder, trial.id, config)
        ended = TrialEnded(
            trial=row.trial,
            outcome=trial.outcome(),
            epoch=row.epoch,
            score=row.score,
            metrics=row.metrics,
        )
        complete(searcher, trial.id, record.note(ended))


def _is_saved(folder: Path, trial: TrialState) -> bool:
    """Return whether all that the trial leaves after its last epoch is there."""
    newest = newest_outputs(folder, trial.id)
    return newest is not None and epoch_of(newest) == trial.epoch


def complete(searcher: StudySearcher, trial: TrialId, ended: TrialEnded) -> None:
    """Pass the searcher how a trial ended."""
    score = None if ended.outcome in LOST else ended.score
    searcher.complete(trial, score=score, chosen_epoch=ended.chosen_epoch)


def take_up(record: Record, searcher: StudySearcher) -> None:
    """Let trials that were running continue, from their last whole checkpoint if they have one."""
    for trial in record.state.open_trials():
        searcher.take_up(trial.id)
