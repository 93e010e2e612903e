"""What a user reads is plain English: none of the turns of phrase that slowed readers down."""

import re

import pytest

from tests.support.user_strings import user_strings

# Passive and solemn words of earlier versions, where a plainer word does better.
OLD = {
    "told": r"\btold\b(?! apart)",
    "if not given": r"\bif (not|none is|nothing is) given\b",
    "stand": r"\bstands?\b(?! for|-in)",
    "kept": r"\b(is|are|be|was|were) kept\b",
    "a ... of its own": r"\ba (file|place|folder|name|page) of (its|their|one's) own\b",
    "whatever it was": r"\bwhatever it was\b",
    "is no ...": r"(?<![Tt]here )\bis no (study|file|folder|name|dataset|number)\b",
    "somebody": r"\b(somebody|anybody)\b",
}


@pytest.mark.parametrize("name", sorted(OLD))
def test_no_text_for_users_has_the_old_dialect(name: str) -> None:
    found = [f"{where}: {text}" for where, text in user_strings() if re.search(OLD[name], text)]
    assert found == []


def test_texts_of_every_kind_are_read() -> None:
    """Messages, help, templates and pages: an empty list would pass above."""
    places = {where.split(":")[0] for where, _ in user_strings()}
    assert {"README.md", "docs/tutorial.md", "study/cli/run.py", "study/config/checks.py"} <= places
    assert any(place.endswith(".jinja") for place in places)
