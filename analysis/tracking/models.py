"""Log trained networks to MLflow as ONNX models, and put one into its model registry."""

from __future__ import annotations

import json
import logging
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from analysis.tracking.experiment import NOTE
from analysis.tracking.store import TrackingError, one_line, open_store, redact
from analysis.tracking.write import KEY
from trainables.contract import BEST, NOT_TRAINED, TrialSpec

if TYPE_CHECKING:
    import pandas as pd
    from mlflow import MlflowClient

    from analysis.record.frames import StudyRows

Which = Literal["best", "all", "none"]
WINNER = "winner"  # alias of the registered version


class Registered(NamedTuple):
    """Name a version in the model registry."""

    name: str
    version: int
    new: bool


def networks(rows: StudyRows, which: Which) -> list[str]:
    """Return the final trials whose networks are logged.

    best: of each loss and network the replicate with the best validation score. Trials that chose
    on the test classes have none.
    """
    finals = rows.finals
    if which == "none" or finals.empty:
        return []
    trained = finals[~finals["loss"].isin(NOT_TRAINED)]
    if which == "all":
        return [str(run) for run in trained["run_id"]]
    own = trained[(trained["role"] == "final") & ~trained["peeks"].astype(bool)]
    scores = validation_scores(rows, own)
    groups = own.groupby(["dataset", "backbone", "embedding_size", "loss"], sort=False)
    return [str(max(runs["run_id"], key=lambda run: scores[str(run)])) for _, runs in groups]


def validation_scores(rows: StudyRows, trials: pd.DataFrame) -> dict[str, float]:
    """Return the best selection score of each of these trials; 0 for those that select nothing."""
    best = dict(rows.curves.groupby(["run_id", "metric"])["value"].max().items())
    metrics = {
        run: f"select/{rows.spec(run)['training']['select_metric']}" for run in trials["run_id"]
    }
    return {str(run): float(best.get((run, name), 0.0)) for run, name in metrics.items()}


def log_models(uri: str, rows: StudyRows, runs: Sequence[str]) -> dict[str, str]:
    """Log the networks of these final trials, and return the id of each one's model.

    Those that MLflow has already are not logged again. Raise TrackingError if it cannot be used.
    """
    if not runs:
        return {}
    try:
        client = open_store(uri)
        experiment = client.get_experiment_by_name(rows.name)
        if experiment is None:
            raise LookupError(f"it has no study '{rows.name}'")
        number = str(experiment.experiment_id)
        known = _logged(client, number)
        for run in [run for run in runs if run not in known]:
            known[run] = _log(client, number, rows, run)
    except Exception as error:
        raise TrackingError(
            f"MLflow at {redact(uri)} does not have all networks: {one_line(error)}"
        ) from error
    return {run: known[run] for run in runs}


def _logged(client: MlflowClient, experiment: str) -> dict[str, str]:
    """Return the models that are whole, by trial; remove what a killed process began."""
    found: dict[str, str] = {}
    token: str | None = None
    while token is None or token:
        page = client.search_logged_models([experiment], max_results=100, page_token=token)
        for model in page:
            if trial := model.tags.get(KEY):
                if str(model.status) == "READY":
                    found[trial] = model.model_id
                else:
                    client.delete_logged_model(model.model_id)
        token = page.token or ""
    return found


def _log(client: MlflowClient, experiment: str, rows: StudyRows, trial: str) -> str:
    """Log one network and return its model's id."""
    from mlflow.entities import LoggedModelOutput, LoggedModelStatus

    (found,) = client.search_runs([experiment], f"tags.`{KEY}` = '{trial}'", max_results=1)
    run, row = found.info.run_id, rows.trials.set_index("run_id").loc[trial]
    with tempfile.TemporaryDirectory() as folder:
        save = _Saver(rows, trial, Path(folder))
        names = ("loss", "protocol", "dataset", "backbone", "replicate", "seed", "rule")
        model = client.create_logged_model(
            experiment,
            name=re.sub(r"[^\w-]+", "-", str(row["label"])),
            source_run_id=run,
            tags={KEY: trial, NOTE: save.about, **{name: str(row[name]) for name in names}},
            params={name: str(value) for name, value in row["setting"].items()},
            model_type="embedding",
        )
        client.log_model_artifacts(model.model_id, str(save.write(run, model.model_id)))
    client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)
    step = int(found.data.metrics.get("chosen_epoch", 0))
    client.log_outputs(run, [LoggedModelOutput(model.model_id, step)])
    return str(model.model_id)


class _Saver:
    """Write one network as MLflow's ONNX flavour, with signature and input example."""

    def __init__(self, rows: StudyRows, trial: str, folder: Path) -> None:
        from trainables.outputs.embedder import CONFIG, ONNX
        from trainables.outputs.exporting import export_model

        weights = rows.fetch(trial, BEST)
        if weights is None:
            raise LookupError(f"{trial} left no {BEST}")
        self.folder = folder
        embedder = export_model(weights, TrialSpec.from_dict(rows.spec(trial)), folder / "export")
        self.onnx = folder / "export" / ONNX
        self.config: dict[str, Any] = json.loads((folder / "export" / CONFIG).read_text())
        side = embedder.transform.image_size
        self.size, self.features = embedder.size, embedder.features
        self.shape = (
            (self.features,) if self.features else (int(self.config["channels"]), side, side)
        )
        self.about = (
            f"Takes float32 vectors (n, {self.features}) and gives unit vectors (n, {self.size})."
            if self.features
            else f"Takes float32 images (n, {self.shape[0]}, {side}, {side}) of 0 to 255: the "
            f"middle {embedder.transform.center_crop:.1%} of the shorter side, resized. Gives unit "
            f"vectors (n, {self.size}), whose dot products are cosines."
        )

    def write(self, run: str, model: str) -> Path:
        """Write the model's folder and return it."""
        import mlflow.onnx
        import numpy as np
        import onnx
        from mlflow.models import Model, ModelSignature
        from mlflow.types import Schema, TensorSpec

        logging.getLogger("mlflow.utils.environment").setLevel(logging.ERROR)  # pip's version
        kind = np.dtype("float32")
        example = np.random.default_rng(0).integers(0, 256, (1, *self.shape)).astype(kind)
        mlflow.onnx.save_model(
            onnx.load(self.onnx),
            str(self.folder / "model"),
            mlflow_model=Model(run_id=run, model_id=model),
            signature=ModelSignature(
                Schema([TensorSpec(kind, (-1, *self.shape))]),
                Schema([TensorSpec(kind, (-1, self.size))]),
            ),
            input_example=example,
            pip_requirements=[f"onnx=={onnx.__version__}", "onnxruntime", "numpy"],
            metadata={"about": self.about, "fairtrial": self.config},
            save_as_external_data=False,
        )
        return self.folder / "model"


def register(uri: str, rows: StudyRows, trial: str) -> Registered:
    """Put the network of a final trial into the model registry, under the study's name.

    The alias `winner` then names it. A network that is the newest version already stays that.
    """
    model = log_models(uri, rows, [trial])[trial]
    try:
        client, source = open_store(uri), f"models:/{model}"
        if not client.search_registered_models(f"name = '{rows.name}'"):
            client.create_registered_model(
                rows.name, description=f"Networks of the Fair Trial study {rows.name}."
            )
        versions = client.search_model_versions(f"name = '{rows.name}'")
        there = [each for each in versions if each.source == source]
        with _default_store(uri):  # where it looks for the source
            version = (
                there[0]
                if there
                else client.create_model_version(
                    rows.name,
                    source=source,
                    run_id=client.get_logged_model(model).source_run_id,
                    model_id=model,
                    description=trial,
                )
            )
        client.set_registered_model_alias(rows.name, WINNER, version.version)
    except Exception as error:
        raise TrackingError(
            f"The model registry of MLflow at {redact(uri)} cannot be used: {one_line(error)}"
        ) from error
    return Registered(rows.name, int(version.version), not there)


@contextmanager
def _default_store(uri: str) -> Iterator[None]:
    """Make a store the one that MLflow uses where it takes no address."""
    import mlflow

    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(uri)
    try:
        yield
    finally:
        mlflow.set_tracking_uri(before)
