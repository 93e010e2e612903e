"""Read a study's values from a preset or YAML file, then --smoke, --name and --set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from search_spaces import pick
from study.config.keys.overrides import AXIS_KEYS, narrow
from study.config.study_config import StudyConfig, make
from study.presets import PRESETS, shrink
from study.presets.auto import choose
from study.presets.label_fractions import repeat_losses


@dataclass(frozen=True)
class Resolved:
    """Hold a checked config, where each of its values comes from, and why some were chosen."""

    config: StudyConfig
    origins: dict[str, str]
    choices: list[str]


def resolve(
    source: str, *, sets: Sequence[str] = (), smoke: bool = False, name: str | None = None
) -> Resolved:
    """Return the config of a preset or file, or raise ValueError before anything is written."""
    values, origin = _base(source)
    origins = dict.fromkeys(values, origin)
    layers: list[tuple[dict[str, Any], str]] = []
    if smoke:
        layers.append((shrink(values) | {"name": f"{values.get('name', source)}-smoke"}, "--smoke"))
    if name:
        layers.append(({"name": name}, "--name"))
    for layer, origin in layers:
        values |= layer
        origins |= dict.fromkeys(layer, origin)
    theirs: set[str] = set()
    for item in sets:
        path, value = _parse(item)
        _place(values, path, value)
        origins[path[0]] = "--set"
        theirs.add(".".join(path[:2]))
    dropped = _narrow(values, theirs) if source in PRESETS else []
    values |= repeat_losses(values)
    chosen = choose(values)
    origins |= dict.fromkeys(chosen.values, "chosen for this machine and these data")
    config = make(values | chosen.values)
    known = {key: origins.get(key, "default") for key in StudyConfig.model_fields}
    return Resolved(config, known, dropped + chosen.reasons)


def _narrow(values: dict[str, Any], theirs: set[str]) -> list[str]:
    """Fit a preset to the axes that the user narrowed; return a sentence for each lost name."""
    changed = narrow(values, theirs)
    lost = {
        key: [name for name in values[key] if name not in changed[key]]
        for key in AXIS_KEYS.values()
        if key in changed
    }
    values |= changed
    return [
        f"{key} without {', '.join(map(str, names))}, because the preset leaves these out "
        f"wherever --set still has cells."
        for key, names in lost.items()
    ]


def _base(source: str) -> tuple[dict[str, Any], str]:
    if source.endswith((".yaml", ".yml")) or Path(source).is_file():
        return read_yaml(Path(source)), f"file {source}"
    return pick(PRESETS, source, "preset (or .yaml file)")(), f"preset {source}"


class UniqueKeyLoader(yaml.SafeLoader):
    """Load plain YAML and refuse a repeated key; YAML itself would silently take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in lines:
                raise yaml.YAMLError(
                    f"the key '{name}' appears in line {lines[name]} and again in line {line}; "
                    f"leave one of them."
                )
            lines[name] = line
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the keys and values of a YAML file, or raise ValueError."""
    try:
        values = yaml.load(path.read_text(encoding="utf8"), UniqueKeyLoader)
    except FileNotFoundError:
        raise ValueError(
            f"There is no file {path}; `fairtrial config show quickstart` prints one to start from."
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError, OSError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} cannot be read as YAML: {reason}") from None
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise ValueError(
            f"{path} must hold keys and values, like the output of `fairtrial config show "
            f"quickstart`."
        )
    return values


def _parse(item: str) -> tuple[list[str], Any]:
    key, found, text = item.partition("=")
    if not found or not key.strip():
        raise ValueError(f"--set takes key=value, but got '{item}'.")
    try:
        return _path(key.strip()), yaml.safe_load(text)
    except yaml.YAMLError:
        return _path(key.strip()), text


def _path(key: str) -> list[str]:
    """Split settings.LOSS.NAME into three: the name of a user's own loss has dots in it."""
    head, _, rest = key.partition(".")
    loss, _, last = rest.rpartition(".")
    return [head, loss, last] if head == "settings" and loss else key.split(".")


def _place(values: dict[str, Any], path: list[str], value: Any) -> None:
    """Set a value in place.

    settings.triplet.margin reaches into the settings of triplet; all other keys have one part.
    """
    *parents, last = path
    for parent in parents:
        if not isinstance(values.get(parent, {}), dict):
            raise ValueError(
                f"{parent} takes one value and has no part '{last}'; only settings has parts, as "
                f"in settings.triplet.margin."
            )
        values[parent] = dict(values.get(parent) or {})
        values = values[parent]
    values[last] = value
