"""List every string that a user may see: `python -m tests.support.user_strings` prints them."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("analysis", "search_spaces", "study", "trainables")
PAGES = ("README.md", "docs/*.md", "analysis/report/templates/*.jinja")
SENTENCE = 3  # words; shorter strings are names, keys and units


@cache
def user_strings() -> tuple[tuple[str, str], ...]:
    """Return where each string is and what it says: of running code, of verbs' help, of pages."""
    return tuple(_strings())


def _strings() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            tree = ast.parse(path.read_text())
            hidden = set() if path.parent.name == "cli" else _docstrings(tree)
            for node in ast.walk(tree):
                if id(node) not in hidden and isinstance(node, ast.Constant | ast.JoinedStr):
                    text = " ".join(_text(node).split())
                    if len(text.split()) >= SENTENCE:
                        yield f"{path.relative_to(ROOT)}:{node.lineno}", text
    for pattern in PAGES:
        for path in sorted(ROOT.glob(pattern)):
            prose = re.sub(r"`[^`]*`", "", path.read_text())
            for number, line in enumerate(prose.splitlines(), 1):
                if len(line.split()) >= SENTENCE:
                    yield f"{path.relative_to(ROOT)}:{number}", line.strip()


def _docstrings(tree: ast.Module) -> set[int]:
    """Return what stands for itself as a statement: docstrings are for readers of the code."""
    return {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}


def _text(node: ast.Constant | ast.JoinedStr) -> str:
    """Return a string; what an f-string fills in is an ellipsis."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "".join(
        str(each.value) if isinstance(each, ast.Constant) else "…" for each in node.values
    )


if __name__ == "__main__":
    for where, text in user_strings():
        print(f"{where}: {text}")
