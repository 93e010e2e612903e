"""fairtrial config: the effective config with the origin of each value, and the list of keys."""

from typing import Any

import typer
import yaml

from study.commands import Name, Sets, Smoke, Source, one_sentence
from study.config import StudyConfig
from study.sources import resolve

app = typer.Typer(help="Show a study's effective config, or all keys.", no_args_is_help=True)


@app.command("show")
def show(source: Source, sets: Sets = [], smoke: Smoke = False, name: Name = None) -> None:  # noqa: B006
    """Print the effective config as YAML that `run` accepts; each line says where its value comes from."""
    with one_sentence():
        resolved = resolve(source, sets=sets, smoke=smoke, name=name)
    lines = [(f"{key}: {_flow(value)}", resolved.origins[key]) for key, value in resolved.config.model_dump(mode="json").items()]
    width = max(len(text) for text, _ in lines)
    for text, origin in lines:
        print(f"{text:<{width}}  # {origin}")


def _flow(value: Any) -> str:
    """A value as YAML on one line."""
    return yaml.safe_dump(value, default_flow_style=True, width=1000).removesuffix("...\n").strip()


@app.command("keys")
def keys() -> None:
    """List every key of a study."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("key", "default", ""):
        table.add_column(column)
    for key, field in StudyConfig.model_fields.items():
        default = "(needed)" if field.is_required() else _flow(field.default)
        table.add_row(key, default, field.description or "")
    Console().print(table, highlight=False)
