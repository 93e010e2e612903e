"""Write the reference of a study's keys from the config that checks them."""

from __future__ import annotations

import types
from dataclasses import fields
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pieces import code, table, text

from study.cli.config import _flow
from study.config.keys.question import QuestionKeys
from study.config.study_config import StudyConfig
from trainables.contract import ImageTransform, ModelConfig, Training

SIMPLE = {str: "text", int: "whole number", float: "number", bool: "`true` or `false`", dict: "map"}


def key_groups() -> dict[str, list[str]]:
    """Return every key under what it is about, in the order of the config."""
    carried = {
        "The network": ModelConfig,
        "Images": ImageTransform,
        "Training": Training,
    }
    groups: dict[str, list[str]] = {"The question": list(QuestionKeys.model_fields)}
    taken = set(groups["The question"])
    for title, kind in carried.items():
        names = {field.name for field in fields(kind)}
        groups[title] = [key for key in StudyConfig.model_fields if key in names - taken]
        taken |= set(groups[title])
    groups["Machines and outputs"] = [key for key in StudyConfig.model_fields if key not in taken]
    return groups


def keys_page() -> str:
    """Return the page of all keys."""
    parts = [
        "# Keys\n\nGenerated from the config. Set a key in a YAML file or by `--set KEY=VALUE`; "
        "`fairtrial config keys` prints this list, and `fairtrial config show PRESET` the values "
        "of a study with their origins. [How to configure a study](../configs.md).\n"
    ]
    for title, names in key_groups().items():
        rows = [_row(name) for name in names]
        parts.append(f"## {title}\n\n" + table(("key", "accepts", "default", "meaning"), rows))
    return "\n".join(parts)


def _row(name: str) -> list[str]:
    field = StudyConfig.model_fields[name]
    default = "**needed**" if field.is_required() else code(_flow(field.default))
    accepts = accepted(field.annotation)
    return [f'<span id="{name}">`{name}`</span>', accepts, default, text(field.description or "")]


def accepted(annotation: Any) -> str:
    """Return what a key accepts, in words."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return accepted(inner[0])
    if origin is Literal:
        return ", ".join(f"`{each}`" for each in inner)
    if origin in (Union, types.UnionType):
        found = [accepted(each) for each in inner if each is not type(None)]
        empty = ["empty"] if type(None) in inner else []
        return " or ".join(dict.fromkeys(found + empty))
    if origin is tuple:
        each = accepted(inner[0])
        return f"two of: {each}" if Ellipsis not in inner else f"one or several: {each}"
    return SIMPLE.get(origin or annotation, "text")
