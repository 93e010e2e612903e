"""fairtrial data cache: list what this machine caches, and remove what nobody needs any more."""

import time
from typing import Annotated

import typer

from study.cli.terminal import FAIRTRIAL, agree, one_sentence, size_text, terminal
from trainables.caches import Cached, find_caches, list_caches, remove
from trainables.fetch import home


def cache(
    name: Annotated[
        str | None,
        typer.Option("--remove", metavar="NAME", help="a name from the list, all or unfinished"),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> None:
    """List decoded pixels, features, converted vectors and fetched weights, with their sizes; or
    remove some. Studies make again what they need.
    """
    if name is None:
        _show(list_caches())
        return
    with one_sentence():
        chosen = find_caches(name)
    if not chosen:
        print(f"There is nothing to remove in {home()}.")
        return
    if not yes:
        what = chosen[0].name if len(chosen) == 1 else f"{len(chosen)} caches"
        size = size_text(sum(each.bytes for each in chosen))
        agree(f"Remove {what} ({size})? Studies that need it make or fetch it again.")
    for each in chosen:
        with one_sentence():
            remove(each)
        print(f"{each.name} is removed ({size_text(each.bytes)}).")


def _show(found: list[Cached]) -> None:
    console = terminal()
    if not found:
        console.print(f"Nothing is cached in {home()}.", highlight=False, soft_wrap=True)
        return
    for each in found:
        day = time.strftime("%Y-%m-%d", time.localtime(each.used))
        console.print(each.name, highlight=False, markup=False, soft_wrap=True)
        about = f"    {size_text(each.bytes)}, last used {day}: {each.holds}"
        console.print(about, highlight=False, markup=False, soft_wrap=True)
    total = size_text(sum(each.bytes for each in found))
    console.print(
        f"\n{total} in {home()}. `{FAIRTRIAL} data cache --remove NAME` removes one, `--remove "
        f"unfinished` what killed processes left, `--remove all` everything.",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
