"""Store what trials share, one file for each distinct content, named by its digest."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from analysis.record.events import TrialStarted
from analysis.record.kept_files import LostArtifact
from analysis.record.trial_id import TrialId
from search_spaces.training import trained_values
from trainables.contract import TrialSpec
from trainables.outputs.disk import replace_text

SPECS = "specs"  # in a study's folder
OWN = ("cell", "phase", "seed", "setting", "tuned", "code")  # what each trial has for itself


def shared_text(spec: TrialSpec) -> str:
    """Return what the trial shares with others, as JSON: no seed, no setting, no epochs."""
    parts = {name: value for name, value in spec.as_dict().items() if name not in OWN}
    own = trained_values(spec.setting).keys() | {"epochs"}
    parts["training"] = {k: v for k, v in parts["training"].items() if k not in own}
    return json.dumps(parts, sort_keys=True)


def digest_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


def write_spec(folder: Path, spec: TrialSpec) -> str:
    """Write what the trial shares with others, unless it is there, and return its digest."""
    text = shared_text(spec)
    path = folder / SPECS / f"{digest_of(text)}.json"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        replace_text(path, text)
    return path.stem


def read_shared(folder: Path, digest: str) -> str:
    """Return what write_spec() wrote. Raise LostArtifact if it is missing or was changed."""
    path = folder / SPECS / f"{digest}.json"
    try:
        return _read_shared(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise LostArtifact(f"{path} cannot be read ({error.strerror}); put back a copy.") from None


@lru_cache(maxsize=256)
def _read_shared(path: Path, modified: int) -> str:
    text = path.read_text()
    if digest_of(text) != path.stem:
        raise LostArtifact(f"{path} was changed after the study wrote it; put back a copy.")
    return text


def spec_dict(shared: Mapping[str, Any], started: TrialStarted) -> dict[str, Any]:
    """Return a trial's whole spec as TrialSpec.from_dict() takes it."""
    trial = TrialId.parse(started.trial)
    own = {"phase": trial.phase, "seed": started.seed, "setting": dict(started.setting)}
    training = {**shared["training"], **trained_values(started.setting), "epochs": started.epochs}
    cell = {name: getattr(trial.cell, name) for name in trial.cell.__dataclass_fields__}
    return {**shared, "cell": cell, **own, "tuned": started.tuned, "training": training}


def split_digest(splits: Sequence[Mapping[str, Any]]) -> str:
    """Return the hash of class lists as split files have it: of train and select classes alone."""
    lists = [{"train": split["train"], "select": split["select"]} for split in splits]
    return sha256(json.dumps(lists, sort_keys=True).encode()).hexdigest()[:16]
