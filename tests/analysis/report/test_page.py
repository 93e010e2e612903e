"""The page as `fairtrial report` writes it, with everything on it and in MLflow."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from analysis import read_study
from analysis.figures.catalogue import FIGURES
from analysis.record.frames import StudyRows
from analysis.record.kept_files import KEPT
from analysis.record.ledger import LedgerReader
from analysis.record.specs import OWN
from analysis.record.state import StudyState
from analysis.record.trial_id import TrialId
from analysis.report.page import keep_page, write_page
from analysis.report.report import MAPS
from analysis.tables.catalogue import TABLES, Study, make_table
from analysis.tracking import Tracker, TrackingError, keep_files, open_store
from study.config.study_config import make
from study.presets import SMOKE
from tests.support.chromium import CHROMIUM, browse, in_a_browser, look
from tests.support.studies import from_scratch
from tests.support.synthetic_embeddings import spec_of, write_embeddings
from tests.support.synthetic_study import (
    HONEST,
    RATIO,
    everything,
    final,
    rows_of,
    write_mlflow,
    write_study,
)
from trainables.contract import EMBEDDINGS, TrialSpec

# Boxes of labels that overlap, of all figures that a browser shows on paper.
OVERLAPS = """
const seen = { overlaps: [], labels: 0 };
document.querySelectorAll("figure svg").forEach((svg) => {
  const texts = [...svg.querySelectorAll("text")].map(
    (text) => [text.textContent, text.getBoundingClientRect()]);
  const boxes = texts.filter(([, box]) => box.width);
  seen.labels += boxes.length;
  boxes.forEach(([one, a], i) => boxes.slice(i + 1).forEach(([other, b]) => {
    const x = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (x > 2 && y > 4) seen.overlaps.push([svg.getAttribute("aria-label"), one, other]);
  }));
});
return seen;"""

pytestmark = pytest.mark.timeout(900)  # a whole page with its maps


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TrialSpec]:
    """Embeddings as a final trial leaves them, and the trial's spec."""
    folder = tmp_path_factory.mktemp("kept")
    spec = spec_of(make(from_scratch() | SMOKE | {"studies": str(folder)}))
    return write_embeddings(folder, spec, per_class=2), spec


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, kept: tuple[Path, TrialSpec]) -> Path:
    """The synthetic study, with the embeddings of a final trial of each loss."""
    embeddings, spec = kept
    parts = {key: value for key, value in spec.as_dict().items() if key not in OWN}
    made = [
        replace(one, trial_yaml=parts)
        if (one.role, one.protocol, one.number) == ("final", RATIO, 1)
        else one
        for one in everything()
    ]
    home = write_study(tmp_path_factory.mktemp("studies"), made)
    finals = read_study(home).finals
    own = finals[
        (finals["rule"] == HONEST) & (finals["role"] == "final") & (finals["protocol"] == RATIO)
    ]
    for run in own.drop_duplicates("loss")["run_id"]:
        shutil.copy(embeddings, home / KEPT / TrialId.parse(run).folder / EMBEDDINGS)
    return home


@pytest.fixture(scope="module")
def uri(home: Path) -> str:
    return write_mlflow(home)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, home: Path, uri: str) -> Path:
    rows, folder = read_study(home), tmp_path_factory.mktemp("page")
    written = write_page(rows, folder=folder, config_yaml="name: made\n")
    assert not keep_page(uri, rows.name, written, folder)
    return written.files[0]


def artifacts(uri: str, study: str) -> set[str]:
    """Of the study's own run."""
    client = open_store(uri)
    experiment = client.get_experiment_by_name(study)
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id], "tags.kind = 'study'")
    assert run.info.status == "FINISHED"
    top = client.list_artifacts(run.info.run_id)
    inner = [
        file
        for folder in top
        if folder.is_dir
        for file in client.list_artifacts(run.info.run_id, folder.path)
    ]
    return {file.path for file in [*top, *inner] if not file.is_dir}


def test_every_table_with_rows_is_on_the_page_and_beside_it(page, home):
    text, study = page.read_text(encoding="utf-8"), Study(read_study(home))
    own = {"default_vs_validation": "validation minus default*"}  # columns of the ranking
    for name in TABLES:
        if make_table(name, study).rows:
            named = f"<dt><code>{name}</code></dt>"  # says nothing here; the page says why
            assert named in text or own.get(name, f'<table class="{name}"') in text
            assert any(
                (page.parent / folder / f"{name}.csv").exists() for folder in (".", "tables")
            )
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_the_page_has_maps_and_every_figure_as_vectors_and_pixels(page):
    text = page.read_text(encoding="utf-8")
    assert "What triplet puts near and far" in text
    assert "adds them" not in text
    names = {path.name for path in (page.parent / "figures").iterdir()}
    assert {name.rpartition(".")[2] for name in names} == {"svg", "png"}
    assert (
        len({name.rpartition(".")[0] for name in names}) == len(names) / 2 == text.count("<figure>")
    )
    assert {name.partition("-")[0] for name in names} >= {
        "similarity",
        "joint",
        "yoked",
        "gallery",
        "recall",
        "improvement",
    }
    assert len(MAPS) <= len(FIGURES)


def test_mlflow_keeps_the_page_and_every_table_and_figure_of_it(page, uri):
    written = {
        path.relative_to(page.parent).as_posix()
        for path in page.parent.rglob("*")
        if path.is_file()
    }
    assert artifacts(uri, "made") == {name for name in written if not name.startswith("maps/")}


def test_files_are_kept_once_in_one_run_and_the_newest_stand(tmp_path):
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    Tracker(uri, "kept", artifacts=tmp_path / "artifacts")
    (tmp_path / "tables").mkdir()
    files = [tmp_path / "report.html", tmp_path / "tables" / "search.csv"]
    for text in ("old", "new"):
        for file in files:
            file.write_text(text)
        keep_files(uri, "kept", files, below=tmp_path)
    assert artifacts(uri, "kept") == {"report.html", "tables/search.csv"}
    assert [path.read_text() for path in (tmp_path / "artifacts").rglob("search.csv")] == ["new"]
    with pytest.raises(TrackingError, match="cannot keep the page"):
        keep_files(uri, "no such study", files, below=tmp_path)


@in_a_browser
def test_in_a_browser_no_label_of_a_figure_lies_on_another(page):
    text = page.read_text(encoding="utf-8").replace("@media print", "@media all")
    paper = page.with_name("paper.html")
    paper.write_text(text, encoding="utf-8")
    found = look(paper, OVERLAPS, "--window-size=1200,900")
    paper.unlink()
    assert found["labels"] > 200
    assert found["overlaps"] == []


@in_a_browser
def test_in_a_browser_a_picture_of_the_page_is_no_blank_sheet(page):
    shot = page.with_name("shot.png")
    browse(page, f"--screenshot={shot}", "--window-size=1200,900")
    with Image.open(shot) as image:
        assert image.size == (1200, 900)
        assert len(image.convert("L").resize((120, 90)).getcolors(256) or []) > 20
    shot.unlink()


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
            lines.append(
                {
                    **first,
                    **values,
                    "setting": {"margin": number / trials, "alpha": float(number % 7)},
                }
            )
            value = [
                0.1 + 0.3 * epoch / epochs + 0.01 * ((number + epoch) % 13)
                for epoch in range(1, epochs + 1)
            ]
            parts.append(
                pd.DataFrame(
                    {
                        "run_id": run,
                        "metric": "select/recall_at_1",
                        "epoch": range(1, epochs + 1),
                        "value": value,
                    }
                )
            )
    return StudyRows(
        "large",
        pd.concat([small.trials, pd.DataFrame(lines)], ignore_index=True),
        pd.concat(parts),
        small.queries,
    )


@pytest.mark.slow
def test_the_page_of_five_thousand_trials_is_small_and_opens_quickly(tmp_path, kept):
    embeddings, spec = kept
    rows = replace(
        large(),
        fetch=lambda run, name: embeddings if name == EMBEDDINGS else None,
        spec=lambda run: spec.as_dict(),
    )
    page = write_page(rows, folder=tmp_path, config_yaml="name: large\n", maps=False).files[0]
    assert page.stat().st_size < 3e6
    assert (
        "<code>fairtrial export large --parquet FOLDER</code> writes the other" in page.read_text()
    )
    script = """
    const began = performance.now(), seen = { trials: study.trials.length };
    tabs[2].click();
    document.querySelector(".filters [name=loss]").value = "";
    chosen.loss = "";
    update();
    openTrial(study.trials.find((trial) => study.curves[trial.index]));
    seen.ms = performance.now() - began;
    seen.rows = document.querySelectorAll("table.trials tbody tr").length;
    return seen;"""
    if CHROMIUM:
        found = look(page, script)
        assert found["trials"] > 5000
        assert found["rows"] == 100
        assert found["ms"] < 5000
    with_maps = write_page(rows, folder=tmp_path, config_yaml="name: large\n").files[0]
    assert "puts near and far" in with_maps.read_text(encoding="utf-8")
    assert with_maps.stat().st_size < 10e6


def test_the_page_counts_the_readings_of_the_record_and_not_of_its_file(tmp_path):
    home = write_study(tmp_path, [final("triplet", "default", "final", 1)])
    (home / "readings.csv").write_text("cell,trial,seed,epoch,rule\nc,final-1,1,2,refit\n")
    page = write_page(read_study(home), folder=home, config_yaml="name: made\n").files[0]
    state = StudyState(LedgerReader(home).read())
    rules = [line.rule for line in state.test_readings()]
    assert set(rules) == {"best-on-test"}
    assert f"the test classes were read {len(rules)} best-on-test* times" in page.read_text()
