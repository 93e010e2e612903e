"""Every node is asked, with Ray played by hand: each node writes into a folder of its own, or into
the shared one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from study.cluster import nodes
from study.cluster.nodes import Node, ask_nodes, check_nodes
from study.errors import PreflightError
from trainables.workers.versions import code

Answer = Callable[[str, str], Any]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """cluster(a=answer, b=answer): its nodes, each with what it does when it is asked."""

    monkeypatch.setattr(nodes, "DEATH_SECONDS", 0.0)

    def build(**answers: Answer) -> None:
        alive = [
            {
                "NodeID": name,
                "Alive": True,
                "NodeManagerHostname": name,
                "NodeManagerAddress": "10.0.0.1",
            }
            for name in answers
        ]
        gone = {
            "NodeID": "gone",
            "Alive": False,
            "NodeManagerHostname": "gone",
            "NodeManagerAddress": "10.0.0.9",
        }
        monkeypatch.setattr(
            nodes, "_ask", lambda node, path, word: lambda: answers[node](path, word)
        )
        monkeypatch.setattr(
            nodes,
            "ray",
            SimpleNamespace(nodes=lambda: [*alive, gone], get=lambda answer, timeout: answer()),
        )

    return build


def test_nodes_that_share_the_folder_and_the_code_are_good(
    cluster: Callable[..., None], tmp_path: Path
) -> None:
    cluster(a=nodes._answer, b=nodes._answer)
    found = ask_nodes(tmp_path)
    assert [node.name for node in found] == ["a (10.0.0.1)", "b (10.0.0.1)"]
    check_nodes(tmp_path, found)
    assert list(tmp_path.iterdir()) == [], "nothing is left"


def test_a_node_with_a_folder_of_its_own_is_refused(
    cluster: Callable[..., None], tmp_path: Path
) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "studies").mkdir()
    cluster(
        a=nodes._answer,
        b=lambda path, word: nodes._answer(str(tmp_path / "private" / Path(path).name), word),
    )
    with pytest.raises(
        PreflightError,
        match=(
            r"All nodes must see the studies folder, but .*: b \(10.0.0.1\) writes there, but "
            r"not into"
        ),
    ):
        check_nodes(tmp_path / "studies", ask_nodes(tmp_path / "studies"))


def test_a_node_that_cannot_write_is_refused(cluster: Callable[..., None], tmp_path: Path) -> None:
    cluster(a=nodes._answer, b=lambda path, word: nodes._answer("/proc/nowhere/x", word))
    with pytest.raises(PreflightError, match="cannot write there: No such file or directory"):
        check_nodes(tmp_path, ask_nodes(tmp_path))


def test_a_node_that_does_not_answer_is_refused(
    cluster: Callable[..., None], tmp_path: Path
) -> None:
    def dies(path: str, word: str) -> Any:
        raise RuntimeError("first line\nthe node died")

    cluster(a=nodes._answer, b=dies)
    with pytest.raises(PreflightError, match="did not answer: the node died"):
        check_nodes(tmp_path, ask_nodes(tmp_path))


def test_a_node_that_goes_while_it_is_asked_is_no_trouble(
    cluster: Callable[..., None], tmp_path: Path
) -> None:
    def goes(path: str, word: str) -> Any:
        cluster(a=nodes._answer)
        raise RuntimeError("the node does not exist any more")

    cluster(a=nodes._answer, b=goes)
    found = ask_nodes(tmp_path)
    assert [node.name for node in found] == ["a (10.0.0.1)"]
    check_nodes(tmp_path, found)


@pytest.mark.parametrize(
    ("name", "good"), [("sources", False), ("torch", False), ("ray", False), ("python", True)]
)
def test_other_code_is_refused_but_for_pythons_last_digit(
    tmp_path: Path, name: str, good: bool
) -> None:
    made = [Node("a", code()), Node("b", code() | {name: "other"})]
    if good:
        check_nodes(tmp_path, made)
        return
    with pytest.raises(
        PreflightError,
        match=f"b has {name} other, and this machine {code()[name]}; install requirements.lock",
    ):
        check_nodes(tmp_path, made)
