"""Laws over every strategy, without Tune."""

import random

import pytest

from search_spaces import LOSSES, Range
from study.strategies import STRATEGIES, Setting, Strategy

SPACE = {"loss.margin": Range(0, 1), "loss.scale": Range(1, 100, log=True)}
FIRST = {"loss.margin": 0.5, "loss.scale": 32.0}


def drive(strategy: Strategy, trials: int) -> list[Setting]:
    """Ask, score by distance from (0.2, 10), tell."""
    found = []
    for i in range(trials):
        setting = strategy.suggest(f"t{i}")
        strategy.complete(f"t{i}", -abs(setting["loss.margin"] - 0.2) - abs(setting["loss.scale"] - 10) / 100)
        found.append(setting)
    return found


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_the_published_setting_is_first(name: str) -> None:
    assert STRATEGIES[name](SPACE, first=FIRST, trials=8, seed=0).suggest("t0") == FIRST


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_every_setting_has_every_key_and_lies_in_its_range(name: str) -> None:
    for setting in drive(STRATEGIES[name](SPACE, first=FIRST, trials=30, seed=1), 30):
        assert setting.keys() == SPACE.keys()
        assert all(value in SPACE[key] for key, value in setting.items())


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_the_same_seed_gives_the_same_settings_in_the_same_order(name: str) -> None:
    random.seed(1)
    one = drive(STRATEGIES[name](SPACE, first=FIRST, trials=12, seed=7), 12)
    random.seed(2)
    assert one == drive(STRATEGIES[name](SPACE, first=FIRST, trials=12, seed=7), 12)


@pytest.mark.parametrize("name", sorted(STRATEGIES))
@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_every_loss_can_be_searched_past_the_random_start(name: str, loss: str) -> None:
    space = {f"loss.{key}": param.search for key, param in LOSSES[loss].params.items()}
    first = {f"loss.{key}": value for key, value in LOSSES[loss].defaults.items()}
    strategy = STRATEGIES[name](space, first=first, trials=6, seed=0)
    for i in range(8):
        assert strategy.suggest(f"t{i}").keys() == space.keys()
        strategy.complete(f"t{i}", i / 10)


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_a_failed_trial_is_no_obstacle(name: str) -> None:
    strategy = STRATEGIES[name](SPACE, first=FIRST, trials=8, seed=0)
    strategy.suggest("t0")
    strategy.complete("t0", None)
    assert strategy.suggest("t1").keys() == SPACE.keys()


def test_a_search_of_eight_is_not_purely_random() -> None:
    """HyperOpt's own random start of 20 would make it so."""
    told, untold = (STRATEGIES["hyperopt"](SPACE, first=FIRST, trials=8, seed=3) for _ in range(2))
    learned = drive(told, 8)
    blind = [untold.suggest(f"t{i}") for i in range(8)]
    assert learned[:2] == blind[:2]
    assert learned[4:] != blind[4:]


def test_hyperopt_comes_closer_than_random() -> None:
    def distance(settings: list[Setting]) -> float:
        return sum(abs(s["loss.margin"] - 0.2) + abs(s["loss.scale"] - 10) / 100 for s in settings[-10:]) / 10

    pairs = [
        [distance(drive(STRATEGIES[name](SPACE, first=FIRST, trials=40, seed=seed), 40)) for name in ("hyperopt", "random")]
        for seed in range(3)
    ]
    assert sum(tpe for tpe, _ in pairs) < 0.7 * sum(blind for _, blind in pairs)
