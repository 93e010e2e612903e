"""The site's generated pages have everything that the code has, and every loss has its formula."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from search_spaces import LOSSES
from study import errors
from study.__main__ import app
from study.cli.listing import KINDS
from study.config.study_config import StudyConfig
from study.presets import PRESETS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
sys.path.append(str(DOCS / "site"))  # as MkDocs does while it imports the hook
formulas, plots, pages = (import_module(name) for name in ("formulas", "loss_plots", "loss_pages"))
catalogues, commands, keys = (import_module(name) for name in ("catalogues", "commands", "keys"))
CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text())


def leaves(part: Any) -> list[str]:
    """Return the pages of a navigation."""
    if isinstance(part, str):
        return [part]
    return [page for each in (part.values() if isinstance(part, dict) else part)
            for page in leaves(each)]  # fmt: skip


def test_every_page_is_in_the_navigation() -> None:
    written = {path.name for path in DOCS.glob("*.md")}
    listed = {page for page in leaves(CONFIG["nav"]) if "/" not in page}
    assert written | {"changelog.md"} == listed


def test_the_site_needs_nothing_from_the_network() -> None:
    assert CONFIG["theme"]["font"] is False
    assert CONFIG["plugins"] == ["search"]  # `offline` would load a script from elsewhere
    assert not {"extra_javascript", "repo_url"} & set(CONFIG)
    assert "//" not in (DOCS / "site.css").read_text()


def test_every_verb_and_option_is_on_the_page_of_commands() -> None:
    page = commands.commands_page()
    for name, command in commands.commands():
        section = page.split(f"## {name} {{#")[1].split("\n## ")[0]
        for param in command.params:
            if param.param_type_name == "option" and not param.hidden:
                assert param.opts[0] in section, (name, param.opts)
    verbs = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert all(f"\n## {verb}" in page for verb in verbs)


def test_every_key_is_on_the_page_of_keys_once_with_what_it_means() -> None:
    page = keys.keys_page()
    for name, field in StudyConfig.model_fields.items():
        assert page.count(f'id="{name}"') == 1
        assert field.description
    assert sum(map(len, keys.key_groups().values())) == len(StudyConfig.model_fields)


@pytest.mark.parametrize(
    ("kind", "write"),
    [
        ("tables", "tables_page"),
        ("figures", "figures_page"),
        ("datasets", "catalogues_page"),
        ("backbones", "catalogues_page"),
        ("protocols", "catalogues_page"),
        ("metrics", "catalogues_page"),
        ("strategies", "catalogues_page"),
    ],
)
def test_everything_that_can_be_listed_is_on_a_page(kind: str, write: str) -> None:
    page = getattr(catalogues, write)()
    assert all(f"| `{name}` |" in page for name in KINDS[kind]())


def test_every_preset_has_its_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogues, "_counts", lambda name: (1, 2, 3))  # plans take seconds
    page = catalogues.presets_page()
    assert all(f"\n## {name}\n" in page for name in PRESETS)


def test_the_counts_of_a_preset_are_those_of_its_plan() -> None:
    assert catalogues._counts("quickstart") == (20, 240, 60)
    assert catalogues._counts("vectors") == (10, 120, 30)


def test_every_exit_code_has_its_meaning() -> None:
    codes = {name for name, value in vars(errors).items() if isinstance(value, int)}
    assert codes == set(catalogues.EXIT_CODES)
    assert {0, 1, 2, 3, 4, 130} <= set(catalogues.exit_codes())


def test_every_loss_has_a_formula() -> None:
    assert set(formulas.FORMULAS) == set(LOSSES)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_a_formula_has_every_parameter_of_its_card_and_is_mathml(name: str) -> None:
    formula = formulas.FORMULAS[name]
    assert set(formula.symbols) == set(plots.drawn_params(name))
    assert all(symbol in " ".join(formula.lines) for symbol in formula.symbols.values())
    html = pages.formula_html(formula)
    assert html.count("<math") == len(formula.lines)
    assert not re.search(r"\\[a-zA-Z]", html)  # LaTeX that the converter does not know


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_a_card_has_all_its_sources_in_the_table(name: str) -> None:
    table = pages.sources_table(name, LOSSES[name])
    assert all(f"| `{key}` |" in table for key in LOSSES[name].params)
    assert all(str(param.search) in table for param in LOSSES[name].params.values())


@pytest.mark.parametrize("name", ["contrastive", "cosface", "proxy_nca"])
def test_a_plot_shows_every_parameter(name: str) -> None:
    svg = plots.loss_plot(name)
    panels = max(1, len(plots.drawn_params(name)))
    assert svg.count("similarity to") == 2 * panels
    assert all(f">{key}</text>" in svg for key in plots.drawn_params(name))
    assert "nan" not in svg
    assert "inf" not in svg


def test_a_plot_is_the_loss_itself() -> None:
    """Contrastive by hand: 1 - s for the pair, and [s - margin]+ for strangers."""
    ours = plots.evaluator("contrastive", {"margin": 0.2})
    assert ours(0.5, 0.0) == pytest.approx(0.5)
    assert ours(0.5, 0.6) == pytest.approx(0.5 + (0.4 + (0.3 - 0.2)) / 2)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    built = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    for name in LOSSES:
        assert "<math" in (tmp_path / "reference" / "losses" / f"{name}.html").read_text()
    text = "".join(path.read_text() for path in tmp_path.rglob("*.html"))
    assert not re.findall(
        r'<(?:script|img|link rel="(?:stylesheet|preconnect)")[^>]*"https?:', text
    )
