"""Write the class lists of a dataset and protocol to a file with a hash, and read them back."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from analysis.record.specs import split_digest
from study.config.protocols import StudyProtocol, check_splits
from trainables.contract import LawError, Split

Halves = tuple[Sequence[int], Sequence[int]]


def digest(splits: Sequence[Split]) -> str:
    """Return the hash of the train and select classes alone: a search trial has no others."""
    return split_digest([asdict(split) for split in splits])


def splits_text(dataset: str, protocol: str, splits: Sequence[Split]) -> str:
    """Return JSON with one class list a line. Classes count from 0 in the dataset's own order."""
    lists = ",\n".join(
        "  {"
        + ",\n   ".join(
            f'"{side}": {json.dumps(classes)}' for side, classes in asdict(split).items()
        )
        + "}"
        for split in splits
    )
    about = json.dumps({"dataset": dataset, "protocol": protocol, "hash": digest(splits)})[1:-1]
    return f'{{{about},\n "splits": [\n{lists}\n]}}\n'


def split_file_name(dataset: str, protocol: str, replicate: int = 1) -> str:
    """Return the name of the file that a study writes."""
    more = f"-replicate{replicate}" if replicate > 1 else ""
    return f"{dataset}-{protocol.replace(':', '-')}{more}.json"


def parse_splits(
    text: str, name: str, dataset: str, *, protocol: str, divides: StudyProtocol, halves: Halves
) -> tuple[Split, ...]:
    """Return the splits of a file as splits_text() writes it, or raise ValueError.

    name: of the file; halves: train and test classes.
    """
    try:
        found: dict[str, Any] = json.loads(text)
        splits = tuple(
            Split(tuple(each["train"]), tuple(each["select"]), tuple(each["test"]))
            for each in found["splits"]
        )
    except LawError as error:
        raise ValueError(f"split_file={name} breaks a law: {error}.") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"split_file={name} is not a list of splits with train, select and test classes: "
            f"{error}."
        ) from None
    if found.get("dataset", dataset) != dataset:
        raise ValueError(
            f"split_file={name} divides {found['dataset']}, but the study has {dataset}; use "
            f"another file."
        )
    if "hash" in found and found["hash"] != digest(splits):
        raise ValueError(
            f"split_file={name} was changed after it was written: its hash is {digest(splits)}, "
            f"not {found['hash']}."
        )
    theirs = str(found.get("protocol", protocol))
    if theirs.partition(":")[0] != protocol.partition(":")[0]:
        raise ValueError(
            f"split_file={name} was made for {theirs}, but the study has {protocol}; run it under "
            f"{theirs}."
        )
    drawn = divides.splits(*halves)
    if len(splits) != len(drawn):
        raise ValueError(
            f"{protocol} has {len(drawn)} splits here, but split_file={name} has {len(splits)}; "
            f"use another file."
        )
    if ":" in protocol and len(drawn) == 1 and len(splits[0].select) != len(drawn[0].select):
        raise ValueError(
            f"{protocol} holds out {len(drawn[0].select)} classes, but split_file={name} holds out "
            f"{len(splits[0].select)}; write {protocol.partition(':')[0]}, or use another "
            f"file."
        )
    try:
        check_splits(splits, *halves, rule=divides.rule)
    except LawError as error:
        raise ValueError(f"split_file={name} breaks a law: {error}.") from None
    return splits
