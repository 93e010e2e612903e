"""One searcher for all cells: the order of trials, and what is chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ray.tune.search import Searcher

from study.config import StudyConfig
from study.search import StudySearcher
from tests.conftest import MakeConfig


def serve(searcher: StudySearcher, *, slots: int = 1, score: Any = lambda spec: 0.5) -> list[dict[str, Any]]:
    """Play Tune: keep the slots full, finish the oldest first."""
    running: list[tuple[str, dict[str, Any]]] = []
    order: list[dict[str, Any]] = []
    for number in range(10_000):
        while len(running) < slots:
            given = searcher.suggest(f"t{number}-{len(order)}")
            if given is None or given == Searcher.FINISHED:
                break
            assert isinstance(given, dict)
            running.append((f"t{number}-{len(order)}", given))
            order.append(given)
        if not running:
            assert searcher.suggest("last") == Searcher.FINISHED
            return order
        trial_id, given = running.pop(0)
        searcher.on_trial_complete(trial_id, {"score": score(given["spec"])})
    raise AssertionError("the searcher never finishes")


def phases(order: list[dict[str, Any]], loss: str, protocol: str) -> list[str]:
    return [given["trial"] for given in order if given["spec"]["cell"]["loss"] == loss and given["spec"]["cell"]["protocol"] == protocol]


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_every_cell_gets_its_own_budget(config: MakeConfig, slots: int) -> None:
    study = config(search_trials=4, reproductions=3)
    order = serve(StudySearcher(study), slots=slots)
    for loss in study.losses:
        assert sorted(phases(order, loss, "fixed_validation")) == sorted(
            [f"search-{i}" for i in range(4)] + [f"final-{i}" for i in (1, 2, 3)]
        )
        assert sorted(phases(order, loss, "default")) == ["final-1", "final-2", "final-3"]
    assert len(order) == 4 * (4 + 3 + 3) + 4


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_a_cell_is_searched_before_its_final_trials(config: MakeConfig, slots: int) -> None:
    order = serve(StudySearcher(config(search_trials=4)), slots=slots)
    for loss in config().losses:
        found = phases(order, loss, "fixed_validation")
        assert [name.startswith("search") for name in found] == sorted([name.startswith("search") for name in found], reverse=True)


def test_the_first_trial_of_every_search_is_the_published_setting(config: MakeConfig) -> None:
    study = config()
    for given in serve(StudySearcher(study), slots=2):
        if given["trial"] == "search-0":
            assert given["spec"]["setting"] == study.published(given["spec"]["cell"]["loss"])


def test_cells_take_turns_so_that_each_searcher_learns_before_it_is_asked_again(config: MakeConfig) -> None:
    order = serve(StudySearcher(config(search_trials=3)), slots=2)
    searched = [given["cell"] for given in order if given["trial"].startswith("search")]
    assert all(len(set(searched[i : i + 4])) == 4 for i in range(0, len(searched), 4))


def test_no_search_trial_carries_a_test_class(config: MakeConfig) -> None:
    for given in serve(StudySearcher(config())):
        assert bool(given["spec"]["splits"][0]["test"]) == given["trial"].startswith("final")


def test_final_trials_use_the_best_setting(config: MakeConfig) -> None:
    study = config(losses=["contrastive"], search_trials=6, strategy="random")
    score = lambda spec: round(1 - abs(spec["setting"].get("loss.margin", 0) - 0.7), 6)  # noqa: E731
    order = serve(StudySearcher(study), score=score)
    tried = [given["spec"]["setting"] for given in order if given["trial"].startswith("search")]
    best = min(tried, key=lambda setting: abs(setting["loss.margin"] - 0.7))
    chosen = [g["spec"]["setting"] for g in order if g["trial"].startswith("final") and g["spec"]["cell"]["protocol"] == "fixed_validation"]
    assert chosen == [best] * study.reproductions
    published = [g["spec"]["setting"] for g in order if g["trial"].startswith("final") and g["spec"]["cell"]["protocol"] == "default"]
    assert published == [study.published("contrastive")] * study.reproductions


def test_of_equally_good_settings_the_earlier_trial_wins_even_if_it_ends_later(config: MakeConfig) -> None:
    study = config(losses=["contrastive"], protocols=["fixed_validation"], search_trials=3, strategy="random")
    searcher = StudySearcher(study)
    settings = [searcher.suggest(f"t{i}")["spec"]["setting"] for i in range(3)]  # type: ignore[index]
    for trial, score in (("t2", 0.5), ("t1", 0.5), ("t0", 0.4)):
        searcher.on_trial_complete(trial, {"score": score})
    final = searcher.suggest("final")
    assert isinstance(final, dict)
    assert final["spec"]["setting"] == settings[1]


def test_no_final_trial_repeats_a_search_trial_seed_and_all(config: MakeConfig) -> None:
    order = serve(StudySearcher(config()))
    searched = {given["spec"]["seed"] for given in order if given["trial"].startswith("search")}
    assert not searched & {given["spec"]["seed"] for given in order if given["trial"].startswith("final")}


def test_a_cell_whose_search_failed_altogether_falls_back_to_the_published_setting(config: MakeConfig) -> None:
    study = config(losses=["triplet"], protocols=["fixed_validation"], baselines=False)
    searcher = StudySearcher(study)
    for i in range(study.search_trials):
        assert isinstance(searcher.suggest(f"t{i}"), dict)
        searcher.on_trial_complete(f"t{i}", error=True)
    final = searcher.suggest("final")
    assert isinstance(final, dict)
    assert final["spec"]["setting"] == study.published("triplet")


def test_a_saved_searcher_goes_on_where_it_was(config: MakeConfig, tmp_path: Path) -> None:
    def half(study: StudyConfig) -> StudySearcher:
        searcher = StudySearcher(study)
        for i in range(5):
            searcher.suggest(f"t{i}")
            searcher.on_trial_complete(f"t{i}", {"score": i / 10})
        return searcher

    study = config(search_trials=5)
    whole = half(study)
    whole.save(str(tmp_path / "searcher"))
    restored = StudySearcher(study)
    restored.restore(str(tmp_path / "searcher"))
    assert [given["spec"] for given in serve(restored)] == [given["spec"] for given in serve(whole)]


@pytest.mark.parametrize("slots", [1, 2, 5])
@pytest.mark.parametrize("strategy", ["grid", "coordinate"])
def test_a_strategy_with_a_size_of_its_own_is_served_to_its_end(config: MakeConfig, strategy: str, slots: int) -> None:
    study = config(losses=["triplet", "margin"], strategy=strategy, search_trials=2)
    order = serve(StudySearcher(study), slots=slots, score=lambda spec: spec["setting"].get("loss.margin", 0.0) / 10)
    for cell in study.cells():
        search, final = study.trials(cell)
        assert len(phases(order, cell.loss, cell.protocol)) == search + final
        assert search > 2 or cell.protocol == "default"


def test_a_cell_that_waits_is_not_asked_again_until_one_of_its_trials_ends_and_the_others_go_on(config: MakeConfig) -> None:
    study = config(losses=["triplet", "margin"], protocols=["fixed_validation"], strategy="coordinate", baselines=False)
    searcher = StudySearcher(study)
    margin = searcher.cells["sketches/tiny-16/margin/fixed_validation"]
    asked: list[str] = []
    real = margin.strategy.suggest
    margin.strategy.suggest = lambda trial_id: asked.append(trial_id) or real(trial_id)  # type: ignore[method-assign, func-returns-value]
    sweeps = {"margin": 6, "triplet": 5}  # five levels, and margin's published value, which is not among them
    given = [searcher.suggest(f"t{i}") for i in range(sum(sweeps.values()))]
    cells = [each["spec"]["cell"]["loss"] for each in given if isinstance(each, dict)]
    assert {loss: cells.count(loss) for loss in sweeps} == sweeps
    assert len(asked) == 6
    assert [searcher.suggest(f"w{i}") for i in range(3)] == [None] * 3  # both wait: one for its sweep, one for its search to end
    assert asked[6:] == ["w0"]
    searcher.on_trial_complete(f"t{cells.index('margin')}", {"score": 0.3})
    assert searcher.suggest("w3") is None
    assert asked[6:] == ["w0", "w3"]
    for i, loss in enumerate(cells):
        if loss == "margin" and i != cells.index("margin"):
            searcher.on_trial_complete(f"t{i}", {"score": 0.1})
    after = searcher.suggest("next")
    assert isinstance(after, dict)
    assert after["spec"]["cell"]["loss"] == "margin"
    assert after["spec"]["setting"]["loss.margin"] == margin.best[2]["loss.margin"]


def test_a_saved_sweep_goes_on_where_it_was(config: MakeConfig, tmp_path: Path) -> None:
    study = config(losses=["margin"], protocols=["fixed_validation"], strategy="coordinate")
    whole = StudySearcher(study)
    for i in range(6):
        whole.suggest(f"t{i}")
    assert isinstance(whole.suggest("baseline"), dict)  # the sweep waits
    for i in range(6):
        whole.on_trial_complete(f"t{i}", {"score": i / 10})
    whole.save(str(tmp_path / "searcher"))
    restored = StudySearcher(study)
    restored.restore(str(tmp_path / "searcher"))
    assert [given["spec"] for given in serve(restored)] == [given["spec"] for given in serve(whole)]
