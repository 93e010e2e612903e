"""Open a page in Chromium, and let a script look at it and click as a reader does."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (found := shutil.which(name))
    ),
    None,
)
in_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
# Notes from the first line on what fails and what the page's policy forbids.
EARLY = """<script>window.failed = [];
addEventListener('error', (e) => failed.push(String(e.message || e.target.outerHTML)), true);
addEventListener('securitypolicyviolation',
  (e) => failed.push(e.violatedDirective + ' ' + e.blockedURI));</script>"""
LATE = """<script>
const found = (() => { try { %s } catch (error) { return { thrown: String(error.stack) }; } })();
found.failed = window.failed;
found.requests = performance.getEntriesByType("resource").map((each) => each.name);
document.body.append(Object.assign(document.createElement("pre"),
  { id: "found", textContent: JSON.stringify(found) }));
</script>"""


def browse(page: Path, *options: str, address: str = "") -> str:
    """Return what Chromium prints about a page. address: #search, say."""
    alone = ["--no-sandbox"] if os.getuid() == 0 else []
    command = [str(CHROMIUM), "--headless", "--disable-gpu", "--hide-scrollbars", *alone]
    return subprocess.run(
        [*command, "--virtual-time-budget=5000", *options, page.as_uri() + address],
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
    ).stdout


def look(page: Path, script: str, *options: str, address: str = "") -> dict[str, Any]:
    """Return what a script returns that runs in a copy of the page, after the page's own.

    The copy differs from the page by these scripts, and by the rule that would forbid them.
    """
    text = page.read_text(encoding="utf-8")
    policy = re.search(r"script-src '[^']*'", text)
    assert policy
    text = text.replace(policy[0], "script-src 'unsafe-inline'", 1)
    text = text.replace("<title>", f"{EARLY}<title>", 1)
    before, _, after = text.rpartition("</body>")
    copy = page.with_name("looked-at.html")
    copy.write_text(f"{before}{LATE % script}</body>{after}", encoding="utf-8")
    dom = browse(copy, "--dump-dom", *options, address=address)
    copy.unlink()
    seen = re.search(r'<pre id="found">(.*?)</pre>', dom, flags=re.DOTALL)
    assert seen
    found: dict[str, Any] = json.loads(unescape(seen[1]))
    assert "thrown" not in found, found["thrown"]
    assert found.pop("failed") == []
    assert found.pop("requests") == [], "a page asks nothing of a network"
    return found
