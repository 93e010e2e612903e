"""fairtrial config: show the effective config with the origin of each value, or all keys."""

from typing import Any

import typer
import yaml

from study.cli.terminal import Name, Sets, Smoke, Source, one_sentence, terminal
from study.config.sources import resolve
from study.config.study_config import StudyConfig

WIDTH = 100  # of the column of values; longer ones push their origin to the right
app = typer.Typer(help="Show a study's effective config, or all keys.", no_args_is_help=True)


@app.command("show")
def show(source: Source, sets: Sets = [], smoke: Smoke = False, name: Name = None) -> None:  # noqa: B006
    """Print the effective config as YAML that `run` accepts, with the origin of each value."""
    with one_sentence():
        resolved = resolve(source, sets=sets, smoke=smoke, name=name)
    lines = [
        line
        for key, value in resolved.config.model_dump(mode="json").items()
        for line in _lines(key, value, resolved.origins[key])
    ]
    width = min(WIDTH, max(len(text) for text, origin in lines if origin))
    for text, origin in lines:
        print(f"{text:<{width}}  # {origin}" if origin else text)


def _lines(key: str, value: Any, origin: str) -> list[tuple[str, str]]:
    """Return text and origin; entries of where and leave_out and settings of each loss have their
    own lines.
    """
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [(f"{key}:", origin), *((f"  - {_flow(entry)}", "") for entry in value)]
    if isinstance(value, dict) and value:
        return [
            (f"{key}:", origin),
            *((f"  {name}: {_flow(part)}", "") for name, part in value.items()),
        ]
    return [(f"{key}: {_flow(value)}", origin)]


def _flow(value: Any) -> str:
    """Return a value as YAML on one line."""
    return (
        yaml.safe_dump(value, default_flow_style=True, width=100_000, sort_keys=False)
        .removesuffix("...\n")
        .strip()
    )


@app.command("keys")
def keys() -> None:
    """List every key of a study."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("key", "default", ""):
        table.add_column(column)
    for key, field in StudyConfig.model_fields.items():
        default = "(needed)" if field.is_required() else _flow(field.default)
        table.add_row(key, default, field.description or "")
    terminal().print(table, highlight=False)
