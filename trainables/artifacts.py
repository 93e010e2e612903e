"""What a trial leaves on disk: where it stands, the chosen weights, a row per test query, embeddings."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from trainables.contract import ARTIFACTS, BEST, CONCATENATED, EMBEDDINGS, QUERIES

STATE, SEAL = "state.pt", "seal.json"  # the seal is written last: the epoch, and the hash of every file that is all there
SEALED = (STATE, *ARTIFACTS)


def merge(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the workers of a group saved, as if one had done it."""
    state: dict[str, Any] = {**parts[0]["state"], "folds": {}}
    artifacts: dict[str, Any] = {"folds": {}, CONCATENATED: {}}
    for part in parts:
        state["folds"] |= part["state"]["folds"]
        for name in part["artifacts"]:
            artifacts[name] |= part["artifacts"][name]
    return {"state": state, "artifacts": artifacts}


def write(folder: Path, saved: dict[str, Any]) -> None:
    """state.pt; of a finished final trial best.pt with the chosen weights of every split, queries.csv, and embeddings.npz if kept."""
    import torch

    torch.save(saved["state"], folder / STATE)
    if saved["artifacts"].get("folds"):
        _write_artifacts(folder, saved["artifacts"])
    seal = {"epoch": len(saved["state"]["rows"]), "sha256": {path.name: _hash(path) for path in folder.iterdir() if path.name in SEALED}}
    (folder / SEAL).write_text(json.dumps(seal))


def _write_artifacts(folder: Path, artifacts: dict[str, Any]) -> None:
    import numpy as np
    import torch

    folds = dict(sorted(artifacts["folds"].items()))
    torch.save([fold["weights"] for fold in folds.values()], folder / BEST)
    _write_queries(folder / QUERIES, {i: fold["queries"] for i, fold in folds.items()} | {CONCATENATED: artifacts["concatenated"]})
    kept = {f"{i}/{name}": part for i, fold in folds.items() for name, part in (fold["embeddings"] or {}).items()}
    if kept:
        np.savez(folder / EMBEDDINGS, **kept)


def _write_queries(path: Path, parts: dict[Any, dict[str, dict[str, Any]]]) -> None:
    """One row per model, rule and test query. The model is the number of its split, or all of them as one."""
    names = list(dict.fromkeys(name for part in parts.values() for columns in part.values() for name in columns))
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, ["fold", "rule", *names])
        table.writeheader()
        for fold, part in parts.items():
            for rule, columns in part.items():
                rows = zip(*columns.values(), strict=True)
                table.writerows({"fold": fold, "rule": rule, **dict(zip(columns, row, strict=True))} for row in rows)


def epoch_of(folder: Path) -> int | None:
    """How far the state in this folder is; None if not all is there: a process or the power died while it was written."""
    try:
        return int(_seal(folder)["epoch"]) if folder / STATE in whole(folder, SEALED) else None
    except (ValueError, KeyError, TypeError):
        return None


def whole(folder: Path, names: Iterable[str]) -> list[Path]:
    """Those of these files that the trial had left when the folder was sealed. ValueError: one of them is not as it was."""
    sealed = _seal(folder).get("sha256", {})
    files = [folder / name for name in names if name in sealed]
    for path in files:
        if not path.exists() or _hash(path) != sealed[path.name]:
            raise ValueError(f"{path} is not as it was sealed")
    return files


def _seal(folder: Path) -> dict[str, Any]:
    try:
        seal: dict[str, Any] = json.loads((folder / SEAL).read_text())
    except OSError:
        raise ValueError(f"{folder} has no {SEAL}") from None
    return seal


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read(folder: Path) -> dict[str, Any]:
    """The state that write() left."""
    import torch

    state: dict[str, Any] = torch.load(folder / STATE, map_location="cpu", weights_only=True)
    return state
