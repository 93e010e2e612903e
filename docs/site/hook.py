"""Add the generated pages to the site, and the losses' pages to its navigation.

MkDocs calls these functions at every build; `mkdocs serve` calls them again after a change.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from catalogues import catalogues_page, exit_codes_page, figures_page, presets_page, tables_page
from commands import commands_page
from diagrams import with_diagrams
from keys import keys_page
from loss_pages import loss_index, loss_page
from mkdocs.structure.files import File

from search_spaces import LOSSES

ROOT = Path(__file__).parents[2]
PAGES: dict[str, Callable[[], str]] = {
    "reference/commands.md": commands_page,
    "reference/keys.md": keys_page,
    "reference/presets.md": presets_page,
    "reference/tables.md": tables_page,
    "reference/figures.md": figures_page,
    "reference/catalogues.md": catalogues_page,
    "reference/exit_codes.md": exit_codes_page,
    "reference/losses/index.md": loss_index,
    **{f"reference/losses/{name}.md": lambda name=name: loss_page(name) for name in LOSSES},
    "changelog.md": lambda: (ROOT / "CHANGELOG.md").read_text(),
}


def on_config(config: Any) -> Any:
    """List every loss below the page of all losses."""
    reference = next(part["Reference"] for part in config.nav if "Reference" in part)
    losses = next(part["Losses"] for part in reference if "Losses" in part)
    losses[1:] = [f"reference/losses/{name}.md" for name in sorted(LOSSES)]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Write every generated page."""
    torch.set_num_threads(1)  # the batches have four images
    for uri, write in PAGES.items():
        files.append(File.generated(config, uri, content=write()))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Draw flowcharts."""
    return with_diagrams(markdown)
