"""fairtrial list: show what there is to choose from."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

import typer

from search_spaces import LOSSES, LossSpace, find_card, pick, value_text
from study.cli.terminal import FAIRTRIAL, Json, one_sentence, terminal
from study.config.cells import RECALLS
from study.config.protocols import PROTOCOLS
from study.presets import PRESETS
from study.strategies.catalogue import STRATEGIES
from trainables.datasets.catalogue import DATASETS, is_here
from trainables.metrics.retrieval import METRICS
from trainables.networks.backbones import BACKBONES

Details = dict[str, Any]
MORE = {
    "pooled_NAME": (
        "any of these from the features below the embedding layer, as in pooled_recall_at_1"
    ),
    RECALLS: "recall at the k of the dataset's papers: "
    + "; ".join(
        f"{name} {', '.join(map(str, source.recalls))}" for name, source in DATASETS.items()
    ),
}


def _losses() -> dict[str, Details]:
    return {name: _card(card) for name, card in LOSSES.items()}


def _card(card: LossSpace) -> Details:
    entry = {key: value for key, value in asdict(card).items() if key not in ("params", "defaults")}
    return entry | {"params": {key: asdict(param) for key, param in card.params.items()}}


def _datasets() -> dict[str, Details]:
    return {
        name: {
            "about": source.about,
            "licence": source.licence,
            "classes": source.classes,
            "images": source.images,
            "train": source.train_classes,
            "test": None if source.classes is None else len(source.test),
            "here": is_here(name),
        }
        for name, source in DATASETS.items()
    }


def _backbones() -> dict[str, Details]:
    return {
        name: {
            "about": backbone.about,
            "input_size": backbone.input_size,
            **asdict(backbone.input_norm),
            "pretrained": backbone.weights.name if backbone.weights else None,
        }
        for name, backbone in BACKBONES.items()
    }


def _tables() -> dict[str, Details]:
    from analysis.published import PAPERS
    from analysis.tables.catalogue import TABLES

    return {
        name: {
            "about": recipe.about,
            "published": [paper for paper, had in PAPERS.items() if name in had],
        }
        for name, recipe in TABLES.items()
    }


def _figures() -> dict[str, Details]:
    from analysis.figures.catalogue import FIGURES
    from analysis.published.paper_figures import PAPER_FIGURES

    return {
        name: {
            "about": kind.about,
            "published": [paper for paper, had in PAPER_FIGURES.items() if name in had],
        }
        for name, kind in FIGURES.items()
    }


def _documented(table: dict[str, Any]) -> dict[str, Details]:
    """Describe each member by its docstring in one line, which the terminal wraps."""
    return {
        name: {"about": " ".join((member.__doc__ or "").split())} for name, member in table.items()
    }


KINDS: dict[str, Callable[[], dict[str, Details]]] = {
    "losses": _losses,
    "datasets": _datasets,
    "backbones": _backbones,
    "protocols": lambda: _documented(dict(PROTOCOLS)),
    "presets": lambda: _documented(dict(PRESETS)),
    "metrics": lambda: {name: {"about": about} for name, about in (METRICS | MORE).items()},
    "tables": _tables,
    "figures": _figures,
    "strategies": lambda: {
        name: {"about": strategy.about} for name, strategy in STRATEGIES.items()
    },
}


def show(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=", ".join(KINDS))],
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="one loss: its whole card")
    ] = None,
    as_json: Json = False,
) -> None:
    """List losses, datasets, backbones, protocols, presets, metrics, tables, figures or strategies;
    `list losses NAME` shows one card.
    """
    with one_sentence():
        entries = pick(KINDS, kind, "list")()
        if name and kind != "losses":
            raise ValueError(
                f"Only losses have cards; `fairtrial list {kind}` shows all there is to say."
            )
        if name:
            card = find_card(name)
            entries = {name: _card(card)}
    if name and not as_json:
        from study.cli.loss_card import print_card

        print_card(terminal(), name, card)
        return
    if as_json:
        print(json.dumps(entries, indent=1))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    for name, entry in entries.items():
        writers = {"losses": _published, "datasets": _state, "backbones": _input}
        detail = f"\n{writers[kind](name, entry)}" if kind in writers else ""
        table.add_row(Text(name, style="bold"), Text.assemble(entry["about"], (detail, "dim")))
    terminal().print(table, highlight=False)


def _published(name: str, entry: Details) -> str:
    setting = "  ".join(
        f"{key}={value_text(param['paper'])}" for key, param in entry["params"].items()
    )
    return f"{entry['cite']}; {entry['kind']}; default: {setting}"


def _state(name: str, entry: Details) -> str:
    option = "" if DATASETS[name].url else " --from PATH"
    states = {
        True: "here",
        False: f"not here yet: {FAIRTRIAL} data prepare {name}{option}",
        None: "read where it lies",
    }
    return states[entry["here"]]


def _input(name: str, entry: Details) -> str:
    order = "blue first" if entry["bgr"] else "red first"
    mean, std = (" ".join(f"{value:g}" for value in entry[key]) for key in ("mean", "std"))
    weights = f"; pretrained: {entry['pretrained']}" if entry["pretrained"] else ""
    pixels = f"{entry['input_size']} x {entry['input_size']} pixels"
    return f"{pixels}, (x / {entry['divisor']:g} - {mean}) / {std}, {order}{weights}"
