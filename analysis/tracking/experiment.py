"""Name what MLflow shows beside scores: kind, description and source of a run, and its dataset."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput as Entity

# MLflow's own tags, of an experiment or a run.
NOTE = "mlflow.note.content"  # a description in Markdown
KIND = {"mlflow.experimentKind": "custom_model_development"}  # not GenAI
USER, SOURCE, SOURCE_TYPE = "mlflow.user", "mlflow.source.name", "mlflow.source.type"
COMMIT = "mlflow.source.git.commit"
CONTEXT = "mlflow.data.context"
QUESTION = "fairtrial.question"  # tag of an experiment: the first part of its description
# Metrics of one point: the selection score, at the step of the chosen epoch. No frame has them.
CHOSEN = "chosen/"
DIGEST = 16  # characters of a digest that MLflow shows; it takes 36


@dataclass(frozen=True)
class DatasetInput:
    """Hold what MLflow shows of a run's dataset. profile: counts, as of classes and images."""

    name: str
    digest: str
    source: str
    profile: Mapping[str, int] = field(default_factory=dict)

    def entity(self) -> Entity:
        """Return it as MLflow has it."""
        from mlflow.entities import Dataset, InputTag
        from mlflow.entities import DatasetInput as Entity

        dataset = Dataset(
            name=self.name,
            digest=self.digest[:DIGEST],
            source_type="local",
            source=json.dumps({"uri": self.source}),
            profile=json.dumps(dict(self.profile)),
        )
        return Entity(dataset, [InputTag(CONTEXT, "training")])
