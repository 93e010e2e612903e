"""Every command and every Python block of the README and of docs/ works."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from analysis.figures.catalogue import FIGURES
from analysis.published import PAPERS
from analysis.tables.catalogue import TABLES
from analysis.tables.writers import FORMATS
from study.__main__ import app
from study.config.sources import resolve
from study.presets import PRESETS
from tests.support.pages import PAGES, TYPED, Typed, code_blocks, furnish, typed_on

CONFIGURED = {"run", "plan", "train", "submit", "config show"}
# What each verb needs; a verb that is missing here fails a test.
AT_ONCE = {"list", "config show", "config keys", "report", "compare", "status", "data cache"}
STARTS = {"run", "plan", "train", "data check", "data show", "doctor", "reap", "export"}
ELSEWHERE = {
    "submit": "needs a cluster: tests/study/cluster/test_cluster_up.py",
    "ui": "serves until Ctrl-C: tests/study/cli/test_commands.py",
    "data prepare": "needs an archive or the network: tests/study/cli/test_data.py",
    "stop": "needs a running study: tests/study/cli/test_ending.py",
    "cancel": "needs a running study: tests/study/cli/test_ending.py",
    "delete": "takes the study that others need: tests/study/cli/test_ending.py",
    "repair": "needs a broken study: tests/study/driver/test_repair.py",
    "audit": "needs kept checkpoints: tests/study/driver/test_checkpoint_audit.py",
}
LATER = ("load_embedder(", "sqlite:", "slices(")  # in Python blocks
BLOCKS = [
    (path.name, number, block)
    for path in PAGES
    for number, block in enumerate(code_blocks(path.read_text(), "python"))
]


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reader")
    furnish(folder)
    return folder


@pytest.fixture
def here(furnished: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(furnished)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield furnished
    sys.modules.pop("mylosses", None)


@cache
def command_line() -> Any:
    return typer.main.get_command(app)


def leaf(words: list[str]) -> tuple[Any, list[str]]:
    """Return the command that these words name, and the words behind it."""
    found = command_line()
    while hasattr(found, "commands"):
        assert words[0] in found.commands, words
        found, words = found.commands[words[0]], words[1:]
    return found, words


def is_sentence(each: Typed) -> bool:
    """Return whether prose names a verb without what it needs, as in `fairtrial run`."""
    needs_more = {"run", "plan", "train", "submit", "export", "data prepare", "data check", "list"}
    return each.verb in needs_more and len(each.words) == len(each.verb.split())


def test_the_pages_have_commands() -> None:
    assert len(TYPED) > 100
    assert {each.verb for each in TYPED} >= AT_ONCE | STARTS | {"stop", "audit", "ui"}


@pytest.mark.parametrize("verb", sorted({each.verb for each in TYPED}))
def test_every_verb_of_the_pages_is_run_here_or_elsewhere(verb: str) -> None:
    assert sum(verb in kind for kind in (AT_ONCE, STARTS, ELSEWHERE)) == 1
    if verb in ELSEWHERE:
        place = ELSEWHERE[verb].split(": ")[1]
        assert (Path(__file__).parents[1] / place).exists()


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_command_line_takes_every_command_of_a_page(path: Path) -> None:
    for each in typed_on(path):
        command, words = leaf(each.words)
        if not (is_sentence(each) or {"VERB", "PAPER", "TABLE"} & set(words)):
            command.make_context(each.verb, words)  # raises, where it does not take them


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_key_and_value_that_a_page_sets_is_one_that_a_study_takes(path: Path) -> None:
    for each in typed_on(path):
        if each.verb in CONFIGURED and not is_sentence(each):
            source = each.words[len(each.verb.split())]
            if source in PRESETS or source.endswith(".yaml"):
                sets = [without_file(item) for item in each.sets]
                needs = ["data_root=photos"] if source == "photos" else []
                needs += ["data_root=vectors.npz"] if source == "vectors" else []
                resolve(source, sets=[*needs, *sets], smoke="--smoke" in each.words)


def without_file(item: str) -> str:
    """Return an item that names a file of a finished study as one that needs no file."""
    return "split_seed=1" if item.startswith("split_file=") else item


def at_once(each: Typed) -> bool:
    words = each.words
    if each.verb not in AT_ONCE or {"--cluster", "--watch", "--remove"} & set(words):
        return False
    if each.verb == "report":  # the study of another preset is not here
        return len(words) > 2 and "PAPER" not in words and words[1] in ("quickstart", "--published")
    return True


def ranks(each: Typed) -> bool:
    """Return whether a command ranks the losses of a study, or draws: both take seconds."""
    ours = each.verb in ("report", "compare") and "--published" not in each.words
    return ours or "--figure" in each.words


def distinct(found: list[Typed]) -> list[Typed]:
    """Return each command once; tests/test_sources.py runs those of docs/sources.md."""
    return list({str(t.words): t for t in found if t.page != "sources.md"}.values())


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "each", [t for t in distinct(TYPED) if at_once(t) and not ranks(t)], ids=str
)
def test_a_command_that_trains_nothing_shows_something(each: Typed) -> None:
    shown = CliRunner().invoke(app, each.words)
    assert shown.exit_code == 0, shown.output
    assert shown.output


def test_every_table_figure_and_format_that_a_page_names_exists() -> None:
    """So that the plain layer notices a typo; the slow one makes them."""
    known = {"--table": TABLES, "--figure": FIGURES, "--format": FORMATS, "--published": PAPERS}
    for each in TYPED:
        for option, names in known.items():
            if option in each.words:
                value = each.words[each.words.index(option) + 1]
                assert value in names or value.isupper(), each


@pytest.mark.slow
@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("each", [t for t in distinct(TYPED) if at_once(t) and ranks(t)], ids=str)
def test_a_table_or_figure_of_a_study_is_made(each: Typed) -> None:
    shown = CliRunner().invoke(app, each.words)
    assert shown.exit_code == 0, shown.output
    assert shown.output


def test_a_table_beside_a_paper_is_one_that_both_have() -> None:
    for each in TYPED:
        words = each.words
        if "--beside" in words:
            table, paper = words[words.index("--table") + 1], words[words.index("--beside") + 1]
            assert table in TABLES
            assert table in PAPERS[paper]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("page", "number", "block"), BLOCKS, ids=[f"{p}-{n}" for p, n, _ in BLOCKS]
)
def test_a_python_block_runs(page: str, number: int, block: str) -> None:
    """What starts Ray, ranks or needs MLflow runs up to there; the slow layer does it all."""
    compile(block, page, "exec")
    scope: dict[str, Any] = {"__name__": f"{page}_{number}"}
    if "run_study(config)" in block:
        exec(block.split("for row in")[0].replace(", run_study", ""), scope)
        assert scope["config"].name == "mine"
    elif any(call in block for call in LATER):
        exec("\n".join(line for line in block.splitlines() if " import " in line), scope)
    else:
        exec(block, scope)
        for own in (scope.get("LOSS"), scope.get("CENTRES")):
            if own:
                assert own.build(3, 4, **own.card.defaults)
