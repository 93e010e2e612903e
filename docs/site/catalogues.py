"""Write the reference of presets, tables, figures, exit codes and whatever else `list` lists."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from pieces import code, table, text

from study import errors
from study.cli.listing import KINDS
from study.config.plan import expand
from study.config.sources import resolve
from study.presets import PRESETS

# What an exit code means to a script; every constant of study/errors.py is here.
EXIT_CODES = {
    "BUG": "You answered no to a question; or a study met an error that it does not know: its "
    "sentence says where the traceback is, and `--resume` continues.",
    "BAD_INPUT": "Bad input: one sentence says what is wrong and how to mend it. Nothing started.",
    "FAILED_TRIALS": "The study finished, but trials failed or stalled; the ranking is there, and "
    "the last line says where their errors are.",
    "NO_PLACE": "The machine or cluster cannot run it: storage, MLflow server, cluster, a dead Ray "
    "or a full disk. Mend it, then `--resume`.",
    "TIME_IS_UP": "`max_hours` have passed; `--resume` continues.",
    "INTERRUPTED": "Interrupted by Ctrl-C; `--resume` continues. SIGTERM gives 143, a closed "
    "terminal 129.",
}
OTHERS = {0: "Good."}


def exit_codes() -> dict[int, str]:
    """Return every exit code with its meaning."""
    return OTHERS | {getattr(errors, name): about for name, about in EXIT_CODES.items()}


def exit_codes_page() -> str:
    """Return the page of exit codes."""
    rows = [[f"`{number}`", text(about)] for number, about in sorted(exit_codes().items())]
    return (
        "# Exit codes\n\nGenerated from `study/errors.py`. Errors are one sentence on stderr: the "
        "rule, the fact, the cure.\n\n" + table(("code", "meaning"), rows)
    )


def presets_page() -> str:
    """Return the page of presets, with what each would run."""
    rows = [[f"[`{name}`](#{name})", *map(str, _counts(name))] for name in PRESETS]
    parts = [
        "# Presets\n\nGenerated from `study/presets`. `fairtrial plan PRESET` says what one would "
        "take; any of them runs tiny with `--smoke`, and can be narrowed by `--set`. "
        "[Sources](../sources.md) lists the tables and figures that they redo.\n\n"
        + table(("preset", "cells", "search trials", "final trials"), rows)
    ]
    for name, preset in PRESETS.items():
        paragraphs = (preset.__doc__ or "").split("\n\n")
        parts.append(f"## {name}\n\n" + "\n\n".join(map(text, paragraphs)) + "\n")
    return "\n".join(parts)


def _counts(name: str) -> tuple[int, int, int]:
    """Return cells, search trials and final trials; own data is made up where it is needed."""
    with tempfile.TemporaryDirectory() as folder:
        plan = expand(resolve(name, sets=own_data(name, Path(folder))).config)
        trials = [plan.trials(cell) for cell in plan.cells]
    return len(trials), sum(search for search, _ in trials), sum(final for _, final in trials)


def own_data(name: str, folder: Path) -> list[str]:
    """Return what points a preset that needs data of your own to some with 200 classes."""
    if name == "vectors":
        labels = np.repeat(np.arange(200), 2)
        np.savez(folder / "vectors.npz", features=np.ones((400, 2)), labels=labels)
        return [f"data_root={folder / 'vectors.npz'}"]
    if name == "photos":
        for number in range(200):
            (folder / f"{number:03}").mkdir()
            (folder / f"{number:03}" / "1.jpg").touch()
        return [f"data_root={folder}"]
    return []


def listed_page(kind: str, title: str, intro: str) -> str:
    """Return the page of tables or figures, with the papers that have each."""
    rows = [
        [f"`{name}`", text(entry["about"]), ", ".join(map(code, entry["published"]))]
        for name, entry in KINDS[kind]().items()
    ]
    return f"# {title}\n\n{intro}\n\n" + table(("name", "about", "papers that have it"), rows)


def tables_page() -> str:
    """Return the page of tables."""
    return listed_page(
        "tables",
        "Tables",
        "Generated from `analysis/tables/catalogue.py`. Print one with `fairtrial report STUDY "
        "--table NAME`, in another form with `--format`, or a paper's own with `--published "
        "PAPER`. [How to read them](../results.md#tables).",
    )


def figures_page() -> str:
    """Return the page of figures."""
    return listed_page(
        "figures",
        "Figures",
        "Generated from `analysis/figures/catalogue.py`. Write one with `fairtrial report STUDY "
        "--figure NAME`, or a paper's own with `--published PAPER`.",
    )


def catalogues_page() -> str:
    """Return one page of what else there is to choose from."""
    parts = [
        "# Datasets, backbones, protocols, metrics, strategies\n\nGenerated from what `fairtrial "
        "list` shows.\n"
    ]
    for kind in ("datasets", "backbones", "protocols", "metrics", "strategies"):
        entries = KINDS[kind]()
        extra = [key for key in ("licence", "images", "input_size", "pretrained")
                 if key in next(iter(entries.values()))]  # fmt: skip
        rows = [
            [f"`{name}`", text(entry["about"]), *(_shown(entry[key]) for key in extra)]
            for name, entry in entries.items()
        ]
        header = ("name", "about", *(key.replace("_", " ") for key in extra))
        parts.append(f"## {kind.capitalize()}\n\n" + table(header, rows))
    return "\n".join(parts)


def _shown(value: Any) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else text(value)
