"""Every model whose embeddings a study keeps is found, with a name of its own."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from analysis.maps.kept import kept_models
from study.config.plan import expand
from study.config.sources import resolve
from tests.support.synthetic_embeddings import write_embeddings
from tests.support.synthetic_study import everything, rows_of
from trainables.contract import EMBEDDINGS


def test_every_final_trial_that_kept_embeddings_is_there_once_for_each_fold(tmp_path: Path) -> None:
    plan = expand(resolve("quickstart", smoke=True, sets=["protocols=k_fold:2"]).config)
    spec = plan.spec(plan.cells[0], "final", 1, plan.published(plan.cells[0].loss))
    file = write_embeddings(tmp_path, spec, per_class=2)
    rows = rows_of(everything())
    with_file = [str(run) for run in rows.finals["run_id"]][:3]
    seeds = {run: seed for seed, run in enumerate(with_file)}
    kept = replace(
        rows,
        fetch=lambda run, name: file if run in with_file and name == EMBEDDINGS else None,
        spec=lambda run: replace(spec, seed=seeds[run]).as_dict(),
    )
    models = kept_models(kept)
    assert len(models) == 3 * 2
    assert [each.fold for each in models.values()] == [0, 1] * 3
    assert all(f"seed {each.spec.seed}" in name for name, each in models.items())
    assert all({*np.unique(each.part)} == {"train", "select", "test"} for each in models.values())
    assert kept_models(rows) == {}
