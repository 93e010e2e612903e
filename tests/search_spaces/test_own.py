"""A loss of the user's own, found by package.module:NAME."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from search_spaces import find_card, find_own, untagged
from search_spaces.own import labelled_name, split_labels
from study.config.plan import expand
from study.config.sources import resolve
from tests.support import ROOT
from tests.support.specs import search, sketches
from trainables.losses import find_builder
from trainables.training.fit import Fit

README = (ROOT / "README.md").read_text()
EXAMPLE = re.search(r"`mylosses\.py`.*?```python\n(.*?)```", README, flags=re.DOTALL)[1]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder with the README's example, and start the program there."""
    (tmp_path / "mylosses.py").write_text(EXAMPLE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("mylosses", None)


def test_the_readmes_example_is_ten_lines_and_trains(here: Path) -> None:
    assert (
        len(
            [
                line
                for line in EXAMPLE.splitlines()
                if line.strip() and not line.startswith(("#", "from"))
            ]
        )
        <= 10
    )
    card = find_card("mylosses:LOSS")
    spec = search("contrastive")
    cell = type(spec.cell)(**{**spec.cell.__dict__, "loss": "mylosses:LOSS"})
    spec = type(spec)(
        **{
            **spec.__dict__,
            "cell": cell,
            "setting": {f"loss.{key}": value for key, value in card.defaults.items()},
        }
    )
    fit = Fit(spec, spec.splits[0], sketches())
    assert fit.train_epoch(1) > 0
    assert find_builder("mylosses:LOSS") is find_own("mylosses:LOSS").build


def test_a_study_takes_it_by_name_and_its_settings_too(here: Path) -> None:
    config = resolve(
        "quickstart", sets=["losses=mylosses:LOSS,triplet", "settings.mylosses:LOSS.margin=0.3"]
    ).config
    plan = expand(config)
    assert config.losses == ("mylosses:LOSS", "triplet")
    assert plan.published("mylosses:LOSS") == {"loss.margin": 0.3}
    assert set(plan.space("mylosses:LOSS")) == {"loss.margin"}


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nowhere:LOSS", "cannot be imported: No module named 'nowhere'"),
        ("mylosses:LOST", "cannot be imported"),
        (
            "analysis:LOSS",
            "must not be named analysis, as a package of Fair Trial is; rename analysis.py",
        ),
        ("mylosses:build", "must be an OwnLoss(card, build), but it is a function"),
    ],
)
def test_what_is_no_loss_is_one_sentence(here: Path, name: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        find_card(name)


@pytest.mark.parametrize("beside", ["", "analysis.py", "study.py"])
def test_the_console_script_finds_it_beside_the_place_where_it_was_started(
    here: Path, beside: str
) -> None:
    """The loss is found, even beside a file with the name of one of our packages."""
    if beside:
        (here / beside).write_text("raise RuntimeError('not ours')\n")
    words = [str(Path(sys.executable).parent / "fairtrial"), "list", "losses", "mylosses:LOSS"]
    done = subprocess.run(words, cwd=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "margin" in done.stdout


def test_the_name_of_a_loss_that_sees_a_share_of_the_labels_says_which() -> None:
    assert labelled_name("triplet", 1) == "triplet"
    for loss in ("triplet", "triplet@wide", "my.module:LOSS"):
        for share in (1.0, 0.5, 0.05, 1e-05):
            assert split_labels(labelled_name(loss, share)) == (loss, share)
    assert untagged(labelled_name("triplet@wide", 0.1)) == "triplet"
