"""Ask every node of a cluster whether it sees the study's storage and runs the same code."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from study.errors import PreflightError
from trainables.workers.versions import code

ANSWER_SECONDS = 90.0  # for a node to answer: a first worker imports our packages
DEATH_SECONDS = 15.0  # for Ray to notice that a node which did not answer is gone
SILENT = "did not answer"


@dataclass(frozen=True)
class Node:
    """Hold a node's answer. trouble: why it could not answer, or not write."""

    name: str
    code: dict[str, str] = field(default_factory=dict)
    trouble: str = ""


def ask_nodes(folder: Path) -> list[Node]:
    """Ask every live node in parallel and return the answers.

    Each node writes a word into the folder, and this machine must find it there.
    """
    word, mailbox = secrets.token_hex(8), folder.absolute() / "nodes"
    mailbox.mkdir(parents=True, exist_ok=True)
    alive = _alive()
    asked = [_ask(name, str(mailbox / name), word) for name in alive]
    answers = {
        name: _read_answer(alive[name], answer, mailbox / name, word)
        for name, answer in zip(alive, asked, strict=True)
    }
    found = [
        node
        for name, node in answers.items()
        if not (node.trouble.startswith(SILENT) and _is_gone(name))
    ]
    for path in mailbox.iterdir():
        path.unlink()
    mailbox.rmdir()
    return found


def _alive() -> dict[str, dict[str, Any]]:
    return {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}


def _is_gone(name: str) -> bool:
    """Return whether a node that did not answer is gone: then nothing will run on it, and its
    silence does not matter.
    """
    deadline = time.monotonic() + DEATH_SECONDS
    while name in _alive():
        if time.monotonic() >= deadline:
            return False
        time.sleep(1)
    return True


def _ask(node: str, path: str, word: str) -> Any:
    there = NodeAffinitySchedulingStrategy(node, soft=False)
    return (
        ray.remote(num_cpus=0, max_retries=0)(_answer)
        .options(scheduling_strategy=there)
        .remote(path, word)
    )


def _answer(path: str, word: str) -> tuple[dict[str, str], str]:
    """Write the word and return this node's code; runs on the node."""
    try:
        Path(path).write_text(word)
        return code(), ""
    except OSError as error:
        return code(), f"cannot write there: {error.strerror}"


def _read_answer(node: dict[str, Any], answer: Any, path: Path, word: str) -> Node:
    name = f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"
    try:
        theirs, trouble = ray.get(answer, timeout=ANSWER_SECONDS)
    except Exception as error:  # it died, or it cannot import what we run
        return Node(name, trouble=f"{SILENT}: {str(error).strip().splitlines()[-1][:200]}")
    if not trouble and (not path.exists() or path.read_text() != word):
        trouble = "writes there, but not into the folder that this machine sees"
    return Node(name, theirs, trouble)


def check_nodes(folder: Path, nodes: list[Node]) -> None:
    """Raise a PreflightError if a node does not see the folder or runs other code."""
    blind = [f"{node.name} {node.trouble}" for node in nodes if node.trouble]
    if blind:
        raise PreflightError(
            f"All nodes must see the studies folder, but of {folder.absolute()}: "
            f"{'; '.join(blind)}. Put it on storage that all nodes mount at the same path: --set "
            f"studies=FOLDER."
        )
    mine = code()
    for node in nodes:
        if other := {
            name: value
            for name, value in node.code.items()
            if mine.get(name) != value and name != "python"
        }:
            name, value = next(iter(other.items()))
            raise PreflightError(
                f"All nodes must run the same code, but {node.name} has {name} {value}, and this "
                f"machine {mine.get(name)}; install requirements.lock on every node."
            )
