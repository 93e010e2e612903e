"""fairtrial plan: what a study would do and cost, before anything starts."""

import json
import os
from dataclasses import asdict

from search_spaces import text
from study.commands import Json, Name, Sets, Smoke, Source, one_sentence
from study.preflight import check_place
from study.sources import resolve
from trainables.fetch import home


def plan(source: Source, sets: Sets = [], smoke: Smoke = False, name: Name = None, as_json: Json = False) -> None:  # noqa: B006
    """Count cells, trials and epochs; estimate time and disk; show the first settings of every cell."""
    with one_sentence():
        config = resolve(source, sets=sets, smoke=smoke, name=name).config
        check_place(config)
    from study.planning import estimate, plan_cells

    with one_sentence():
        cells = plan_cells(config)
        cost = estimate(config, slots=config.slots or max(1, (os.cpu_count() or 1) // config.workers))
    totals = {
        "name": config.name,
        "cells": len(cells),
        "search_trials": sum(cell.search_trials for cell in cells),
        "final_trials": sum(cell.final_trials for cell in cells),
        "baseline_trials": len(config.baseline_cells()),
        "epochs": [sum(cell.epochs[i] for cell in cells) for i in (0, 1)],
        "rungs": config.rungs(),
        "estimate": cost,
    }
    if as_json:
        print(json.dumps(totals | {"plan": [asdict(cell) for cell in cells]}, indent=1))
        return
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False)
    for column, side in (("cell", "left"), ("search trials", "right"), ("final trials", "right"), ("epochs", "right")):
        table.add_column(column, justify=side, overflow="fold")  # type: ignore[arg-type]
    for cell in cells:
        table.add_row(cell.label, str(cell.search_trials), str(cell.final_trials), _span(cell.epochs))
    console.print(table)
    console.print("\nFirst settings (the first is the published one; later ones depend on results, so only a few can be shown)")
    for cell in (cell for cell in cells if cell.search_trials):
        for number, setting in enumerate(cell.first_settings):
            shown = "  ".join(f"{key.removeprefix('loss.')}={text(value)}" for key, value in setting.items())
            console.print(f"{'' if number else cell.label:<30}  {shown}", soft_wrap=True, markup=False)
    console.print(
        f"\n{totals['cells']} cells, {totals['search_trials']} search trials, {totals['final_trials']} final trials, "
        f"{totals['baseline_trials']} baselines, {_span(totals['epochs'])} epochs; early stopping at epochs {config.rungs()}."  # type: ignore[arg-type]
    )
    if cost["unknown"]:
        console.print(f"Time not known yet. {cost['unknown']}", soft_wrap=True)
    else:
        low, high = (seconds / 60 for seconds in cost["seconds"])
        console.print(f"About {low:.1f} to {high:.1f} minutes on {cost['slots']} slots, and {cost['disk_bytes'] / 1e6:.0f} MB of disk.")
    if cost["cache_bytes"]:
        console.print(f"Decoded images take {cost['cache_bytes'] / 1e9:.2f} GB in {home()}.", soft_wrap=True)
    for notice in config.notices():
        console.print(notice, style="yellow", soft_wrap=True)


def _span(pair: list[int] | tuple[int, int]) -> str:
    return f"{pair[0]}" if pair[0] == pair[1] else f"{pair[0]} to {pair[1]}"
