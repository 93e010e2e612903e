"""An opened study shows every table and figure at a prompt and in a notebook, wherever it is."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from analysis import open_study, read_study
from analysis.figures.catalogue import FIGURES
from analysis.figures.from_study import FigureData
from analysis.figures.style import Picture
from analysis.opened import Answer, FigureView, OpenedStudy, TableView
from analysis.ranking.ranking import rankings
from analysis.ranking.summary import summarise
from analysis.record.frames import StudyRows
from analysis.statistics import ROPE
from analysis.tables.catalogue import TABLES
from analysis.tables.writers import FORMATS, SUFFIXES
from analysis.tracking import TrackingError
from study.config.study_config import make
from study.presets import SMOKE
from tests.analysis.tables.test_closed_set import closed, disjoint
from tests.support.studies import from_scratch
from tests.support.synthetic_embeddings import with_kept
from tests.support.synthetic_study import (
    FOLDS,
    RATIO,
    empty,
    everything,
    large_study,
    rows_of,
    write_mlflow,
    write_study,
)

MAPS = sorted(name for name, entry in FIGURES.items() if entry.of_losses)
SENTENCE = "triplet has the highest Recall@1"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study in PROJECT/studies/made."""
    return write_study(tmp_path_factory.mktemp("project") / "studies", everything())


@pytest.fixture(scope="module")
def full() -> OpenedStudy:
    return OpenedStudy(large_study())


@pytest.fixture(scope="module")
def small() -> OpenedStudy:
    return OpenedStudy(rows_of(everything()))


@pytest.fixture(scope="module")
def one_ranking() -> OpenedStudy:
    return OpenedStudy(rows_of([one for one in everything() if one.protocol != FOLDS]))


def in_notebook(view: OpenedStudy | Answer | TableView | FigureView) -> str:
    """Return what a notebook shows; its parts must be whole."""
    html = view._repr_html_()
    for tag in ("div", "table", "figure", "p", "style"):
        assert len(re.findall(rf"<{tag}[ >]", html)) == html.count(f"</{tag}>"), tag
    return html


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_readable_everywhere(name: str, full: OpenedStudy, tmp_path: Path) -> None:
    view = full.table(name)
    title = view.table.for_readers().title
    assert " ".join(repr(view).split()).startswith(title)
    html = in_notebook(view)
    assert html.count("<tr>") > len(view.frame()) > 0
    for suffix, form in SUFFIXES.items():
        assert view.save(tmp_path / f"{name}{suffix}").read_text() == view.text(form)


def test_every_format_has_a_suffix() -> None:
    assert sorted(SUFFIXES.values()) == sorted(FORMATS)


@pytest.mark.parametrize("name", sorted(FIGURES.keys() - set(MAPS)))
def test_every_figure_is_readable_everywhere(
    name: str, one_ranking: OpenedStudy, tmp_path: Path
) -> None:
    shows(one_ranking.figure(name), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", MAPS)
def test_every_map_is_readable_everywhere(name: str, tmp_path: Path) -> None:
    config = make(from_scratch() | SMOKE | {"studies": str(tmp_path)})
    opened = OpenedStudy(with_kept(rows_of(everything()), tmp_path / "kept", config))
    view = opened.figure(name)
    assert view.pictures
    shows(view, tmp_path)
    both = opened.figure(name, losses=["contrastive", "triplet"])
    assert len(both.pictures) >= len(view.pictures)


def shows(view: FigureView, folder: Path) -> None:
    """Assert that a notebook shows each picture with its caption, and a prompt the captions."""
    html, files = in_notebook(view), view.save(folder / "figures")
    pixels = re.findall(r'src="data:image/png;base64,([^"]+)"', html)
    assert len(pixels) == len(view.pictures)
    assert len(files) == 2 * len(view.pictures)
    for data in pixels:
        with Image.open(BytesIO(b64decode(data))) as image:
            assert len(image.convert("L").getcolors(256) or []) > 5
    assert html.count('alt=""') == 0
    for picture in view.pictures:
        assert picture.drawing.name in repr(view)
        assert picture.caption in repr(view)
    if not view.pictures:
        assert repr(view) == f"{view.name} has nothing to draw yet."
        assert repr(view) in html


def test_a_study_shows_its_answer_and_a_line_per_loss(home: Path) -> None:
    opened = open_study(home)
    assert in_notebook(opened.answer()).count("<p>") == len(opened.answer().sentences)
    assert opened.answer().sentences[0].endswith(summarise(opened.study.rankings[0])[0])
    for shown in (repr(opened), in_notebook(opened)):
        assert SENTENCE in " ".join(shown.replace("\xa0", " ").split())
        assert "Fairness check: equal between" in shown
        assert "contrastive" in shown
    ranking = opened.ranking().frame()
    assert len(ranking) == sum(len(found.rows) for found in opened.study.rankings)
    assert list(ranking["protocol"].unique()) == [found.protocol for found in rankings(opened.rows)]
    assert len(opened.trials) == len(everything())


def test_a_notebook_that_claims_to_have_colours_gets_plain_text(
    small: OpenedStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" not in repr(small)


def test_notes_of_one_ranking_among_several_name_it(small: OpenedStudy) -> None:
    """The warning is about fixed_validation; the mark's note is about all."""
    notes = small.ranking().table.notes
    (warning,) = [note for note in notes if "WARNING" in note]
    assert warning.startswith("sketches, tiny, 16 dimensions, fixed_validation:0.1: ")
    assert sum(note.startswith("* chosen with test feedback") for note in notes) == 1


def test_an_empty_study_says_so() -> None:
    opened = OpenedStudy(empty())
    assert "there is nothing to rank" in repr(opened)
    assert "Nothing to show yet." in repr(opened)
    assert "there is nothing to rank" in in_notebook(opened)
    assert not opened.figure("curves").pictures


def test_a_closed_set_has_its_mark() -> None:
    assert "‡" in repr(OpenedStudy(closed(disjoint())))


def test_a_table_shows_only_the_columns_asked_for(small: OpenedStudy) -> None:
    view = small.ranking().only("loss", "validation_recall_at_1")
    shown = view.table.for_readers().columns
    assert [column.name for column in shown] == ["protocol", "loss", "validation_recall_at_1"]
    assert r"protocol & loss & validation Recall@1" in view.text("latex")
    with pytest.raises(ValueError, match="Did you mean 'map_at_r'"):
        small.ranking().only("map_at_s")


def test_one_dataset_is_a_study_too(full: OpenedStudy) -> None:
    drawings = full.only("drawings")
    assert set(drawings.trials["dataset"]) == {"drawings"}
    assert [found.dataset for found in drawings.study.rankings] == ["drawings"]
    with pytest.raises(ValueError, match="Unknown dataset of this study 'cub200'"):
        full.only("cub200")


def test_the_config_says_which_losses_are_equally_good_and_what_curves_show() -> None:
    rows = replace(rows_of(everything()), config={"rope": 3.0, "select_metric": "map_at_r"})
    assert OpenedStudy(rows).study.rope == 0.03
    shown = OpenedStudy(with_map(rows)).figure("curves").pictures
    assert shown[0].caption.startswith("MAP@R on the classes")
    assert OpenedStudy(rows_of(everything())).study.rope == ROPE


def with_map(rows: StudyRows) -> StudyRows:
    """Return the study as one whose curves have MAP@R in place of Recall@1."""
    curves = rows.curves.replace({"metric": {"select/recall_at_1": "select/map_at_r"}})
    return replace(rows, curves=curves)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda study: study.table("turnament"), "Did you mean 'tournament'"),
        (lambda study: study.figure("curvs"), "Did you mean 'curves'"),
        (lambda study: study.table("steps").text("pdf"), "Unknown format 'pdf'"),
        (lambda study: study.table("steps").save("steps.doc"), "Unknown suffix '.doc'"),
        (lambda study: study.figure("curves", losses=["triplet"]), "choose one of same_vs_diff"),
        (lambda study: study.figure("umap", losses=["triplett"]), "Did you mean 'triplet'"),
    ],
)
def test_an_unknown_name_is_answered_with_the_near_one(
    ask: Callable[[OpenedStudy], object], said: str, small: OpenedStudy
) -> None:
    with pytest.raises(ValueError, match=said):
        ask(small)


@pytest.mark.parametrize("place", [".", "analysis/notebooks", "studies", "studies/made"])
def test_a_name_is_found_from_its_own_folder_and_from_every_folder_below(
    place: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = home.parent.parent / place
    folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(folder)
    before = sorted(home.parent.parent.rglob("*"))
    assert open_study("made").folder == home
    assert open_study("studies/made").folder == home
    assert sorted(home.parent.parent.rglob("*")) == before


def test_the_nearest_studies_folder_counts(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = write_study(home.parent.parent / "mine" / "studies", everything()[:4])
    monkeypatch.chdir(own.parent.parent)
    assert open_study("made").folder == own
    assert open_study(home).folder == home


def test_an_unknown_study_is_answered_with_the_near_name_and_where_it_was_looked_for(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    said = f"There is no study 'maid' in {home.parent}. Did you mean 'made'? Known: made."
    with pytest.raises(ValueError, match=re.escape(said)):
        open_study("maid")


def test_where_no_study_is_the_sentence_says_where_it_looked_and_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="`fairtrial run quickstart` makes one") as raised:
        open_study("quickstart")
    assert f"neither {tmp_path} nor a folder above it" in str(raised.value)
    with pytest.raises(TrackingError, match="there is no such file"):
        open_study("quickstart", uri="sqlite:///mlflow.db")
    assert not list(tmp_path.iterdir())


def test_a_store_shows_the_same_study(tmp_path: Path) -> None:
    made = [one for one in everything() if (one.loss, one.protocol) == ("triplet", RATIO)]
    home = write_study(tmp_path, made)
    uri = write_mlflow(home)
    assert repr(open_study("made", uri=uri)) == repr(open_study(home))
    with pytest.raises(TrackingError, match=r"it has no study 'maid'\. Did you mean 'made'"):
        open_study("maid", uri=uri)


def test_layouts_of_maps_stay_in_a_folder_that_takes_them(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caches: list[Path | None] = []

    def draw(name: str, data: FigureData) -> list[Picture]:
        caches.append(data.cache)
        return []

    monkeypatch.setattr("analysis.figures.catalogue.draw", draw)
    open_study(home).figure("umap")
    monkeypatch.setattr("os.access", lambda *_: False)
    open_study(home).figure("umap")
    OpenedStudy(read_study(home)).figure("umap")
    assert caches == [home / "maps", None, None]
