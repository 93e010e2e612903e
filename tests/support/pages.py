"""Find what the README and the pages of docs/ tell people to type, and a place where that works."""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image
from typer.testing import CliRunner

from study.__main__ import app
from tests.support.synthetic_study import FOLDS, everything, write_study

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Words that a reader replaces, and what stands for each of them in tests.
PLACEHOLDERS = {
    "NAME": "quickstart",
    "STUDY": "quickstart",
    "PRESET": "quickstart",
    "OTHER": "two-losses",
    "FOLDER": "photos",
    "data_root=FOLDER": "data_root=photos",
    "PATH": "photos",
    "~/photos": "photos",
    "~/CUB_200_2011.tgz": "CUB_200_2011.tgz",
    "config.yaml": "mine.yaml",
    "studies/NAME/config.yaml": "studies/quickstart/config.yaml",
}
CALL = re.compile(r"^((?:[A-Z_]+=\S+ )*)(?:uv run (?:--no-sync )?)?fairtrial ([a-z].*)")


@dataclass(frozen=True)
class Typed:
    """Hold one command of a page: the words behind `fairtrial`, and what stands before it."""

    page: str
    text: str
    environment: str = ""

    @property
    def words(self) -> list[str]:
        return [PLACEHOLDERS.get(word, word) for word in shlex.split(self.text)]

    @property
    def verb(self) -> str:
        first = self.words[0]
        return " ".join(self.words[:2]) if first in ("config", "data") else first

    @property
    def sets(self) -> list[str]:
        words = self.words
        return [words[i + 1] for i, word in enumerate(words) if word == "--set"]

    def __str__(self) -> str:
        return f"{self.page}: {self.environment}{self.text}"


def code_blocks(text: str, *languages: str) -> list[str]:
    """Return the fenced blocks in these languages."""
    found = re.findall(r"^```(\w*)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return [body for language, body in found if language in languages]


def command_lines(text: str) -> list[str]:
    """Return the lines that people type: of bash blocks, indented blocks and inline code."""
    fenced = [line for block in code_blocks(text, "bash", "") for line in _lines(block)]
    without = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    indented = [line for line in without.splitlines() if line.startswith("    ")]
    inline = re.findall(r"`((?:uv run )?fairtrial [a-z][^`]*)`", without.replace("\n", " "))
    return [*fenced, *(line.strip() for line in indented), *inline]


def _lines(block: str) -> list[str]:
    return block.replace("\\\n", " ").splitlines()


def typed_on(path: Path) -> list[Typed]:
    """Return every command of ours on a page, once."""
    parts = [
        part.strip()
        for line in command_lines(path.read_text())
        for part in re.split(r"\s#|&&", f" {line}")
    ]
    found = [match for part in parts if (match := CALL.match(part))]
    return list(
        dict.fromkeys(
            Typed(path.name, re.split(r"\s[>|]", match[2])[0].strip(), match[1])
            for match in found
            if "$" not in match[2]  # a script's own words
        )
    )


TYPED = [each for path in PAGES for each in typed_on(path)]


def furnish(folder: Path) -> None:
    """Put into a folder what the pages assume: two studies, photos, vectors, configs, a loss."""
    config = CliRunner().invoke(app, ["config", "show", "quickstart"]).stdout
    trials = [each for each in everything() if each.protocol != FOLDS]
    for name, made in (("quickstart", trials), ("two-losses", trials[1:])):
        home = write_study(folder / "studies", made, name)
        (home / "config.yaml").write_text(config.replace("name: quickstart", f"name: {name}"))
    (folder / "mine.yaml").write_text(config.replace("name: quickstart", "name: mine"))
    rng = np.random.default_rng(0)
    for name in range(40):
        (folder / "photos" / f"{name:02}").mkdir(parents=True)
        for number in range(3):
            noise = rng.integers(256, size=(16, 20, 3), dtype=np.uint8)
            Image.fromarray(noise).save(folder / "photos" / f"{name:02}" / f"{number}.png")
    labels = np.repeat(np.arange(40), 6)
    np.savez(folder / "vectors.npz", features=rng.normal(size=(240, 8)), labels=labels)
    (folder / "mylosses.py").write_text(code_blocks((ROOT / "README.md").read_text(), "python")[0])
    shutil.copy(ROOT / "cluster.yaml", folder)
    for name in ("one.jpg", "two.jpg"):
        shutil.copy(folder / "photos" / "00" / "0.png", folder / name)
