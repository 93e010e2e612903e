"""The README is short, and names what is there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from search_spaces import LOSSES

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_it_has_at_most_150_lines_of_100_columns() -> None:
    lines = README.splitlines()
    assert len(lines) <= 150
    assert max(map(len, lines)) <= 100


def test_the_two_commands_stand_there_exactly() -> None:
    assert "\npip install uv && uv run fairtrial run quickstart " in README
    assert "\npip install uv && uv run pytest " in README


def test_every_picture_link_and_file_it_names_exists() -> None:
    for name in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", README):
        assert (ROOT / name).stat().st_size > 100, name


def test_every_link_to_a_heading_leads_to_one() -> None:
    for name, anchor in re.findall(r"\]\(([^)#]+)#([^)]+)\)", README):
        headings = re.findall(r"^#+ (.+)$", (ROOT / name).read_text(), flags=re.MULTILINE)
        assert anchor in {
            re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings
        }


def test_it_counts_the_losses_that_ship() -> None:
    assert f"{len(LOSSES)} that ship" in README


def test_its_own_loss_is_that_of_the_page() -> None:
    """Same loss on both, so that a reader who follows the link finds what they have."""
    page = (ROOT / "docs" / "loss.md").read_text()
    for line in ("return Objective(losses.TripletMarginLoss(margin=margin))", 'params = {"margin"'):
        assert line in README
        assert line in page


def test_the_site_is_not_tracked() -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "site", "docs/reference"], cwd=ROOT, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert not tracked.stdout.strip()
