"""Every preset plans what its experiment says."""

import pytest

from study.config import make
from study.presets import PRESETS, SMOKE, quickstart


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_preset_is_valid_alone_and_with_smoke_and_says_what_it_is(name: str) -> None:
    assert make(PRESETS[name]()).name == name
    make(PRESETS[name]() | SMOKE)
    assert PRESETS[name].__doc__


def test_quickstart_is_the_comparison_that_the_readme_promises() -> None:
    config = make(quickstart())
    assert config.losses == ("contrastive", "triplet", "multi_similarity", "proxy_anchor")
    assert config.protocols == ("default", "fixed_validation")
    assert config.val_fraction == 0.1
    assert config.reproductions == 3
    assert config.search_trials >= 8
    assert config.epochs >= 8
    assert len(config.rungs()) >= 2
