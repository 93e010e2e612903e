"""Find every model whose embeddings a study keeps, by name."""

from __future__ import annotations

import pandas as pd

from analysis.maps.embeddings import TrialEmbeddings, read_embeddings
from analysis.record.frames import StudyRows
from trainables.contract import EMBEDDINGS, TrialSpec


def kept_models(rows: StudyRows, finals: pd.DataFrame | None = None) -> dict[str, TrialEmbeddings]:
    """Return what every final trial and baseline kept, one entry per fold, in the study's order.

    A key names what the models do not share: cell, seed, fold, and what kind of final trial it is.
    """
    found = {}
    for _, trial in (rows.finals if finals is None else finals).iterrows():
        run = str(trial["run_id"])
        if file := rows.fetch(run, EMBEDDINGS):
            spec = TrialSpec.from_dict(rows.spec(run))
            for each in read_embeddings(file, spec):
                fold = f", fold {each.fold}" if len(spec.splits) > 1 else ""
                found[f"{spec.cell}, {trial['role']}, seed {spec.seed}{fold}"] = each
    return found
