"""What --cluster types on the head is what was typed here, for every verb that has it."""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from study.__main__ import app
from study.cluster.head import ClusterHead

ROOT = Path(__file__).parents[3]
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
VERBS = {  # submit has a --cluster of its own, and sends a job
    name: verb
    for name, verb in COMMANDS.items()
    if name != "submit" and any(each.name == "cluster" for each in verb.params)
}
OWN = ("cluster", "studies", "print_path", "watch", "help")


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The command lines that reach the head, in place of a head."""
    lines: list[list[str]] = []

    def run(head: ClusterHead, words: list[str]) -> tuple[int, str]:
        lines.append(list(words))
        return 1, ""

    monkeypatch.setattr(ClusterHead, "run", run)
    return lines


def there(verb: str, words: list[str], typed: list[list[str]]) -> list[str]:
    CliRunner().invoke(app, [verb, *words, "--cluster", str(ROOT / "cluster.yaml")])
    return typed[-1]


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_what_was_not_typed_here_is_parsed_there_as_if_nothing_was_typed(
    verb: str, typed: list[list[str]]
) -> None:
    words = there(verb, ["name"], typed)
    assert words[0] == verb
    fresh, sent = (_values(verb, each) for each in (["name"], words[1:]))
    assert {k: v for k, v in sent.items() if k not in OWN} == {
        k: v for k, v in fresh.items() if k not in OWN
    }


OPTIONS = [
    (verb, param.name)
    for verb, command in sorted(VERBS.items())
    for param in command.params
    if param.param_type_name == "option" and param.name not in OWN
]


@pytest.mark.parametrize(("verb", "name"), OPTIONS)
def test_every_option_arrives_as_it_was_typed(verb: str, name: str, typed: list[list[str]]) -> None:
    param = next(each for each in VERBS[verb].params if each.name == name)
    option = param.opts[0]
    if param.is_flag:
        words = [option]
    elif param.multiple:
        words = [option, "a b", option, "c"]
    else:
        words = [option, "3"]
    sent = there(verb, ["name", *words], typed)[1:]
    assert _values(verb, sent)[name] == _values(verb, ["name", *words])[name]
    assert shlex.split(shlex.join(sent)) == sent


def _values(verb: str, words: list[str]) -> dict[str, Any]:
    with contextlib.closing(VERBS[verb].make_context(verb, list(words))) as context:
        return dict(context.params)
