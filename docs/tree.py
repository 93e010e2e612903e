"""Write the tree of docs/architecture.md: every file of the four packages with its first sentence.

Run `uv run python docs/tree.py` after adding, moving or renaming a file; a test compares the two.
"""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
PACKAGES = ("search_spaces", "trainables", "analysis", "study")
BEGIN, END = "<!-- tree: written by docs/tree.py -->\n", "<!-- end of tree -->"


def first_sentence(path: Path) -> str:
    """Return the first sentence of a module's docstring."""
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    sentence = docstring.split("\n\n")[0].replace("\n", " ").split(". ")[0].rstrip(".")
    return sentence if sentence.endswith("?") else f"{sentence}."


def tree() -> str:
    """Return the four packages as nested Markdown lists."""
    return (
        "\n".join(line for package in PACKAGES for line in _folder(ROOT / package, depth=0)) + "\n"
    )


def _folder(folder: Path, *, depth: int) -> list[str]:
    indent = "  " * depth
    lines = [f"{indent}- **`{folder.name}/`** {first_sentence(folder / '__init__.py')}"]
    modules = [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
    lines += [f"{indent}  - `{path.name}` {first_sentence(path)}" for path in modules]
    for inner in sorted(folder.iterdir()):
        if (inner / "__init__.py").exists():
            lines += _folder(inner, depth=depth + 1)
    return lines


def updated(page: str) -> str:
    """Return the page with a fresh tree between the two marks."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + "\n" + tree() + "\n" + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text()))
