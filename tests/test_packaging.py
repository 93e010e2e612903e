"""A fresh machine next year gets the same versions."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import yaml
from setuptools import find_packages

from analysis.report.render import LIBRARY, SCRIPTS, STYLES
from trainables.networks.backbones import BACKBONES

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCK = (ROOT / "requirements.lock").read_text()
PINS = dict(re.findall(r"^([a-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)", LOCK, flags=re.MULTILINE))


def test_every_dependency_is_pinned_with_hashes_to_the_version_that_runs_here() -> None:
    for line in PROJECT["project"]["dependencies"]:
        name = re.split(r"[\[<>=]", line)[0]
        assert PINS[name] == version(name), name
    assert LOCK.count("--hash=sha256:") > len(PINS)


def test_the_lock_records_no_download_address() -> None:
    assert "://" not in LOCK
    assert "uv.lock" in (ROOT / ".gitignore").read_text().splitlines()


def test_versions_cannot_drift() -> None:
    assert PROJECT["tool"]["uv"]["exclude-newer"]


def test_the_licence_and_the_citation_say_what_the_project_says() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (ROOT / "LICENSE").read_text().startswith("MIT License")
    assert PROJECT["project"]["license"] == citation["license"] == "MIT"
    assert citation["version"] == PROJECT["project"]["version"]


def test_every_package_is_shipped() -> None:
    packages = {
        path.parent.relative_to(ROOT).as_posix().replace("/", ".")
        for path in ROOT.glob("[a-z]*/**/__init__.py")
        if ".venv" not in path.parts
    }
    shipped = find_packages(str(ROOT), **PROJECT["tool"]["setuptools"]["packages"]["find"])
    assert {name for name in packages if name.split(".")[0] != "tests"} == set(shipped)


def test_every_file_of_data_is_shipped_with_what_was_installed() -> None:
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["trainables"]
    shipped = {path for pattern in patterns for path in (ROOT / "trainables").glob(pattern)}
    files = {path for path in (ROOT / "trainables" / "data").rglob("*") if path.is_file()}
    assert {BACKBONES["small"].weights.name, "small_classes.txt", "sketches.npz"} < {
        path.name for path in files
    }
    assert files <= shipped


def test_whatever_a_page_has_inside_is_shipped_with_the_licence_of_its_library() -> None:
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["analysis"]
    shipped = {path for pattern in patterns for path in (ROOT / "analysis").glob(pattern)}
    report = ROOT / "analysis" / "report"
    files = {path for path in (report / "assets").rglob("*") if path.is_file()}
    assert files | {*(report / "templates").iterdir()} <= shipped
    used = {report / "assets" / name for name in (LIBRARY, *SCRIPTS, *STYLES)}
    about = {report / "assets" / "uplot" / name for name in ("LICENSE", "README.md")}
    assert used | about == files


def test_the_library_of_the_page_is_the_one_that_its_note_names() -> None:
    folder = ROOT / "analysis" / "report" / "assets" / "uplot"
    note = (folder / "README.md").read_text()
    (version,) = re.findall(r"^# uPlot (\S+)$", note, flags=re.MULTILINE)
    assert f"uPlot (v{version})" in (folder / "uPlot.iife.min.js").read_text()[:100]
