"""Render a page as one file: its style, its scripts and their library are inside."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2

LIBRARY = "uplot/uPlot.iife.min.js"  # draws lines and dots
SCRIPTS = ("page.js", "tabs.js", "charts.js", "parallel.js", "trials.js", "begin.js")
STYLES = ("uplot/uPlot.min.css", "page.css")


def render(template: str, **values: Any) -> str:
    """Return a page made of one of the templates."""
    script = "\n".join(_asset(name) for name in (LIBRARY, *SCRIPTS))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    style = "\n".join(map(_asset, STYLES))
    page = _pages().get_template(template)
    return page.render(script=script, script_hash=digest, style=style, **values)


@cache
def _asset(name: str) -> str:
    return files("analysis.report").joinpath("assets", name).read_text(encoding="utf-8")


@cache
def _pages() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("analysis.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["first_upper"] = lambda text: text[:1].upper() + text[1:]
    # The filter `tojson` escapes <, > and &, so that no name can end the script around it.
    found.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return found
