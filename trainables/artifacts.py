"""What a trial leaves on disk: where it stands, the chosen weights, a row per test query, embeddings."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainables.contract import BEST, CONCATENATED, EMBEDDINGS, QUERIES

STATE, SEAL = "state.pt", "seal.json"  # the seal is written last: the epoch and the hash of a state that is all there


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
    seal = {"epoch": len(saved["state"]["rows"]), "sha256": _hash(folder / STATE)}
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
    """How far the state in this folder is; None if it is not all there: a process or the power died while it was written."""
    try:
        seal = json.loads((folder / SEAL).read_text())
        return int(seal["epoch"]) if seal["sha256"] == _hash(folder / STATE) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read(folder: Path) -> dict[str, Any]:
    """The state that write() left."""
    import torch

    state: dict[str, Any] = torch.load(folder / STATE, map_location="cpu", weights_only=True)
    return state
