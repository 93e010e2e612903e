"""In Chromium a reader clicks through the page: tabs, trials, charts, light and dark, on paper."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.figures.from_study import FigureData
from analysis.figures.style import Picture
from analysis.record.frames import StudyRows
from analysis.report.report import draw_in_turn, write_report
from analysis.tables.catalogue import Study
from tests.support.chromium import browse, in_a_browser, look
from tests.support.synthetic_study import RATIO, SyntheticTrial, final, rows_of

pytestmark = [in_a_browser, pytest.mark.timeout(300)]

TRIED = 8
EVIL = "</script><img src=x onerror=alert(1)>"
SHOWN = """
const shown = () => panels.filter((panel) => panel.offsetHeight).map((panel) => panel.id);
const key = (at, name) =>
  at.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
"""
# Move the pointer to a dot of a chart, and count the pixels of a colour that a chart has.
POINTER = """
const chartIn = (place) =>
  charts.find(({ host, plot }) => plot && plot.over && host.closest(place));
const at = (plot, series, place) => {
  const box = plot.over.getBoundingClientRect();
  return { clientX: box.left + plot.valToPos(plot.data[0][place], "x"),
    clientY: box.top + plot.valToPos(plot.data[series][place], "y"), bubbles: true };
};
const inked = (plot) => {
  const canvas = plot.root.querySelector("canvas");
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const wanted = [1, 3, 5].map((i) => parseInt(colours.validation.slice(i, i + 2), 16));
  let count = 0;
  for (let i = 0; i < pixels.length; i += 4) {
    const near = wanted.every((part, k) => Math.abs(pixels[i + k] - part) < 30);
    if (pixels[i + 3] > 200 && near) count++;
  }
  return count;
};
"""


def searched() -> StudyRows:
    """Return two losses with both setups, and a search of eight trials with two parameters."""
    losses = ("triplet", "contrastive")
    made = [
        final(loss, protocol, "final", seed, more=-int(loss == "contrastive"))
        for loss in losses
        for protocol in ("default", RATIO)
        for seed in (1, 2)
    ]
    made += [
        SyntheticTrial(loss, RATIO, "search", number) for loss in losses for number in range(TRIED)
    ]
    rows = rows_of(made)
    searching = rows.trials["role"] == "search"
    number = rows.trials["number"].where(searching, 0)
    setting = [
        {"margin": 0.1 * (each % 4), "note": EVIL if each % 2 else "plain"} for each in number
    ]
    score = (0.2 + 0.05 * number).where(searching, 0.3)
    trials = rows.trials.assign(setting=setting, **{"select/best": score})
    return replace(rows, trials=trials)


def draw_two(names: list[str], data: FigureData) -> dict[str, list[Picture]]:
    """Draw two figures only: the others take seconds, and no test here looks at them."""
    return {name: [] for name in names} | draw_in_turn(["differences", "curves"], data)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    config = f"name: made\nkeep_embeddings: first\nnote: '{EVIL}'\n"
    return write_report(
        Study(searched()),
        folder=folder,
        config_yaml=config,
        readings=Counter(),
        draw_all=draw_two,
    )[0]


@pytest.mark.slow
def test_every_tab_is_reached_by_click_by_key_and_by_address(page: Path) -> None:
    script = f"""{SHOWN}
    const seen = {{ first: shown(), clicked: [], keys: [], roles: [] }};
    tabs.forEach((tab) => {{ tab.click(); seen.clicked.push([shown(), location.hash]); }});
    for (const name of ["ArrowRight", "ArrowLeft", "Home", "End"]) {{
      key(document.activeElement, name);
      seen.keys.push([document.activeElement.id, ...shown()]);
    }}
    tabs.forEach((tab) => {{
      const panel = document.getElementById(tab.getAttribute("aria-controls"));
      const [role, selected] = ["role", "aria-selected"].map((name) => tab.getAttribute(name));
      seen.roles.push([role, selected, tab.tabIndex, panel.getAttribute("role")]);
    }});
    location.hash = "#table-hyperparameters";
    followAddress();
    seen.inner = shown();
    return seen;"""
    found = look(page, script, address="#search")
    names = ["answer", "losses", "search", "maps", "tables", "setup"]
    assert found["first"] == ["panel-search"], "the address remembers the tab"
    assert found["clicked"] == [[[f"panel-{name}"], f"#{name}"] for name in names]
    at = ["answer", "setup", "answer", "setup"]  # from the last one on
    assert found["keys"] == [[f"tab-{name}", f"panel-{name}"] for name in at]
    chosen = [["tab", "true", 0, "tabpanel"]]
    assert found["roles"] == [["tab", "false", -1, "tabpanel"]] * 5 + chosen
    assert found["inner"] == ["panel-tables"]


@pytest.mark.slow
def test_the_trial_table_sorts_filters_and_opens_a_trial(page: Path) -> None:
    script = f"""{SHOWN}{POINTER}
    const all = (name) => [...document.querySelectorAll(`table.trials ${{name}}`)];
    const rows = () => all("tbody tr");
    const head = (name) => all("th").find((th) => th.textContent === name);
    const column = (name) => rows().map((row) => row.cells[head(name).cellIndex].textContent);
    const filter = (name, value) => {{
      const field = document.querySelector(`.filters [name=${{name}}]`);
      field.value = value;
      field.dispatchEvent(new Event(name === "text" ? "input" : "change"));
    }};
    const seen = {{ first: rows().length }};
    filter("loss", "");
    seen.all = rows().length;
    filter("role", "search");
    seen.search = rows().length;
    head("Recall@1, %").click();
    seen.down = column("Recall@1, %");
    key(head("Recall@1, %"), "Enter");
    seen.up = column("Recall@1, %");
    filter("loss", "contrastive");
    seen.params = column("margin");
    filter("text", "plain");
    seen.plain = rows().length;
    filter("text", "no such trial");
    seen.none = rows().length;
    filter("text", "");
    filter("role", "final");
    const has = (row, word) => row.textContent.includes(word);
    seen.stars = rows().map((row) => has(row, "*") === has(row, "default"));
    rows()[0].querySelector("button").click();
    seen.open = document.getElementById("trial").open;
    seen.name = document.getElementById("trial-name").textContent;
    return seen;"""
    found = look(page, script, address="#search")
    assert found["first"] == TRIED + 4, "of the best loss"
    assert found["all"] == 2 * (TRIED + 4)
    assert found["search"] == 2 * TRIED
    assert found["down"] == sorted(found["down"], reverse=True)
    assert found["up"] == found["down"][::-1]
    assert sorted(set(found["params"])) == ["0", "0.1", "0.2", "0.3"]
    assert (found["plain"], found["none"]) == (TRIED // 2, 0)
    assert found["stars"] == [True] * 4, "the default setup peeks, and nothing else"
    assert found["open"]
    assert found["name"].startswith("contrastive · ")


def test_a_dot_shows_its_setting_and_a_click_opens_its_trial_with_a_drawn_curve(
    page: Path,
) -> None:
    script = f"""{POINTER}
    const {{ plot }} = chartIn("#charts"), seen = {{ hidden: tip.hidden }};
    const [xs, , , dots] = plot.data;
    const there = at(plot, 3, xs.findIndex((x, i) => x === 3 && dots[i] !== null));
    plot.over.dispatchEvent(new PointerEvent("pointermove", there));
    Object.assign(seen, {{ tip: tip.textContent, shown: !tip.hidden, charts: inked(plot) }});
    plot.over.dispatchEvent(new PointerEvent("pointerleave", there));
    seen.gone = tip.hidden;
    plot.over.dispatchEvent(new MouseEvent("click", there));
    const curve = chartIn("#trial");
    Object.assign(seen, {{ open: document.getElementById("trial").open, hash: location.hash,
      name: document.getElementById("trial-name").textContent,
      facts: document.querySelector("#trial dl").textContent,
      curve: curve ? [...curve.plot.data[1]] : null, width: curve && curve.plot.width }});
    return seen;"""
    found = look(page, script, address="#search")
    assert found["hidden"]
    assert found["shown"]
    assert found["tip"].startswith("triplet, search 3, replicate 1\nRecall@1 35.00\nmargin = 0.3")
    assert EVIL in found["tip"], "as text"
    assert found["gone"]
    assert found["open"]
    assert found["name"] == f"triplet · {RATIO} · replicate 1 · search 3"
    assert "margin0.3" in found["facts"]
    assert "fairtrial ui" in found["facts"]
    assert found["curve"] == [10, 20, 30]
    assert found["width"] > 300
    number = int(found["hash"].removeprefix("#search/"))
    opened = look(
        page,
        f"""{POINTER} return {{ name: document.getElementById("trial-name").textContent,
        ink: inked(chartIn("#trial").plot), height: chartIn("#trial").host.offsetHeight }};""",
        address=f"#search/{number}",
    )
    assert opened["name"] == found["name"], "the address opens the trial"
    assert opened["height"] > 100
    assert opened["ink"] > 100, "pixels of the curve"


@pytest.mark.slow
def test_lines_show_and_open_their_trials_too(page: Path) -> None:
    """The learning curves, and parallel coordinates."""
    script = f"""{POINTER}
    const seen = {{}}, {{ plot }} = chartIn("#panel-losses");
    plot.over.dispatchEvent(new PointerEvent("pointermove", at(plot, plot.data.length - 1, 1)));
    seen.curve = tip.textContent;
    tabs[2].click();
    const path = document.querySelector("svg.parallel path.published");
    const box = path.closest("svg").getBoundingClientRect();
    const [x, y] = path.getAttribute("d").slice(1).split("L")[0].split(" ").map(Number);
    const there = {{ clientX: box.left + x + 1, clientY: box.top + y, bubbles: true }};
    path.closest("svg").dispatchEvent(new MouseEvent("click", there));
    seen.lines = document.querySelectorAll("svg.parallel path").length;
    seen.over = document.querySelectorAll("svg.parallel path.over").length;
    seen.name = document.getElementById("trial-name").textContent;
    return seen;"""
    found = look(page, script, address="#losses")
    assert found["curve"].startswith("triplet, final ")
    assert found["lines"] == TRIED
    assert found["over"] == 1
    assert found["name"].startswith("triplet · ")


@pytest.mark.slow
@pytest.mark.parametrize("width", [500, 1280])
def test_nothing_is_wider_than_the_window_and_tables_sort_and_figures_enlarge(
    page: Path, width: int
) -> None:
    script = """
    const seen = { wide: [], sorted: [] };
    tabs.forEach((tab) => {
      tab.click();
      seen.wide.push(document.documentElement.scrollWidth - innerWidth);
    });
    openTrial(study.trials[0]);
    seen.dialog = document.getElementById("trial").getBoundingClientRect().right <= innerWidth;
    document.getElementById("trial").close();
    tabs[1].click();
    const table = document.querySelector("table.ranking"), head = table.tHead.rows[1].cells[2];
    const column = () => [...table.tBodies[0].rows].map((row) => row.cells[2].textContent.trim());
    head.click();
    seen.sorted.push(column());
    head.click();
    seen.sorted.push(column());
    const figure = [...document.querySelectorAll("figure")].find((each) => each.offsetHeight);
    figure.querySelector("button.zoom").click();
    seen.large = figure.getBoundingClientRect().width === document.documentElement.clientWidth;
    document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
    seen.small = !figure.classList.contains("large");
    return seen;"""
    found = look(page, script, f"--window-size={width},800")
    assert max(found["wide"]) <= 0
    assert found["dialog"]
    assert found["sorted"] == [["contrastive", "triplet"], ["triplet", "contrastive"]]
    assert found["large"]
    assert found["small"]


@pytest.mark.slow
def test_the_page_is_dark_where_its_reader_is_and_can_be_switched(page: Path) -> None:
    script = """
    const light = () => getComputedStyle(document.documentElement).backgroundColor;
    const seen = { at_first: [light(), colours.ink] };
    document.querySelector("button.theme").click();
    seen.then = [light(), colours.ink];
    return seen;"""
    light = look(page, script, "--blink-settings=preferredColorScheme=1")
    dark = look(page, script, "--blink-settings=preferredColorScheme=0")
    assert light["at_first"] == dark["then"] == ["rgb(253, 253, 251)", "#1d2125"]
    assert dark["at_first"] == light["then"] == ["rgb(21, 24, 27)", "#e4e6e8"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["on paper", "without a script"])
def test_everything_is_shown_on_paper_and_without_a_script(page: Path, how: str) -> None:
    text = page.read_text(encoding="utf-8")
    if how == "on paper":
        text = text.replace("@media print", "@media all")
    else:
        at = text.rindex("<script>")
        text = text[:at] + "<script></script>" + text[text.index("</script>", at) + 9 :]
    changed = page.with_name(f"{how.replace(' ', '-')}.html")
    changed.write_text(text, encoding="utf-8")
    script = """
    const all = (name) => [...document.querySelectorAll(name)];
    const high = (name) => all(name).map((each) => each.offsetHeight > 0);
    const rows = all("table.trials tbody tr").length;
    return { panels: high(".panel"), live: high(".live"), rows };"""
    found = look(changed, script)
    assert found["panels"] == [True] * 6
    assert not any(found["live"]), "nothing that only a script fills"
    assert found["rows"] == (TRIED + 4) * (1 if how == "on paper" else 2)


def test_the_page_runs_under_its_own_policy_and_no_name_ends_its_script(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert EVIL not in text, "neither of a setting nor of the config"
    dom = browse(page, "--dump-dom")
    assert 'class="theme"' in dom
    assert 'role="tablist"' in dom
    assert len(text) < 1e6
