"""Write and read what a trial leaves at its end: weights, test queries, embeddings, its state."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from trainables.contract import ARTIFACTS, BEST, CONCATENATED, EMBEDDINGS, QUERIES
from trainables.fetch import hash_file

OUTPUTS = "outputs"  # in the folder of a running trial: what it leaves, until it is kept
STATE = "state.pt"
SEAL = "seal.json"  # written last: the epoch, and the hash of every complete file
SEALED = (STATE, *ARTIFACTS)


def merge(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Join what the workers of a group saved, as if one worker had saved it."""
    state: dict[str, Any] = {**parts[0]["state"], "folds": {}}
    artifacts: dict[str, Any] = {"folds": {}, CONCATENATED: {}}
    for part in parts:
        state["folds"] |= part["state"]["folds"]
        for name in part["artifacts"]:
            artifacts[name] |= part["artifacts"][name]
    return {"state": state, "artifacts": artifacts}


def write_outputs(folder: Path, saved: dict[str, Any]) -> None:
    """Write what a trial leaves into a new folder, and seal it.

    Of a finished final trial these are best.pt with the chosen weights of every split, queries.csv,
    and embeddings.npz if the study keeps embeddings; of any other trial state.pt.
    """
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    if saved["artifacts"].get("folds"):
        _write_artifacts(folder, saved["artifacts"])
    else:
        torch.save(saved["state"], folder / STATE)
    seal = {
        "epoch": len(saved["state"]["rows"]),
        "sha256": {path.name: hash_file(path) for path in folder.iterdir() if path.name in SEALED},
    }
    (folder / SEAL).write_text(json.dumps(seal))


def _write_artifacts(folder: Path, artifacts: dict[str, Any]) -> None:
    import numpy as np
    import torch

    folds = dict(sorted(artifacts["folds"].items()))
    torch.save([fold["weights"] for fold in folds.values()], folder / BEST)
    _write_queries(
        folder / QUERIES,
        {i: fold["queries"] for i, fold in folds.items()}
        | {CONCATENATED: artifacts["concatenated"]},
    )
    kept = {
        f"{i}/{name}": part
        for i, fold in folds.items()
        for name, part in (fold["embeddings"] or {}).items()
    }
    if kept:
        np.savez(folder / EMBEDDINGS, **kept)


def _write_queries(path: Path, parts: dict[Any, dict[str, dict[str, Any]]]) -> None:
    """Write one row per model, rule and test query. A model is a split's, or all joined."""
    tables = [columns for part in parts.values() for columns in part.values()]
    names = list(dict.fromkeys(name for columns in tables for name in columns))
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, ["fold", "rule", *names])
        table.writeheader()
        for fold, part in parts.items():
            for rule, columns in part.items():
                rows = zip(*columns.values(), strict=True)
                table.writerows(
                    {"fold": fold, "rule": rule, **dict(zip(columns, row, strict=True))}
                    for row in rows
                )


def epoch_of(folder: Path) -> int | None:
    """Return the last epoch of the trial that left these files; None if they are incomplete."""
    try:
        return int(_seal(folder)["epoch"]) if sealed_files(folder, SEALED) else None
    except (ValueError, KeyError, TypeError):
        return None


def sealed_files(folder: Path, names: Iterable[str]) -> list[Path]:
    """Return those of these files that were sealed. Raise ValueError if one has changed since."""
    sealed = _seal(folder).get("sha256", {})
    files = [folder / name for name in names if name in sealed]
    for path in files:
        if not path.exists() or hash_file(path) != sealed[path.name]:
            raise ValueError(f"{path} is not as it was sealed")
    return files


def _seal(folder: Path) -> dict[str, Any]:
    try:
        seal: dict[str, Any] = json.loads((folder / SEAL).read_text())
    except OSError:
        raise ValueError(f"{folder} has no {SEAL}") from None
    return seal


def read_state(folder: Path) -> dict[str, Any]:
    """Return the state that write_outputs() wrote."""
    import torch

    state: dict[str, Any] = torch.load(folder / STATE, map_location="cpu", weights_only=True)
    return state
