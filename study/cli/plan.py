"""fairtrial plan: show what a study would do and cost, before anything starts."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from search_spaces import value_text
from study.cli.terminal import FAIRTRIAL, Json, Name, Sets, Smoke, Source, one_sentence, size_text
from study.config.notices import notices
from study.config.plan import expand
from study.config.sources import resolve
from study.driver.preflight import check_place, check_weight_file
from trainables.fetch import home

if TYPE_CHECKING:
    from rich.console import Console

    from study.estimate.counts import CellCounts
    from study.estimate.power import SmallestDifference
    from study.strategies.strategy import Setting


def plan(
    source: Source,
    sets: Sets = [],  # noqa: B006
    smoke: Smoke = False,
    name: Name = None,
    as_json: Json = False,
    settings: Annotated[
        bool, typer.Option("--settings", help="also show with which settings each search begins")
    ] = False,
) -> None:
    """Show what a study would train, how long that takes, how much disk it needs, and how small a
    difference between two losses it could show.
    """
    with one_sentence():
        resolved = resolve(source, sets=sets, smoke=smoke, name=name)
        config = resolved.config
        check_place(config)
        expanded = expand(config)
        check_weight_file(config)
    from study.estimate.costs import estimate
    from study.estimate.counts import count_cells, first_settings, totals
    from study.estimate.power import smallest_differences

    with one_sentence():
        cells = count_cells(expanded)
        cost = estimate(
            expanded, cells, slots=config.slots or max(1, (os.cpu_count() or 1) // config.workers)
        )
        differences = smallest_differences(expanded)
        losses = dict.fromkeys(cell.loss for cell in expanded.cells) if settings else ()
        first = {loss: first_settings(expanded, loss) for loss in losses}
    found = totals(expanded, cells)
    if as_json:
        more = {
            "first_settings": first,
            "estimate": cost,
            "smallest_differences": [asdict(each) for each in differences],
            "plan": [asdict(cell) for cell in cells],
        }
        print(json.dumps(found | more, indent=1))
        return
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    for reason in resolved.choices:
        console.print(f"Chosen: {reason}", soft_wrap=True)
    _print_cells(console, cells)
    if first:
        _print_settings(console, first)
    _print_counts(console, found)
    _print_cost(console, cost)
    _print_differences(console, differences)
    for notice in notices(expanded):
        console.print(notice, style="yellow", soft_wrap=True)


def _print_counts(console: "Console", found: dict[str, Any]) -> None:
    stopping = f"; early stopping at epochs {found['rungs']}" if found["rungs"] else ""
    models = (
        f" ({_span(found['model_epochs'])} of single models)"
        if found["model_epochs"] != found["epochs"]
        else ""
    )
    console.print(
        f"\n{found['cells']:,} cells, {found['search_trials']:,} search trials, "
        f"{found['final_trials']:,} final trials, "
        f"{found['baseline_trials']:,} baselines, {_span(found['epochs'])} "
        f"epochs{models}{stopping}.",
        soft_wrap=True,
    )


def _print_differences(console: "Console", differences: "Sequence[SmallestDifference]") -> None:
    for each in differences:
        console.print(
            f"On {each.dataset} it would show a difference of {100 * each.value:.1f} points of "
            f"Recall@1 between two losses four times in five, if its numbers vary as those of "
            f"{each.source} do; more searches show smaller ones.",
            soft_wrap=True,
        )


def _print_cells(console: "Console", cells: "Sequence[CellCounts]") -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column, side in (
        ("cell", "left"),
        ("search trials", "right"),
        ("final trials", "right"),
        ("models", "right"),
        ("epochs", "right"),
    ):
        table.add_column(column, justify=side, overflow="fold")  # type: ignore[arg-type]
    for cell in cells:
        table.add_row(
            cell.label,
            str(cell.search_trials),
            str(cell.final_trials),
            str(cell.models),
            _span(cell.epochs),
        )
    console.print(table)


def _print_settings(console: "Console", first: "Mapping[str, Sequence[Setting]]") -> None:
    console.print(
        "\nSettings with which each search begins: the published one, then proposals; later ones "
        "depend on results.",
        soft_wrap=True,
    )
    width = max(map(len, first))
    for loss, settings in first.items():
        for number, setting in enumerate(settings):
            shown = "  ".join(
                f"{key.removeprefix('loss.')}={value_text(value)}" for key, value in setting.items()
            )
            console.print(f"{'' if number else loss:<{width}}  {shown}", soft_wrap=True)


def _print_cost(console: "Console", cost: dict[str, Any]) -> None:
    """Say in sentences what the study takes, what comes first, and how that is known."""
    for sentence in _cost_sentences(cost):
        console.print(sentence, soft_wrap=True, markup=False)


def _cost_sentences(cost: dict[str, Any]) -> Iterator[str]:
    if cost["unknown"]:
        yield f"Time unknown yet. {cost['unknown']}"
    else:
        slots = f"{cost['slots']} slot{'s' if cost['slots'] > 1 else ''}"
        yield (
            f"About {_time(cost['seconds'])} on {slots}, if this machine does nothing else; "
            f"{_hours(cost['worker_hours'])} {cost['worker']}-hours."
        )
        for each in cost["preparation"]:
            yield (
                f"First, once for this machine: {each['what']} ({each['images']:,} images, about "
                f"{_amount(each['core_seconds'])})."
            )
        yield f"Time from {cost['time_from']}."
    if cost["disk_bytes"] is not None:
        yield f"Up to {size_text(cost['disk_bytes'])} of disk."
    if cost["cache_bytes"]:
        yield (
            f"Decoded images and features take {size_text(cost['cache_bytes'])} in {home()}, for "
            f"all studies (`{FAIRTRIAL} data cache`)."
        )


def _time(seconds: Sequence[float]) -> str:
    unit, size = ("minutes", 60) if seconds[1] < 3 * 3600 else ("hours", 3600)
    low, high = (f"{part / size:,.1f}" for part in seconds)
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"


def _hours(hours: Sequence[float]) -> str:
    low, high = (f"{part:,.2f}" if part < 10 else f"{part:,.0f}" for part in hours)
    return low if low == high else f"{low} to {high}"


def _amount(core_seconds: float) -> str:
    """Return an amount of work in core-seconds, minutes or hours."""
    for size, unit in ((3600, "hours"), (60, "minutes")):
        if core_seconds >= 3 * size:
            return f"{core_seconds / size:,.0f} core-{unit}"
    return f"{max(1, round(core_seconds))} core-seconds"


def _span(pair: Sequence[float]) -> str:
    return f"{pair[0]:,.0f}" if pair[0] == pair[1] else f"{pair[0]:,.0f} to {pair[1]:,.0f}"
