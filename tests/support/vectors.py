"""Write the same vectors as files of every kind that dataset=features reads."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

NAMES = ("dove", "eagle", "finch", "gull", "heron")


def sample(rows: int = 20, size: int = 6, seed: int = 0) -> tuple[np.ndarray, list[str]]:
    """Return vectors of five classes, whose rows are mixed."""
    rng = np.random.default_rng(seed)
    labels = [NAMES[row % len(NAMES)] for row in rng.permutation(rows)]
    return rng.normal(size=(rows, size)).astype(np.float32), labels


def npz(path: Path, rows: np.ndarray, **columns: Any) -> Path:
    np.savez(path, features=rows, **_plural(columns))
    return path


def npz_packed(path: Path, rows: np.ndarray, **columns: Any) -> Path:
    np.savez_compressed(path, features=rows, **_plural(columns))
    return path


def npy(path: Path, rows: np.ndarray, **columns: Any) -> Path:
    """Write X.npy with X.csv."""
    np.save(path, rows)
    with path.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(columns)
        lines.writerows(zip(*columns.values(), strict=True))
    return path


def parquet(path: Path, rows: np.ndarray, **columns: Any) -> Path:
    features = pa.array(list(rows))  # list<float>
    pq.write_table(pa.table({"features": features, **columns}), path)
    return path


def parquet_fixed(path: Path, rows: np.ndarray, **columns: Any) -> Path:
    features = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1])
    pq.write_table(pa.table({"features": features, **columns}), path, row_group_size=7)
    return path


def _plural(columns: Mapping[str, Sequence[Any]]) -> dict[str, np.ndarray]:
    """Arrays of an .npz are named labels and ids; columns of a table label and id."""
    return {
        name if name == "split" else f"{name}s": np.array(values)
        for name, values in columns.items()
    }


Writer = Callable[..., Path]
WRITERS: dict[str, tuple[str, Writer]] = {
    "npz": (".npz", npz),
    "packed npz": (".npz", npz_packed),
    "npy": (".npy", npy),
    "parquet": (".parquet", parquet),
    "fixed-size parquet": (".parquet", parquet_fixed),
}


def write(
    kind: str, folder: Path, rows: np.ndarray, *, stem: str = "birds", **columns: Any
) -> Path:
    """Write the vectors in this kind of file, and return its path."""
    suffix, writer = WRITERS[kind]
    folder.mkdir(parents=True, exist_ok=True)
    return writer(folder / f"{stem}{suffix}", rows, **columns)
