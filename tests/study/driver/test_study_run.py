"""Studies on the shared local Ray: warm slots, and one study in which everything goes wrong at
once.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from ray import cloudpickle
from rich.console import Console
from typer.testing import CliRunner

import study.driver.study_run
from analysis import read_study
from analysis.record.frames import StudyRows
from analysis.tables.ranking import ranking_table
from analysis.tracking import TrackingError
from search_spaces import LOSSES
from study import run_study
from study.__main__ import app
from study.config.plan import expand
from study.config.study_config import StudyConfig, make
from study.presets import SMOKE
from study.presets.laptop import vectors
from study.view.live_view import LiveView
from tests.support.studies import from_scratch
from tests.support.trees import folders
from trainables import load_embedder
from trainables.datasets.indexing import index
from trainables.datasets.pixels import load
from trainables.datasets.vectors import load_vectors
from trainables.training.learner import Learner

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("local_ray")]
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # slots do not import tests


def quiet(config: StudyConfig) -> LiveView:
    return LiveView(expand(config), Console(file=io.StringIO()))


def marking_slot(folder: Path) -> type:
    """Return a Slot that leaves a file for each trial it is given: its process, a dot, a number."""
    from trainables.workers.slot import Slot

    class MarkingSlot(Slot):
        def reset_config(self, new_config: dict[str, Any]) -> bool:
            (folder / f"{os.getpid()}.{len(list(folder.iterdir()))}").touch()
            return super().reset_config(new_config)

    return MarkingSlot


class FaultyLearner(Learner):
    """contrastive kills its process once, in its second epoch; multi_similarity diverges. (triplet
    cannot even be built: FaultyWorker.)
    """

    mark: Path

    def epoch(self) -> Any:
        loss = self.spec.cell.loss
        if loss == "contrastive" and len(self.rows) == 1 and not self.mark.exists():
            self.mark.touch()
            os._exit(1)
        if loss == "multi_similarity":
            self.fits[0].train_epoch = lambda number: float("nan")  # type: ignore[method-assign]
        return super().epoch()


def faulty_slot(mark_path: Path) -> type:
    from trainables.datasets.pixels import load
    from trainables.workers.slot import Slot
    from trainables.workers.worker import Worker

    class Faulty(FaultyLearner):
        mark = mark_path

    class FaultyWorker(Worker):
        def build(self) -> Learner:
            if self.spec.cell.loss == "triplet":
                raise RuntimeError("broken on purpose")
            return Faulty(
                self.spec, load(self.spec.dataset_ref, self.spec.transform.cache_size), self.team
            )

    class FaultySlot(Slot):
        kind = FaultyWorker

    return FaultySlot


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One store for all studies here: a fresh one takes seconds."""
    return tmp_path_factory.mktemp("studies")


def small(folder: Path, **changes: Any) -> StudyConfig:
    return make(
        from_scratch()
        | SMOKE
        | {
            "studies": str(folder),
            "protocols": ["fixed_validation"],
            "baselines": False,
            "searches": 1,
            "reproductions": 1,
        }
        | changes
    )


def test_a_slot_stays_warm_from_trial_to_trial(folder: Path, local_ray: None) -> None:
    config = small(
        folder,
        name="warm",
        losses=["contrastive", "proxy_anchor"],
        search_trials=3,
        reproductions=2,
    )
    marks = folder / "marks"
    marks.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study.driver.study_run, "Slot", marking_slot(marks))
        done = run_study(config, view=quiet(config))
    processes = [path.stem for path in marks.iterdir()]
    assert len(processes) == done.trials == 2 * (3 + 2)
    assert len(set(processes)) <= 2
    assert done.failed == 0
    assert not done.interrupted


@pytest.mark.slow
def test_a_sweep_waits_for_its_trials_and_final_trials_have_what_it_chose(
    folder: Path, local_ray: None
) -> None:
    searched = {
        "strategy": "coordinate",
        "search_training": ["learning_rate"],
        "search_epochs": 1,
        "slots": 2,
    }
    config = small(folder, name="sweep", losses=["contrastive"], **searched)
    done = run_study(config, view=quiet(config))
    assert (done.failed, done.interrupted, done.trials) == (0, False, 5 + 5 + 1)
    trials = read_study(done.tracking_uri, "sweep").trials
    tried, final = trials[trials["phase"] == "search"], trials[trials["phase"] == "final"].iloc[0]
    assert set(tried["epochs"].astype(int)) == {1}
    assert int(final["epochs"]) == config.epochs
    settings = tried.set_index("trial")["setting"]
    assert {settings[f"search-{i}"]["margin"] for i in range(5)} == {0, 0.25, 0.5, 0.75, 1}
    assert len({settings[f"search-{i}"]["margin"] for i in range(5, 10)}) == 1
    assert {settings[f"search-{i}"]["training.learning_rate"] for i in range(5, 10)} == {
        1e-6,
        1e-5,
        1e-4,
        1e-3,
        1e-2,
    }
    best = tried[tried["select/best"] == tried["select/best"].max()]["setting"].tolist()
    assert final["setting"] in best


@pytest.fixture(scope="module")
def wrecked(folder: Path, local_ray: None) -> tuple[Any, StudyRows]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study.driver.study_run, "Slot", faulty_slot(folder / "died"))
        patch.setattr(study.driver.study_run, "RETRIES", 1)
        config = small(
            folder,
            name="wrecked",
            losses=["contrastive", "triplet", "multi_similarity"],
            search_trials=1,
            epochs=3,
            grace=3,
        )
        done = run_study(config, view=quiet(config))
    return done, read_study(done.tracking_uri, "wrecked")


def of(rows: StudyRows, loss: str) -> pd.DataFrame:
    return rows.trials[rows.trials["loss"] == loss]


@pytest.mark.slow
def test_a_dead_slot_comes_back_and_its_trial_goes_on_in_the_same_run(
    wrecked: tuple[Any, StudyRows], folder: Path
) -> None:
    _, rows = wrecked
    assert (folder / "died").exists()
    mine = of(rows, "contrastive")
    assert mine["status"].tolist() == ["FINISHED"] * 2
    curves = rows.curves[
        (rows.curves["metric"] == "select/recall_at_1") & rows.curves["run_id"].isin(mine["run_id"])
    ]
    assert curves.groupby("run_id")["epoch"].apply(list).map(tuple).tolist() == [(1, 2, 3)] * 2


@pytest.mark.slow
def test_one_bad_loss_does_not_end_the_study_and_is_counted(wrecked: tuple[Any, StudyRows]) -> None:
    done, rows = wrecked
    assert of(rows, "triplet")["status"].tolist() == ["FAILED"] * 2
    assert done.failed == 2
    assert not done.interrupted
    assert "triplet" not in {row.loss for row in done.rankings[0].rows}
    assert "2 trials did not finish" in done.page.read_text()


@pytest.mark.slow
def test_a_diverged_trial_ends_normally_with_the_worst_score_and_a_tag(
    wrecked: tuple[Any, StudyRows],
) -> None:
    _, rows = wrecked
    mine = of(rows, "multi_similarity")
    assert mine["status"].tolist() == ["FINISHED"] * 2
    assert set(mine["outcome"]) == {"diverged"}
    assert set(mine["select/best"]) == {0.0}


@pytest.mark.slow
def test_a_study_that_mlflow_already_knows_leaves_nothing_behind(
    folder: Path, wrecked: tuple[Any, StudyRows]
) -> None:
    os.rename(folder / "wrecked", folder / "moved away")
    config = small(folder, name="wrecked", losses=["contrastive"])
    with pytest.raises(TrackingError, match="already has an experiment 'wrecked'"):
        run_study(config, view=quiet(config))
    assert not (folder / "wrecked").exists()


@pytest.mark.slow
def test_a_study_runs_on_any_folder_of_images_with_a_real_backbone(
    local_ray: None, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    photos = folders(
        tmp_path / "meine Fotos 写真", [f"Käfer {letter}" for letter in "abcdefgh"], images=4
    )
    config = small(
        folder,
        name="photos",
        dataset="image_folder",
        data_root=photos.name,  # below the place where the program was started
        backbone="resnet18",
        image_size=32,
        pooling="gap+gmp",
        losses=["contrastive"],
        protocols=["default", "fixed_validation"],
        baselines=True,
        metrics=["recalls", "map_at_r", "nmi", "pooled_recall_at_1", "matched_recall_at_1"],
    )
    done = run_study(config, view=quiet(config))
    assert (done.failed, done.interrupted) == (0, False)
    (row,) = done.rankings[0].rows
    assert 0 <= row.validation["recall_at_1"].value <= 1
    measured = read_study(done.tracking_uri, "photos").trials
    final = measured[measured["phase"] == "final"]
    assert {
        "test/recall_at_8",
        "test/nmi",
        "test/pooled_recall_at_1",
        "test/matched_recall_at_1",
    } <= set(final.columns)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("workers", [1, 2])
def test_every_loss_of_the_catalogue_trains_and_is_in_the_table(
    local_ray: None, folder: Path, workers: int
) -> None:
    config = small(
        folder,
        name=f"catalogue-{workers}",
        losses=sorted(LOSSES),
        protocols=["default"],
        strategy="fixed",
        workers=workers,
    )
    done = run_study(config, view=quiet(config))
    assert (done.failed, done.interrupted) == (0, False)
    assert {row.loss for row in done.rankings[0].rows} == set(LOSSES)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_same_seed_on_one_slot_gives_the_same_settings_and_the_same_table_twice(
    folder: Path, local_ray: None
) -> None:
    found = []
    for name in ("once", "twice"):
        config = small(
            folder,
            name=name,
            losses=["margin"],
            protocols=["k_fold:2", "default"],
            search_trials=4,
            epochs=3,
            grace=1,
            slots=1,
            refit=True,
            published_too=True,
            last_too=True,
        )
        done = run_study(config, view=quiet(config))
        assert (done.failed, done.interrupted) == (0, False)
        rows = read_study(done.tracking_uri, name)
        trials = [
            (row["loss"], row["protocol"], row["trial"], row["setting"], row["epochs"])
            for _, row in rows.trials.iterrows()
        ]
        found.append(
            (
                trials,
                ranking_table(done.rankings).frame().to_csv(),
                (folder / name / "readings.csv").read_text(),
            )
        )
    assert found[0] == found[1]
    trials, _, readings = found[0]
    kinds = Counter(
        (loss, protocol, name.rpartition("-")[0]) for loss, protocol, name, *_ in trials
    )
    names = ("search", "final", "published", "refit", "published_refit")
    assert [kinds["margin", "k_fold:2", kind] for kind in names] == [4, 1, 1, 1, 1]
    assert [kinds["margin", "default", kind] for kind in names] == [0, 1, 0, 0, 0]
    rules = Counter(line.rpartition(",")[2] for line in readings.splitlines()[1:])
    # default at its three epochs and again at the chosen one; final and published under k_fold, and
    # refits; all but those at the last.
    assert rules == {"best-on-test": 4, "selected-on-validation": 2, "refit": 2, "last-epoch": 3}


@pytest.mark.slow
def test_a_search_with_test_feedback_is_marked_all_the_way(folder: Path, local_ray: None) -> None:
    config = small(
        folder,
        name="peeking",
        losses=["contrastive"],
        protocols=["default"],
        search_trials=2,
        peek_search=True,
    )
    done = run_study(config, view=quiet(config))
    trials = read_study(done.tracking_uri, "peeking").trials
    assert trials["peeks"].all()
    assert Counter(trials["phase"]) == {"search": 2, "final": 1}
    (row,) = done.rankings[0].rows
    assert (row.rank, row.validation) == (None, {})
    assert row.default["recall_at_1"].peeks


def test_a_store_that_cannot_be_made_ends_with_exit_4_and_leaves_nothing(
    tmp_path: Path, ray_address: str
) -> None:
    words = [
        "run",
        "quickstart",
        "--smoke",
        "--set",
        "tracking_uri=sqlite:////proc/nowhere/x.db",
        "--set",
        f"studies={tmp_path}/studies",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "study", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=200,
    )
    assert done.returncode == 4
    assert "fairtrial: MLflow at sqlite:////proc/nowhere/x.db cannot be used" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("studies/*"))


def exported(folder: Path, name: str, label: str) -> Any:
    """Return the network of a cell's final trial, as `fairtrial export` writes it."""
    target = folder / f"{name}-model"
    words = ["export", name, label, "--studies", str(folder), "--to", str(target)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return load_embedder(target)


def recall_at_1(vectors: np.ndarray, labels: np.ndarray) -> float:
    similar = vectors @ vectors.T
    np.fill_diagonal(similar, -9)
    return float((labels[similar.argmax(axis=1)] == labels).mean())


@pytest.mark.slow
def test_a_frozen_trunk_is_studied_in_both_setups_and_exported_with_its_head(
    folder: Path, local_ray: None
) -> None:
    config = small(
        folder,
        name="frozen",
        losses=["contrastive"],
        protocols=["default", "fixed_validation"],
        backbone=["small"],
        weights="pretrained",
        pooling="gap",
        train="head",
    )
    done = run_study(config, view=quiet(config))
    assert (done.failed, done.interrupted) == (0, False)
    rows = read_study(folder / "frozen")
    own = rows.finals.set_index("label").loc["contrastive/fixed_validation"]
    embed = exported(folder, "frozen", "contrastive/fixed_validation")
    data = load(expand(config).dataset_ref("sketches"), config.cache_size)
    ids = data.index.ids(data.index.test)
    vectors = embed([data.pixels[i] for i in ids])
    assert recall_at_1(vectors, data.index.labels[ids]) == pytest.approx(
        own["test/recall_at_1"], abs=0.005
    )


@pytest.mark.slow
def test_vectors_are_studied_and_the_exported_head_takes_vectors(
    folder: Path, local_ray: None, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(40), 6)
    features = rng.normal(size=(40, 8))[labels] + 0.5 * rng.normal(size=(240, 8))
    np.savez(tmp_path / "own.npz", features=features.astype(np.float32), labels=labels)
    config = make(
        vectors()
        | {
            "name": "vectors",
            "studies": str(folder),
            "data_root": str(tmp_path / "own.npz"),
            "losses": ["contrastive"],
            "protocols": ["default", "fixed_validation"],
            "val_fraction": 0.2,
            "searches": 1,
            "reproductions": 1,
            "search_trials": 2,
            "epochs": 2,
            "embedding_size": [4],
        }
    )
    done = run_study(config, view=quiet(config))
    assert (done.failed, done.interrupted) == (0, False)
    own = read_study(folder / "vectors").finals.set_index("label")
    embed = exported(folder, "vectors", "contrastive/fixed_validation")
    found = index(expand(config).dataset_ref("features"))
    ids = found.ids(found.test)
    rows = load_vectors(expand(config).dataset_ref("features"))[ids]
    assert recall_at_1(embed(rows), found.labels[ids]) == pytest.approx(
        own.loc["contrastive/fixed_validation", "test/recall_at_1"], abs=0.005
    )
