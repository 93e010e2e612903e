"""The page in a real browser: nothing fails to load, tables sort, figures enlarge, no label lies on another."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from made import everything, rows_of

from analysis.figures import critical_difference
from analysis.report import write_report
from analysis.tables import rankings
from analysis.tracking import StudyRows

BROWSER = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)
# Runs in the page after its own script, and leaves what it saw where --dump-dom shows it.
PROBE = """
<script>
const found = {errors: window.probeErrors, sorted: [], overlaps: [], labels: 0};
const table = document.querySelector("table.ranking"), heads = [...table.tHead.rows[1].cells];
const column = () => [...table.tBodies[0].rows].map((row) => row.cells[1].textContent.trim());
found.sorted.push(column());
heads[1].click(); found.sorted.push(column());
heads[1].click(); found.sorted.push(column());
const figure = document.querySelector("figure");
figure.querySelector("button.zoom").click();
found.large = figure.classList.contains("large") && figure.getBoundingClientRect().width === innerWidth;
document.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape"}));
found.small = !figure.classList.contains("large");
document.querySelectorAll("figure svg").forEach((svg) => {
  const texts = [...svg.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
  const boxes = texts.filter(([, box]) => box.width);
  found.labels += boxes.length;
  boxes.forEach(([one, a], i) => boxes.slice(i + 1).forEach(([other, b]) => {
    const x = Math.min(a.right, b.right) - Math.max(a.left, b.left), y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (x > 2 && y > 4) found.overlaps.push([svg.getAttribute("aria-label"), one, other]);
  }));
});
found.wide = document.documentElement.scrollWidth - innerWidth;
document.querySelector("button.theme").click();
found.theme = document.documentElement.dataset.theme + getComputedStyle(document.body).color;
document.body.append(Object.assign(document.createElement("pre"), {id: "probe", textContent: JSON.stringify(found)}));
</script>
"""
EARLY = (
    "<script>window.probeErrors = []; addEventListener('error', (e) => probeErrors.push(String(e.message || e.target.outerHTML)), true);"
)
EARLY += "addEventListener('securitypolicyviolation', (e) => probeErrors.push(e.violatedDirective + ' ' + e.blockedURI));</script>"

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium here")


def browse(page: Path, *options: str) -> str:
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=5000", *options]
    return subprocess.run([*command, page.as_uri()], capture_output=True, text=True, check=True, timeout=200).stdout


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    rows = rows_of(everything())
    ranks = critical_difference({"triplet": 1.4, "contrastive": 1.6}, 0.9)
    assert ranks
    tables = [("Losses by year", pd.DataFrame({"loss": ["a", "b"], "year": [2020, 2006]}).to_html(index=False))]
    return write_report(
        rows,
        rankings(rows),
        folder=folder,
        config_yaml="name: made\n",
        tables=tables,
        fairness=["crop: 224 and 227"],
        drawings=[(ranks, "Ranks of a made study.")],
    )


def test_in_a_browser_nothing_fails_and_tables_sort_and_figures_enlarge(page):
    text = page.read_text(encoding="utf-8")
    policy = re.search(r"script-src '[^']*'", text)
    assert policy
    probed = page.with_name("probed.html")
    text = text.replace(policy[0], "script-src 'unsafe-inline'").replace("<title>", f"{EARLY}<title>").replace("</body>", f"{PROBE}</body>")
    probed.write_text(text, encoding="utf-8")
    seen = re.search(r'<pre id="probe">(.*?)</pre>', browse(probed, "--dump-dom", "--window-size=1200,900"), flags=re.DOTALL)
    assert seen
    found = json.loads(seen[1].replace("&quot;", '"').replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))
    assert found["errors"] == []
    before, up, down = found["sorted"]
    assert sorted(before) == up == down[::-1]
    assert up != down
    assert found["large"]
    assert found["small"]
    assert found["labels"] > 100
    assert found["overlaps"] == []
    assert found["wide"] <= 0
    assert found["theme"].startswith("dark")


def test_under_its_own_policy_the_script_runs_and_a_picture_is_kept(page):
    assert '<button class="theme">' in browse(page, "--dump-dom")
    shot = page.with_name("report.png")
    browse(page, f"--screenshot={shot}", "--window-size=1200,5000")
    from PIL import Image

    with Image.open(shot) as image:
        assert image.size == (1200, 5000)
        assert len(image.convert("L").resize((120, 500)).getcolors(256) or []) > 20  # not one blank sheet


def test_what_stands_beside_is_on_the_page(page):
    text = page.read_text(encoding="utf-8")
    assert "<h3>Losses by year</h3>" in text
    assert "crop: 224 and 227" in text
    assert "Ranks of a made study." in text
    names = {path.name for path in (page.parent / "figures").iterdir()}
    assert {name.rpartition(".")[2] for name in names} == {"svg", "png"}
    assert len({name.rpartition(".")[0] for name in names}) == len(names) / 2 >= text.count("<figure>") - 1


def large(losses: int = 10, trials: int = 500, epochs: int = 100) -> StudyRows:
    """Search trials in the thousands, each with its curve."""
    small = rows_of([one for one in everything() if one.protocol != "default"])
    first = small.trials[small.trials["role"] == "search"].iloc[0]
    lines, parts = [], [small.curves]
    for loss in range(losses):
        for number in range(trials):
            run = f"{loss}-{number}"
            values = {
                "run_id": run,
                "loss": f"loss_{loss}",
                "trial": f"search-{number}",
                "select/best": 0.2 + 0.3 * ((number * 37) % 101) / 101,
            }
            lines.append({**first, **values, "setting": {"margin": number / trials, "alpha": float(number % 7)}})
            value = [0.1 + 0.3 * epoch / epochs + 0.01 * ((number + epoch) % 13) for epoch in range(1, epochs + 1)]
            parts.append(pd.DataFrame({"run_id": run, "metric": "select/recall_at_1", "epoch": range(1, epochs + 1), "value": value}))
    return StudyRows("large", pd.concat([small.trials, pd.DataFrame(lines)], ignore_index=True), pd.concat(parts), small.queries)


def test_the_page_of_five_thousand_trials_stays_below_ten_megabytes(tmp_path):
    rows = large()
    target = write_report(rows, rankings(rows), folder=tmp_path, config_yaml="name: large\n")
    assert target.stat().st_size < 10e6
