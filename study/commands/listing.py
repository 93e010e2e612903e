"""fairtrial list: what there is to choose from."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

import typer

from search_spaces import LOSSES, pick
from study.commands import Json, one_sentence
from study.presets import PRESETS
from study.protocols import PROTOCOLS
from study.strategies import STRATEGIES
from trainables.backbones import BACKBONES
from trainables.datasets import DATASETS
from trainables.metrics import METRICS

Entry = dict[str, Any]


def _losses() -> dict[str, Entry]:
    return {
        name: {
            "about": card.about,
            "cite": card.cite,
            "kind": card.kind,
            "batches": card.batches,
            "note": card.note,
            "params": {key: asdict(param) for key, param in card.params.items()},
        }
        for name, card in LOSSES.items()
    }


def _datasets() -> dict[str, Entry]:
    return {
        name: {"about": d.about, "licence": d.licence, "classes": d.classes, "images": d.images, "train": len(d.train), "test": len(d.test)}
        for name, d in DATASETS.items()
    }


def _documented(table: dict[str, Any]) -> dict[str, Entry]:
    return {name: {"about": (member.__doc__ or "").strip()} for name, member in table.items()}


KINDS: dict[str, Callable[[], dict[str, Entry]]] = {
    "losses": _losses,
    "datasets": _datasets,
    "backbones": lambda: {name: {"about": backbone.about} for name, backbone in BACKBONES.items()},
    "protocols": lambda: _documented(dict(PROTOCOLS)),
    "presets": lambda: _documented(dict(PRESETS)),
    "metrics": lambda: {name: {"about": about} for name, about in METRICS.items()},
    "strategies": lambda: {name: {"about": strategy.about} for name, strategy in STRATEGIES.items()},
}


def show(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=", ".join(KINDS))],
    as_json: Json = False,
) -> None:
    """List losses, datasets, backbones, protocols, presets, metrics or strategies."""
    with one_sentence():
        entries = pick(KINDS, kind, "list")()
    if as_json:
        print(json.dumps(entries, indent=1))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    for name, entry in entries.items():
        detail = f"\n[dim]{entry['cite']}; published setting: {_published(entry)}[/dim]" if kind == "losses" else ""
        table.add_row(f"[bold]{name}[/bold]", entry["about"] + detail)
    Console().print(table, highlight=False)


def _published(entry: Entry) -> str:
    return "  ".join(f"{key}={param['paper']:g}" for key, param in entry["params"].items())
