"""The order of imports, the doors, the headers and the sizes of the house."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ["search_spaces", "trainables", "analysis", "study"]
FILES = sorted(path.relative_to(ROOT) for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))
DOORS = {
    "pytorch_metric_learning": ["trainables/losses/"],
    "mlflow": ["analysis/tracking/"],
    "sqlalchemy": ["analysis/tracking/raw.py"],
    "scikit_posthocs": ["analysis/statistics/significance.py"],
    "optuna": ["analysis/statistics/search.py"],
    "hyperopt": [],  # only through Ray's HyperOptSearch
    "ray": [
        *(f"trainables/{name}.py" for name in ("slot", "group")),
        *(
            f"study/{name}.py"
            for name in ("commands/doctor", "run", "room", "head", "nodes", "recorder", "search", "stopping", "strategies")
        ),
    ],
    "matplotlib": ["analysis/figures/", "analysis/sheet.py"],
    "openTSNE": ["analysis/maps/"],
    "umap": ["analysis/maps/plane.py"],
    "jinja2": ["analysis/report.py"],
    "pydantic": ["study/config.py", "study/keys.py"],
}


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or ""


@pytest.mark.parametrize("path", FILES, ids=str)
def test_imports_point_only_to_the_left(path: Path) -> None:
    above = LAYERS[LAYERS.index(path.parts[0]) + 1 :]
    assert not [name for name in imports(path) if name.split(".")[0] in above]


@pytest.mark.parametrize("path", [path for path in FILES if path.parts[0] == "search_spaces"], ids=str)
def test_search_spaces_needs_only_the_standard_library(path: Path) -> None:
    roots = {name.split(".")[0] for name in imports(path)}
    assert roots <= {*sys.stdlib_module_names, "search_spaces"}


@pytest.mark.parametrize("package", sorted(DOORS))
def test_every_heavy_dependency_has_its_door(package: str) -> None:
    users = [path.as_posix() for path in FILES if package in {name.split(".")[0] for name in imports(path)}]
    assert not [user for user in users if not user.startswith(tuple(DOORS[package]) or ("nowhere",))]


@pytest.mark.parametrize(("word", "place"), [("Tuner(", "study/run.py"), ("TorchTrainer(", "trainables/group.py")])
def test_only_one_place_says_tuner_and_torch_trainer(word: str, place: str) -> None:
    assert [path.as_posix() for path in FILES if word in (ROOT / path).read_text()] == [place]


@pytest.mark.parametrize("path", FILES, ids=str)
def test_every_file_opens_with_one_sentence_and_stays_short(path: Path) -> None:
    source = (ROOT / path).read_text()
    tree = ast.parse(source)
    header = ast.get_docstring(tree) or ""
    assert header.split("\n")[0].endswith((".", "?"))
    assert source.count("\n") <= 300
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    assert not [node.name for node in functions if (node.end_lineno or 0) - node.lineno > 60]


def test_checkpoints_are_only_loaded_as_plain_tensors() -> None:
    for path in FILES:
        for node in ast.walk(ast.parse((ROOT / path).read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("torch.load", "load_state_dict_from_url"):
                assert any(word.arg == "weights_only" and ast.unparse(word.value) == "True" for word in node.keywords), path


def test_there_is_no_drawer_for_everything() -> None:
    assert not [path for path in FILES if path.stem in ("utils", "common", "helpers", "misc")]


def test_every_dependency_names_the_file_that_needs_it() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    listed = text.split("dependencies = [")[1].split("\n]")[0].strip().splitlines()
    for line in listed:
        assert "#" in line, line
        for word in line.split("#")[1].replace(",", " ").replace(";", " ").split():
            if word.endswith((".py", "/")) and "/" in word:
                assert (ROOT / word).exists(), word
