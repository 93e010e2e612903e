"""Laws over every strategy, without Tune."""

import csv
import math
import random
from itertools import product
from statistics import fmean

import pytest

from search_spaces import LOSSES, Choice, Grid, Param, Range
from search_spaces.training import TRAINING
from study.strategies.catalogue import STRATEGIES
from study.strategies.strategy import Setting, Space, Strategy
from tests.support import ROOT
from trainables.contract import WORST

SPACE = {
    "loss.margin": Param(paper=0.5, search=Range(0, 1), domain=Range(0, 1)),
    "loss.scale": Param(paper=32, search=Range(1, 100, log=True), domain=Range(1, 100)),
}
FIRST = {"loss.margin": 0.5, "loss.scale": 32.0}
SEARCHING = sorted(STRATEGIES.keys() - {"fixed"})


def drive(strategy: Strategy, trials: int) -> list[Setting]:
    """Ask, score by distance from (0.2, 10), tell."""
    found = []
    for i in range(trials):
        setting = strategy.suggest(f"t{i}")
        assert setting is not None
        strategy.complete(f"t{i}", score(setting))
        found.append(setting)
    return found


def score(setting: Setting) -> float:
    return -abs(setting["loss.margin"] - 0.2) - abs(setting["loss.scale"] - 10) / 100


def of(loss: str) -> tuple[Space, Setting]:
    """The space of a loss and its published setting."""
    space = {f"loss.{key}": param for key, param in LOSSES[loss].params.items()}
    return space, {f"loss.{key}": value for key, value in LOSSES[loss].defaults.items()}


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_the_published_setting_is_first(name: str) -> None:
    assert STRATEGIES[name](SPACE, first=FIRST, trials=8, seed=0).suggest("t0") == FIRST


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_every_setting_has_every_key_and_lies_in_its_range(name: str) -> None:
    trials = STRATEGIES[name].trials(SPACE, first=FIRST, budget=30)
    for setting in drive(STRATEGIES[name](SPACE, first=FIRST, trials=30, seed=1), trials):
        assert setting.keys() == SPACE.keys()
        assert all(value in SPACE[key].search for key, value in setting.items())


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_the_same_seed_gives_the_same_settings_in_the_same_order(name: str) -> None:
    random.seed(1)
    one = drive(STRATEGIES[name](SPACE, first=FIRST, trials=10, seed=7), 10)
    random.seed(2)
    assert one == drive(STRATEGIES[name](SPACE, first=FIRST, trials=10, seed=7), 10)


@pytest.mark.parametrize("name", SEARCHING)
@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_every_loss_can_be_searched_past_the_random_start(name: str, loss: str) -> None:
    space, first = of(loss)
    strategy = STRATEGIES[name](space, first=first, trials=6, seed=0)
    for i in range(min(8, STRATEGIES[name].trials(space, first=first, budget=8))):
        setting = strategy.suggest(f"t{i}")
        assert setting is not None
        assert setting.keys() == space.keys()
        assert all(setting[key] in param.search for key, param in space.items())
        strategy.complete(f"t{i}", i / 10)


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_a_failed_trial_is_no_obstacle(name: str) -> None:
    strategy = STRATEGIES[name](SPACE, first=FIRST, trials=8, seed=0)
    strategy.suggest("t0")
    strategy.complete("t0", None)
    setting = strategy.suggest("t1")
    assert setting is not None
    assert setting.keys() == SPACE.keys()


def test_the_budget_is_the_studys_or_the_strategys_own() -> None:
    sizes = {
        name: strategy.trials(SPACE, first=FIRST, budget=8) for name, strategy in STRATEGIES.items()
    }
    assert sizes == {"hyperopt": 8, "random": 8, "grid": 5 * 5 + 1, "coordinate": 5 + 5, "fixed": 0}


@pytest.mark.parametrize("name", ["grid", "coordinate"])
@pytest.mark.parametrize(
    "first",
    [FIRST, {"loss.margin": 0.5, "loss.scale": 10.0}, {"loss.margin": 0.3, "loss.scale": 10.0}],
)
def test_it_has_as_many_settings_as_it_says_and_then_no_more(name: str, first: Setting) -> None:
    strategy = STRATEGIES[name](SPACE, first=first, trials=1, seed=0)
    assert len(drive(strategy, STRATEGIES[name].trials(SPACE, first=first, budget=1))) > 5
    assert strategy.suggest("one more") is None


def test_a_search_of_eight_is_not_purely_random() -> None:
    """HyperOpt's own random start of 20 would make it so."""
    one, other = (STRATEGIES["hyperopt"](SPACE, first=FIRST, trials=8, seed=3) for _ in range(2))
    learned = drive(one, 8)
    blind = [other.suggest(f"t{i}") for i in range(8)]
    assert learned[:2] == blind[:2]
    assert learned[4:] != blind[4:]


def test_hyperopt_comes_closer_than_random() -> None:
    def distance(settings: list[Setting]) -> float:
        return (
            sum(
                abs(s["loss.margin"] - 0.2) + abs(s["loss.scale"] - 10) / 100
                for s in settings[-10:]
            )
            / 10
        )

    pairs = [
        [
            distance(drive(STRATEGIES[name](SPACE, first=FIRST, trials=40, seed=seed), 40))
            for name in ("hyperopt", "random")
        ]
        for seed in range(3)
    ]
    assert sum(tpe for tpe, _ in pairs) < 0.7 * sum(blind for _, blind in pairs)


def test_hyperopt_leaves_a_region_whose_trials_get_lost() -> None:
    """Scores rise towards scale 50, and beyond it trials diverge or run out of memory: the worst
    score tells HyperOpt, none would not.
    """

    def lost(worst: float | None) -> float:
        strategy, found = STRATEGIES["hyperopt"](SPACE, first=FIRST, trials=40, seed=0), []
        for i in range(40):
            setting = strategy.suggest(f"t{i}")
            assert setting is not None
            found.append(setting["loss.scale"] > 50)
            strategy.complete(f"t{i}", worst if found[-1] else setting["loss.scale"] / 100)
        return fmean(found[-20:])

    assert lost(WORST) < 0.5
    assert lost(None) > 0.8


@pytest.mark.parametrize(
    "first",
    [FIRST, {"loss.margin": 0.5, "loss.scale": 10.0}, {"loss.margin": 0.0, "loss.scale": 1.0}],
)
def test_a_grid_holds_every_combination_once(first: Setting) -> None:
    found = drive(
        STRATEGIES["grid"](SPACE, first=first, trials=1, seed=0),
        STRATEGIES["grid"].trials(SPACE, first=first, budget=1),
    )
    pairs = [(setting["loss.margin"], setting["loss.scale"]) for setting in found]
    every = product((0, 0.25, 0.5, 0.75, 1), (1, 3.16228, 10, 31.6228, 100))
    assert len(set(pairs)) == len(pairs)
    assert set(pairs) == {*every, (first["loss.margin"], first["loss.scale"])}


def test_a_source_has_a_grid_or_a_range_has_a_few_levels_and_a_choice_all_its_options() -> None:
    unit = Range(0, 1)
    assert Param(paper=0, search=unit, domain=unit, grid=Grid(0, 1, 0.5)).levels() == (0, 0.5, 1)
    assert TRAINING["learning_rate"].levels() == (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
    assert TRAINING["lr_step"].levels() == (2, 4, 9, 19, 40)
    small = Range(1, 3, integer=True)
    assert Param(paper=1, search=small, domain=small).levels() == (1, 2, 3)
    options = Choice(("cosine", "euclidean"))
    assert Param(paper="cosine", search=options, domain=options).levels() == ("cosine", "euclidean")


def test_the_sweep_of_multi_similarity_has_the_122_trials_of_the_thesis() -> None:
    """Table 15, from its own numbers: a closed range has one value more than steps, an open one as
    many.
    """
    with (ROOT / "analysis" / "published" / "thesis_search.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["loss"] == "multi_similarity"]
    steps = [round((float(row["high"]) - float(row["low"])) / float(row["step"])) for row in rows]
    printed = sum(
        count + (row["low_open"] == "false") for count, row in zip(steps, rows, strict=True)
    )
    space, first = of("multi_similarity")
    assert STRATEGIES["coordinate"].trials(space, first=first, budget=8) == printed == 122
    assert [key.removeprefix("loss.") for key in space] == [row["hyperparameter"] for row in rows]


def test_the_sweep_equals_one_written_as_plain_loops() -> None:
    """The thesis tries every value of one parameter, keeps the best, and goes on to the next."""
    space, first = of("multi_similarity")
    optimum = {"loss.margin": 0.8, "loss.alpha": 18, "loss.beta": 76, "loss.epsilon": 0.4}

    def near(setting: Setting) -> float:
        return -sum(
            abs(math.log1p(setting[key]) - math.log1p(value)) for key, value in optimum.items()
        )

    expected, best = [first], first
    for number, (key, param) in enumerate(space.items()):
        assert param.grid is not None
        sweep = [{**best, key: value} for value in param.grid.values()]
        expected += [setting for setting in sweep if number or setting != first]
        best = max([best, *sweep], key=near)
    strategy, found = STRATEGIES["coordinate"](space, first=first, trials=8, seed=0), []
    for i in range(122):
        setting = strategy.suggest(str(i))
        assert setting is not None
        strategy.complete(str(i), near(setting))
        found.append(setting)
    assert found == expected
    assert best == optimum


def test_a_sweep_waits_for_all_its_trials_before_it_goes_to_the_next_parameter() -> None:
    strategy = STRATEGIES["coordinate"](SPACE, first=FIRST, trials=8, seed=0)
    sweep = [strategy.suggest(f"t{i}") for i in range(5)]
    assert [setting["loss.margin"] for setting in sweep if setting] == [0.5, 0, 0.25, 0.75, 1]
    for i in (4, 0, 1, 3):
        assert strategy.suggest("early") is None
        strategy.complete(f"t{i}", 0.5)
    assert strategy.suggest("early") is None
    strategy.complete("t2", 0.9)
    settings = [strategy.suggest(f"u{i}") for i in range(5)]
    assert [setting["loss.margin"] for setting in settings if setting] == [0.25] * 5
    assert strategy.suggest("early") is None


def test_of_equals_the_earlier_value_is_kept_and_a_failed_trial_never() -> None:
    strategy = STRATEGIES["coordinate"](SPACE, first=FIRST, trials=8, seed=0)
    for i in range(5):
        strategy.suggest(f"t{i}")
    for i, result in ((4, 0.7), (3, None), (2, 0.7), (1, 0.1), (0, 0.2)):
        strategy.complete(f"t{i}", result)
    setting = strategy.suggest("next")
    assert setting is not None
    assert setting["loss.margin"] == 0.25
