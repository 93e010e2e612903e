"""The order of imports, the doors, the headers and the sizes of the house."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import get_args

import pytest

from analysis.record.events import AnyEvent
from search_spaces.own import FAIRTRIAL_PACKAGES

ROOT = Path(__file__).parent.parent
LAYERS = list(FAIRTRIAL_PACKAGES)
FILES = sorted(path.relative_to(ROOT) for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))
DOORS = {
    "pytorch_metric_learning": ["trainables/losses/"],
    "mlflow": ["analysis/tracking/"],
    "sqlalchemy": [],  # only through MLflow
    "sqlite3": [],  # MLflow's tables are its own
    "msgspec": ["analysis/record/events.py", "study/driver/mlflow_mirror.py"],
    "scikit_posthocs": ["analysis/statistics/significance.py"],
    "optuna": ["analysis/statistics/search.py", "analysis/bridges/optuna_studies.py"],
    "hyperopt": [],  # only through Ray's HyperOptSearch
    "ray": [
        "trainables/workers/slot.py",
        "trainables/workers/group.py",
        "trainables/workers/placement.py",
        "trainables/workers/serving.py",
        "trainables/workers/extraction.py",
        "study/cluster/",
        "study/search/",
        "study/strategies/",
        "study/driver/study_run.py",
        "study/driver/tune_callback.py",
        "study/ends/ray_watch.py",
        "study/ends/stalls.py",
        "study/cli/doctor.py",
    ],
    "matplotlib": ["analysis/figures/"],
    "openTSNE": ["analysis/maps/"],
    "umap": ["analysis/maps/plane.py"],
    "pyarrow": ["trainables/datasets/parquet.py"],
    "jinja2": ["analysis/report/render.py"],
    "pydantic": [
        "study/config/study_config.py",
        "study/config/keys/keys.py",
        "study/config/keys/question.py",
        "study/config/keys/key_types.py",
    ],
}


parsed = cache(ast.parse)  # every law reads every file


def nodes(path: Path) -> Iterator[ast.AST]:
    """Yield every node of a file's syntax."""
    return ast.walk(parsed((ROOT / path).read_text()))


def imports(path: Path) -> Iterator[str]:
    """Yield every module that a file imports, also one that is taken out of its package."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} imports by a relative name"
            assert node.module
            yield node.module
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name for name in inner if is_module(name))


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


@cache
def importers_by_package() -> dict[str, set[str]]:
    """Return by package the product files that import it."""
    found: dict[str, set[str]] = {}
    for path in FILES:
        for name in imports(path):
            found.setdefault(name.split(".")[0], set()).add(path.as_posix())
    return found


def importers(package: str) -> list[str]:
    """Return the product files that import a package."""
    return sorted(importers_by_package().get(package, ()))


def lies_in(file: str, place: str) -> bool:
    """Return whether the place is this file, or a folder around it."""
    return file.startswith(place) if place.endswith("/") else file == place


def test_an_import_of_a_module_out_of_its_package_counts(tmp_path: Path) -> None:
    file = tmp_path / "file.py"
    file.write_text("from analysis import tables, read_study\n")
    assert list(imports(file)) == ["analysis", "analysis.tables"]
    file.write_text("from . import tables\n")
    with pytest.raises(AssertionError, match="relative name"):
        list(imports(file))


@pytest.mark.parametrize("path", FILES, ids=str)
def test_imports_point_only_to_the_left(path: Path) -> None:
    above = LAYERS[LAYERS.index(path.parts[0]) + 1 :]
    assert not [name for name in imports(path) if name.split(".")[0] in above]


@pytest.mark.parametrize(
    "path", [path for path in FILES if path.parts[0] == "search_spaces"], ids=str
)
def test_search_spaces_needs_only_the_standard_library(path: Path) -> None:
    roots = {name.split(".")[0] for name in imports(path)}
    assert roots <= {*sys.stdlib_module_names, "search_spaces"}


@pytest.mark.parametrize("package", sorted(DOORS))
def test_every_heavy_dependency_has_its_door(package: str) -> None:
    users, doors = importers(package), DOORS[package]
    assert not [user for user in users if not any(lies_in(user, door) for door in doors)]
    assert not [door for door in doors if not any(lies_in(user, door) for user in users)], "unused"


@pytest.mark.parametrize(
    ("word", "place"),
    [("Tuner(", "study/driver/study_run.py"), ("TorchTrainer(", "trainables/workers/group.py")],
)
def test_only_one_place_says_tuner_and_torch_trainer(word: str, place: str) -> None:
    assert [path.as_posix() for path in FILES if word in (ROOT / path).read_text()] == [place]


# Many members of one kind side by side are no crowd: a table, figure, verb, loss or preset's script
# is one file.
ROOMY = {
    "analysis/tables",
    "analysis/figures",
    "study/cli",
    "study/scripts",
    "search_spaces/losses",
    "trainables/losses",
}
EVENTS = {event.__name__ for event in get_args(AnyEvent)}


def folder_of(module: str) -> str | None:
    """Return the folder of one of our modules; None for others and for the packages' front doors.

    A module that lies directly in a package stands for itself.
    """
    path = Path(*module.split("."))
    if path.parts[0] not in LAYERS:
        return None
    if (ROOT / path).is_dir():  # a folder's __init__
        return path.as_posix() if len(path.parts) > 1 else None
    return path.as_posix() if len(path.parts) == 2 else path.parent.as_posix()


def test_no_two_folders_import_each_other_directly_or_in_a_circle() -> None:
    needs: dict[str, set[str]] = {}
    for path in FILES:
        if len(path.parts) == 2 and path.stem in ("__init__", "__main__"):  # a front door
            continue
        mine = folder_of(".".join(path.with_suffix("").parts))
        assert mine
        theirs = {folder for name in imports(path) if (folder := folder_of(name))}
        needs.setdefault(mine, set()).update(theirs - {mine})
    order = TopologicalSorter(needs)
    order.prepare()  # CycleError names the folders


def test_no_folder_is_crowded() -> None:
    modules = [path for path in FILES if path.stem not in ("__init__", "__main__")]
    counts = Counter(path.parent.as_posix() for path in modules)
    assert not {name: n for name, n in counts.items() if n > 12 and name not in ROOMY}


def test_events_are_interpreted_in_one_module_only() -> None:
    """Others make events or read their fields; only the state asks which kind one is."""
    asked = []
    for path in FILES:
        for node in nodes(path):
            if isinstance(node, ast.MatchClass):
                names = {ast.unparse(node.cls)}
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                names = {ast.unparse(part) for part in ast.walk(node.args[1])}
            elif isinstance(node, ast.Compare) and '["event"]' in ast.unparse(node):
                names = EVENTS
            else:
                continue
            if {name.rpartition(".")[2] for name in names} & EVENTS:
                asked.append(path.as_posix())
    # The others: a decoder that checks the version, readers of one event of a known kind.
    assert set(asked) == {
        "analysis/record/state.py",
        "analysis/record/events.py",
        "analysis/tracking/read.py",
        "study/driver/folder.py",
    }


def test_only_the_record_spells_a_trials_identity() -> None:
    """No other file builds or takes apart names like search-3, final-1 or CELL/final-1."""
    found = [path for path in FILES if spells_a_trial((ROOT / path).read_text())]
    assert [path.as_posix() for path in found] == ["analysis/record/trial_id.py"]


def spells_a_trial(source: str) -> bool:
    """Return whether a file has a part of a trial's name, or joins a cell or a role to the rest."""
    parts = re.compile(r"[\"'{/](search|final|refit|published|published_refit)-|[\"']-round")
    texts = [node for node in ast.walk(parsed(source)) if isinstance(node, ast.JoinedStr)]
    return bool(parts.search(source)) or any(map(joins_a_trial, texts))


def joins_a_trial(text: ast.JoinedStr) -> bool:
    """Return whether an f-string has {... cell}/{...} or {... role}-{...}."""
    last_word = [re.findall(r"\w+", ast.unparse(part)) for part in text.values]
    return any(
        words and between.value == mark and words[-1] == word
        for words, between in zip(last_word, text.values[1:-1], strict=False)
        if isinstance(between, ast.Constant)
        for word, mark in (("cell", "/"), ("role", "-"))
    )


@pytest.mark.parametrize(
    "source",
    [
        """x = f"{tags['cell']}/{tags['trial']}" """,
        """x = f"{trial.cell}/{name}" """,
        """x = f"{str(cell)}/{name}" """,
        """x = f"{role}-{number}" """,
        """x = "final-1" """,
    ],
)
def test_a_name_of_a_trial_is_found_however_it_is_spelt(source: str) -> None:
    assert spells_a_trial(source)
    assert not spells_a_trial(source.replace("/", " ").replace("-", " "))


@pytest.mark.parametrize("path", FILES, ids=str)
def test_every_file_opens_with_one_sentence_and_stays_short(path: Path) -> None:
    source = (ROOT / path).read_text()
    tree = parsed(source)
    header = " ".join((ast.get_docstring(tree) or "").split("\n\n")[0].split())
    assert header.endswith((".", "?"))
    assert not re.search(r"[.?!] +[A-Z`]", header), "one sentence"
    assert source.count("\n") <= 300
    functions = [
        node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    assert not [node.name for node in functions if (node.end_lineno or 0) - node.lineno > 60]


def test_checkpoints_are_only_loaded_as_plain_tensors() -> None:
    for path in FILES:
        for node in nodes(path):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                "torch.load",
                "load_state_dict_from_url",
            ):
                assert any(
                    word.arg == "weights_only" and ast.unparse(word.value) == "True"
                    for word in node.keywords
                ), path


def test_there_is_no_drawer_for_everything() -> None:
    assert not [path for path in FILES if path.stem in ("utils", "common", "helpers", "misc")]


# A public function's or class's docstring begins with a verb, so with none of these.
NO_VERBS = {"A", "All", "An", "Each", "Every", "How", "If", "It", "One", "The", "This", "What"}
NO_VERBS |= {"When", "Where", "Whether", "Which", "Who", "Why"}


@pytest.mark.parametrize("path", FILES, ids=str)
def test_public_docstrings_are_sentences(path: Path) -> None:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    for node in nodes(path):
        if not isinstance(node, kinds) or node.name.startswith("_"):
            continue
        text = ast.get_docstring(node, clean=False)
        if text is not None:
            assert text[:1].isupper(), node.name
            assert text.split()[0] not in NO_VERBS, node.name
            assert text.rstrip().endswith((".", "?")), node.name


def test_the_tests_mirror_the_folders_of_the_packages() -> None:
    folders = {
        folder.relative_to(ROOT / "tests")
        for layer in LAYERS
        for folder in (ROOT / "tests" / layer).rglob("*/")
        if any(folder.glob("test_*.py"))
    }
    assert folders
    assert not [folder.as_posix() for folder in folders if not (ROOT / folder).is_dir()]


# Distributions whose modules have another name.
MODULES = {
    "opentsne": "openTSNE",
    "pillow": "PIL",
    "pyyaml": "yaml",
    "scikit-learn": "sklearn",
    "umap-learn": "umap",
}
BROUGHT = {"huggingface_hub", "tensorboardX"}  # by timm and by Ray Tune, which need them


def dependencies() -> dict[str, str]:
    """Return each dependency of the product with its comment in pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text()
    listed = text.split("dependencies = [")[1].split("\n]")[0]
    extra = text.split("[project.optional-dependencies]")[1].split("\n[")[0]
    found = re.findall(r'^[^#\n]*?"([\w-]+)[^"]*",?\]?(.*)$', listed + extra, flags=re.MULTILINE)
    assert len(found) == (listed + extra).count('"') / 2
    return {name: comment.partition("#")[2] for name, comment in found}


@pytest.mark.parametrize("name", dependencies())
def test_every_dependency_names_the_files_that_need_it_and_no_others(name: str) -> None:
    comment = dependencies()[name]
    places = re.findall(r"[\w/]+(?:\.py|/)(?!\w)", comment)
    users = importers(MODULES.get(name, name.replace("-", "_")))
    assert places
    assert all((ROOT / place).exists() for place in places)
    if "through" in comment:  # another library imports it
        assert not users
        return
    assert not [place for place in places if not any(lies_in(user, place) for user in users)]
    assert not [user for user in users if not any(lies_in(user, place) for place in places)]


def test_every_import_is_a_dependency() -> None:
    known = {MODULES.get(name, name.replace("-", "_")) for name in dependencies()}
    known |= {*sys.stdlib_module_names, *LAYERS, *BROUGHT}
    assert not {name.split(".")[0] for path in FILES for name in imports(path)} - known
