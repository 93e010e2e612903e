"""Write the reference of the command line from the command line itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer
from pieces import code, table, text

from study.__main__ import app


def commands() -> Iterator[tuple[str, Any]]:
    """Yield every verb with its click command, those of groups by both words."""
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        if inner is None:
            yield name, command
        else:
            yield from ((f"{name} {each}", found) for each, found in inner.items())


def commands_page() -> str:
    """Return the page of all verbs."""
    found = list(commands())
    verbs = table(
        ("verb", "what it does"),
        ([f"[`{name}`](#{name.replace(' ', '-')})", text(_summary(each))] for name, each in found),
    )
    return (
        "# Commands\n\nGenerated from the command line. `fairtrial VERB --help` shows the same; in "
        "a clone, type `uv run fairtrial`.\n\n"
        + verbs
        + "".join(_section(name, command) for name, command in found)
    )


def _help(command: Any) -> list[str]:
    """Return the paragraphs of a command's help, each on one line."""
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", command.help or "")]


def _summary(command: Any) -> str:
    return re.split(r"(?<=[.?])\s", _help(command)[0])[0]


def _section(name: str, command: Any) -> str:
    shown = [param for param in command.params if not getattr(param, "hidden", False)]
    arguments = [param for param in shown if param.param_type_name == "argument"]
    options = [param for param in shown if param.param_type_name == "option"]
    words = " ".join(_argument(each) for each in arguments)
    parts = [f"\n## {name} {{#{name.replace(' ', '-')}}}\n"]
    parts += [text(each) + "\n" for each in _help(command)]
    parts.append(f"```text\nfairtrial {name} {words}{' [OPTIONS]' if options else ''}\n```\n")
    rows = [[code(_argument(each)), text(each.help or ""), ""] for each in arguments]
    rows += [[code(_option(each)), text(each.help or ""), code(_default(each))] for each in options]
    if rows:
        parts.append(table(("argument or option", "meaning", "default"), rows))
    return "\n".join(parts)


def _argument(param: Any) -> str:
    name = (param.metavar or param.name.upper()).strip("[]")
    return name if param.required else f"[{name}]"


def _option(param: Any) -> str:
    names = ", ".join([*param.opts, *param.secondary_opts])
    value = "" if param.is_flag else f" {param.metavar or param.name.upper()}"
    return names + value


def _default(param: Any) -> str:
    if param.is_flag or param.default in (None, [], ()):
        return ""
    return str(param.default)
