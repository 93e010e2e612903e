"""Every command and Python block of the pages that trains ends well, tiny."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from analysis.tracking import open_store
from study.__main__ import app
from tests.support.pages import TYPED, Typed, furnish
from tests.test_pages import (
    BLOCKS,
    LATER,
    STARTS,
    distinct,
    furnished,
    here,
    is_sentence,
    without_file,
)

__all__ = ["furnished", "here"]  # fixtures


def starts(each: Typed) -> bool:
    """Return whether the slow layer runs this: not on a cluster, on GPUs, or to be resumed."""
    alone = not each.environment and "--resume" not in each.words and "--cluster" not in each.words
    gpus = any("gpus_per_worker" in item or item == "workers=4" for item in each.sets)
    return each.verb in STARTS and alone and not gpus and not is_sentence(each)


def tiny(each: Typed) -> list[str]:
    """Return the words of a command, made small."""
    if each.verb in ("run", "plan", "train"):
        more = [] if "--smoke" in each.words else ["--smoke"]
        network = ["--set", "backbone=tiny", "--set", "weights=none"]
        return each.words + more + (network if "photos" in each.words[1:2] else [])
    return each.words


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("here", "ray_address")
@pytest.mark.parametrize(
    "each",
    distinct([t for t in TYPED if starts(t) and t.verb in ("run", "train", "plan")]),
    ids=str,
)
def test_a_command_that_trains_ends_well(each: Typed, tmp_path: Path) -> None:
    words = [without_file(word) for word in tiny(each)]
    where = [] if each.verb == "plan" else ["--set", f"studies={tmp_path / 'studies'}"]
    shown = CliRunner().invoke(app, [*words, *where])
    assert shown.exit_code == 0, shown.output


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "each",
    distinct([t for t in TYPED if starts(t) and t.verb in ("data check", "data show")]),
    ids=str,
)
def test_a_command_that_takes_a_while_ends_well(each: Typed) -> None:
    shown = CliRunner().invoke(app, each.words)
    assert shown.exit_code == 0, shown.output


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("ray_address")
def test_the_blocks_that_train_and_embed_run_as_a_reader_runs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The study of the page, tiny; then export, audit, resume and the three lines that embed."""
    furnish(tmp_path / "reader")
    monkeypatch.chdir(tmp_path / "reader")
    os.rename("studies", "others")
    for words in (
        ["run", "quickstart", "--smoke", "--name", "quickstart", "--set", "keep_checkpoints=true"],
        ["run", "quickstart", "--resume"],
        ["export", "quickstart", "proxy_anchor/fixed_validation"],
        ["export", "quickstart", "--register"],
        ["export", "quickstart", "--optuna", "sqlite:///optuna.db"],
        ["export", "quickstart", "--tensorboard", "events", "--parquet", "frames"],
        ["audit", "quickstart", "--yes"],
        ["reap"],
    ):
        shown = CliRunner().invoke(app, words)
        assert shown.exit_code == 0, shown.output
    client = open_store(f"sqlite:///{Path('studies/mlflow.db').absolute()}")
    number = client.get_experiment_by_name("quickstart").experiment_id
    logged = Counter(model.tags["loss"] for model in client.search_logged_models([number]))
    assert len(logged) > 1
    assert set(logged.values()) == {1}, "of each loss, one network"
    blocks = [block for _, _, block in BLOCKS]
    for call in LATER:
        for block in (each for each in blocks if call in each):
            exec(block, scope := {"__name__": "reader"})
            assert call != "load_embedder(" or scope["vectors"].shape[0] == 2
    (study,) = [block for block in blocks if "run_study(config)" in block]
    small = "from study.presets import SMOKE\n" + study.replace(
        "quickstart() |", "quickstart() | SMOKE |"
    )
    exec(small, {"__name__": "reader"})
