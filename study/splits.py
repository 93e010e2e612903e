"""Splits as files: the class lists of every dataset and protocol with a hash, written by a study and read back by another."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import sha256
from typing import Any

from study.protocols import Divides, check_splits
from trainables.contract import LawError, Split

Halves = tuple[Sequence[int], Sequence[int]]


def digest(splits: Sequence[Split]) -> str:
    """Of the train and select classes alone, so that a search trial, which has no others, has the hash of its file."""
    lists = [{"train": split.train, "select": split.select} for split in splits]
    return sha256(json.dumps(lists, sort_keys=True).encode()).hexdigest()[:16]


def splits_text(dataset: str, protocol: str, splits: Sequence[Split]) -> str:
    """JSON, one class list a line. Classes count from 0 in the dataset's own order."""
    lists = ",\n".join(
        "  {" + ",\n   ".join(f'"{side}": {json.dumps(classes)}' for side, classes in asdict(split).items()) + "}" for split in splits
    )
    about = json.dumps({"dataset": dataset, "protocol": protocol, "hash": digest(splits)})[1:-1]
    return f'{{{about},\n "splits": [\n{lists}\n]}}\n'


def split_file_name(dataset: str, protocol: str) -> str:
    return f"{dataset}-{protocol.replace(':', '-')}.json"


def parse_splits(text: str, name: str, dataset: str, *, protocol: str, divides: Divides, halves: Halves) -> tuple[Split, ...]:
    """What splits_text() wrote, or a hand like it. ValueError: law, fact, cure. name: of the file; halves: train and test classes."""
    try:
        found: dict[str, Any] = json.loads(text)
        splits = tuple(Split(tuple(each["train"]), tuple(each["select"]), tuple(each["test"])) for each in found["splits"])
    except LawError as error:
        raise ValueError(f"split_file={name} breaks a law: {error}.") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"split_file={name} is not a list of splits with train, select and test classes: {error}.") from None
    if found.get("dataset", dataset) != dataset:
        raise ValueError(f"split_file={name} divides {found['dataset']}, but the study has {dataset}; give it a file of its own.")
    if "hash" in found and found["hash"] != digest(splits):
        raise ValueError(f"split_file={name} was changed after it was written: its hash is {digest(splits)}, not {found['hash']}.")
    theirs = str(found.get("protocol", protocol))
    if theirs.partition(":")[0] != protocol.partition(":")[0]:
        raise ValueError(f"split_file={name} was made for {theirs}, but the study has {protocol}; run it under {theirs}.")
    drawn = divides.splits(*halves)
    if len(splits) != len(drawn):
        raise ValueError(f"{protocol} has {len(drawn)} splits here, but split_file={name} has {len(splits)}; give it a file of its own.")
    if ":" in protocol and len(drawn) == 1 and len(splits[0].select) != len(drawn[0].select):
        held = f"{len(drawn[0].select)} classes, but split_file={name} holds out {len(splits[0].select)}"
        raise ValueError(f"{protocol} holds out {held}; write {protocol.partition(':')[0]}, or give it a file of its own.")
    try:
        check_splits(splits, *halves, rule=divides.rule)
    except LawError as error:
        raise ValueError(f"split_file={name} breaks a law: {error}.") from None
    return splits
