"""Splits as files: the class lists of every dataset and protocol with a hash, written by a study and read back by another."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

from study.protocols import check_splits
from trainables.contract import Split


def digest(splits: Sequence[Split]) -> str:
    """Of the class lists alone."""
    return sha256(json.dumps([asdict(split) for split in splits], sort_keys=True).encode()).hexdigest()[:16]


def splits_text(dataset: str, protocol: str, splits: Sequence[Split]) -> str:
    """JSON, one class list a line. Classes count from 0 in the dataset's own order."""
    lists = ",\n".join(
        "  {" + ",\n   ".join(f'"{side}": {json.dumps(classes)}' for side, classes in asdict(split).items()) + "}" for split in splits
    )
    about = json.dumps({"dataset": dataset, "protocol": protocol, "hash": digest(splits)})[1:-1]
    return f'{{{about},\n "splits": [\n{lists}\n]}}\n'


def split_file_name(dataset: str, protocol: str) -> str:
    return f"{dataset}-{protocol.replace(':', '-')}.json"


def read_splits(path: Path, dataset: str, train: Sequence[int], test: Sequence[int]) -> tuple[Split, ...]:
    """What splits_text() wrote, or a hand like it. ValueError: law, fact, cure."""
    try:
        found: dict[str, Any] = json.loads(path.read_text())
        splits = tuple(Split(tuple(each["train"]), tuple(each["select"]), tuple(each["test"])) for each in found["splits"])
    except OSError as error:
        raise ValueError(
            f"split_file={path} cannot be read ({error.strerror}); every study writes such files into its splits folder."
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"split_file={path} is not a list of splits with train, select and test classes: {error}.") from None
    except AssertionError as error:
        raise ValueError(f"split_file={path} breaks a law: {error}.") from None
    if found.get("dataset", dataset) != dataset:
        raise ValueError(f"split_file={path} divides {found['dataset']}, but the study has {dataset}; give it a file of its own.")
    if "hash" in found and found["hash"] != digest(splits):
        raise ValueError(f"split_file={path} was changed after it was written: its hash is {digest(splits)}, not {found['hash']}.")
    try:
        check_splits(splits, train, test, covers=False)
    except AssertionError as error:
        raise ValueError(f"split_file={path} breaks a law: {error}.") from None
    return splits
