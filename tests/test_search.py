"""One searcher for all cells: the order of trials, and what is chosen."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ray.tune.search import Searcher

from study.config import StudyConfig
from study.planning import plan_cells
from study.search import StudySearcher
from tests.conftest import MakeConfig


def serve(searcher: StudySearcher, *, slots: int = 1, score: Any = lambda spec: 0.5) -> list[dict[str, Any]]:
    """Play Tune: keep the slots full, finish the oldest first."""
    running: list[tuple[str, dict[str, Any]]] = []
    order: list[dict[str, Any]] = []
    for number in range(10_000):
        while len(running) < slots:
            given = searcher.suggest(f"t{number}-{len(order)}")
            assert given != Searcher.FINISHED or not running, "Tune would not ask again"
            if not isinstance(given, dict):
                break
            running.append((f"t{number}-{len(order)}", given))
            order.append(given)
        if not running:
            assert searcher.suggest("last") == Searcher.FINISHED
            return order
        trial_id, given = running.pop(0)
        searcher.on_trial_complete(trial_id, {"score": score(given["spec"]), "done": True, "chosen_epoch": 1.5})
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
        searcher.on_trial_complete(trial, {"score": score, "done": True})
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
    assert not final["spec"]["tuned"]  # nothing was chosen


def test_a_cell_all_of_whose_search_trials_got_lost_or_failed_is_not_tuned_either_until_one_has_a_score(config: MakeConfig) -> None:
    about = {"losses": ["contrastive"], "protocols": ["fixed_validation"], "baselines": False, "strategy": "random", "search_trials": 3}
    study = config(**about, reproductions=1)
    searcher = StudySearcher(study)
    for i in range(3):
        assert isinstance(searcher.suggest(f"t{i}"), dict)
        searcher.on_trial_complete(f"t{i}", {"score": 0.0, "done": True}, error=i == 0)
    final = searcher.suggest("final")
    assert isinstance(final, dict)
    assert (final["spec"]["setting"], final["spec"]["tuned"]) == (study.published("contrastive"), False)
    searcher.on_trial_complete("final", {"score": 0.3, "done": True, "chosen_epoch": 1})
    searcher.grow(config(**about | {"search_trials": 4}, reproductions=1))
    rest = serve(searcher, score=lambda spec: 0.4)
    assert [each["trial"] for each in rest] == ["search-3", "final-1-round2"]
    assert rest[1]["spec"]["tuned"]
    assert rest[1]["spec"]["setting"] == rest[0]["spec"]["setting"]


def test_the_published_setting_is_refitted_beside_the_chosen_one(config: MakeConfig) -> None:
    study = config(losses=["contrastive"], protocols=["fixed_validation"], baselines=False, refit=True, published_too=True, search_trials=3)
    order = serve(StudySearcher(study), score=lambda spec: spec["setting"]["loss.margin"])
    finals = {given["trial"]: given["spec"] for given in order if not given["trial"].startswith("search")}
    assert sorted(finals) == sorted(f"{kind}-{seed}" for kind in ("final", "published", "refit", "published_refit") for seed in (1, 2))
    assert len(finals) == study.trials(study.cells()[0])[1] == plan_cells(study)[0].final_trials
    train = set(study.splits("sketches", "default")[0].train)
    for name, spec in finals.items():
        assert (spec["rule"] == "refit") == ("refit" in name)
        assert spec["tuned"] == (not name.startswith("published"))
        assert (spec["setting"] == study.published("contrastive")) == name.startswith("published")
        assert (set(spec["splits"][0]["train"]) == train) == ("refit" in name)


def told(study: StudyConfig, *, slots: int, cut: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A study played whole: what was handed out, and the first events of its ledger, as many as were cut off."""
    events: list[dict[str, Any]] = []
    searcher = StudySearcher(study, note=lambda given: events.append({"event": "trial", **given.event()}))
    complete = searcher.complete

    def noted(key: str, result: Any) -> None:
        events.append({"event": "end", "key": key, "result": result})
        complete(key, result)

    searcher.complete = noted  # type: ignore[method-assign]
    order = serve(searcher, slots=slots, score=lambda spec: 1 / (1 + spec["setting"].get("loss.margin", 2.0)))
    return order, json.loads(json.dumps(events[:cut]))


@pytest.mark.parametrize("strategy", ["hyperopt", "random", "coordinate", "grid"])
@pytest.mark.parametrize("cut", [1, 4, 7, 12, 19])
def test_a_searcher_that_is_told_everything_again_goes_on_as_if_nothing_had_happened(config: MakeConfig, strategy: str, cut: int) -> None:
    study = config(losses=["margin", "contrastive"], search_trials=6, strategy=strategy)
    order, events = told(study, slots=1, cut=cut)
    again = StudySearcher(study)
    for event in events:
        if event["event"] == "trial":
            again.replay(event)
        else:
            again.complete(event["key"], event["result"])
    again.interrupted = list(again.running.values())
    rest = serve(again, score=lambda spec: 1 / (1 + spec["setting"].get("loss.margin", 2.0)))
    ended = sum(event["event"] == "end" for event in events)
    assert rest == order[ended:]


def test_a_ledger_that_other_code_wrote_is_refused(config: MakeConfig) -> None:
    study = config(losses=["margin"], search_trials=3)
    _, events = told(study, slots=1, cut=1)
    with pytest.raises(ValueError, match="goes on with the code that began it"):
        StudySearcher(study).replay({**events[0], "setting": {**events[0]["setting"], "loss.margin": 0.123}})


def test_a_trial_that_was_cut_off_has_not_ended(config: MakeConfig) -> None:
    searcher = StudySearcher(config(losses=["margin"], protocols=["fixed_validation"]))
    assert isinstance(searcher.suggest("t"), dict)
    searcher.on_trial_complete("t", {"score": 0.4, "done": False})
    assert list(searcher.running) == ["sketches/tiny-16/margin/fixed_validation/search-0"]
    assert not searcher.over


def test_what_could_run_is_known_before_it_is_drawn(config: MakeConfig) -> None:
    study = config(losses=["triplet"], protocols=["fixed_validation"], baselines=False, search_trials=3, reproductions=2)
    searcher = StudySearcher(study)
    seen = []
    for number in range(3):
        seen.append(searcher.load())
        searcher.suggest(f"t{number}")
    assert seen == [(0, 3), (1, 2), (2, 1)]
    assert searcher.load() == (3, 0)  # final trials wait for the search
    for number in range(3):
        searcher.on_trial_complete(f"t{number}", {"score": 0.5, "done": True})
    assert searcher.load() == (0, sum(study.trials(study.cells()[0])) - 3)
    searcher.stopping = True
    assert searcher.load() == (0, 0)


def test_nothing_new_is_handed_out_once_a_study_is_being_stopped(config: MakeConfig) -> None:
    searcher = StudySearcher(config())
    assert isinstance(searcher.suggest("t"), dict)
    searcher.stopping = True
    assert searcher.suggest("u") == Searcher.FINISHED
    searcher.on_trial_complete("t", {"score": 0.4, "done": True})
    assert not searcher.running


def grown(
    config: MakeConfig, score: Any, *, slots: int = 1, **more: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], StudySearcher]:
    """A study that is finished and then grows: its first trials, those that are added, and its searcher."""
    begins = {"losses": ["contrastive"], "protocols": ["fixed_validation"], "strategy": "random", "search_trials": 2, "reproductions": 2}
    given: list[Any] = []
    searcher = StudySearcher(config(**begins), note=given.append)
    first = serve(searcher, score=score)
    assert not any(each.extended for each in given)
    searcher.grow(config(**begins | more))
    given.clear()
    added = serve(searcher, slots=slots, score=score)
    assert all(each.extended for each in given)
    return first, added, searcher


def test_more_seeds_are_added_and_marked(config: MakeConfig) -> None:
    first, added, searcher = grown(config, lambda spec: 0.5, reproductions=4)
    assert sorted(each["trial"] for each in added) == ["final-3", "final-3", "final-4", "final-4"]  # and the untrained network's
    assert {str(each["spec"]["setting"]) for each in added if each["spec"]["setting"]} == {str(first[0]["spec"]["setting"])}
    assert searcher.over


def test_a_search_that_grows_and_finds_nothing_better_keeps_its_final_trials(config: MakeConfig) -> None:
    _, added, _ = grown(config, lambda spec: 0.5, search_trials=5)
    assert [each["trial"] for each in added] == ["search-2", "search-3", "search-4"]


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_a_search_that_grows_and_finds_better_makes_its_final_trials_again(config: MakeConfig, slots: int) -> None:
    best = iter([0.1, 0.1, 0, 0, 0, 0, 0] + [0.9] * 3 + [0] * 10)  # search, final, the baselines; search again
    _, added, searcher = grown(config, lambda spec: next(best), slots=slots, search_trials=5)
    assert [each["trial"] for each in added] == ["search-2", "search-3", "search-4", "final-1-round2", "final-2-round2"]
    assert added[3]["spec"]["setting"] == added[0]["spec"]["setting"]
    assert searcher.over


def test_final_trials_are_marked_whose_search_grew_after_another_cell_read_test(config: MakeConfig) -> None:
    begins = {"losses": ["contrastive", "triplet"], "strategy": "random", "search_trials": 2, "reproductions": 1, "baselines": False}
    given: list[Any] = []
    searcher = StudySearcher(config(**begins), note=given.append)
    names = [f"t{i}" for i in range(6)]  # the four search trials, and the final ones of contrastive
    for name in names:
        assert isinstance(searcher.suggest(name), dict)
        searcher.on_trial_complete(name, {"score": 0.5, "done": True, "chosen_epoch": 1.0})
    searcher.grow(config(**begins | {"search_trials": 3}))
    serve(searcher)
    found = {each.key.removeprefix("sketches/tiny-16/"): each.extended for each in given}
    assert not any(found[f"{loss}/default/final-1"] for loss in ("contrastive", "triplet"))
    assert not found["contrastive/fixed_validation/final-1"]
    assert found["triplet/fixed_validation/search-2"]
    assert found["triplet/fixed_validation/final-1"]


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
    assert len(asked) == 7
    searcher.on_trial_complete(f"t{cells.index('margin')}", {"score": 0.3, "done": True})
    assert searcher.suggest("w3") is None
    assert len(asked) == 8
    for i, loss in enumerate(cells):
        if loss == "margin" and i != cells.index("margin"):
            searcher.on_trial_complete(f"t{i}", {"score": 0.1, "done": True})
    after = searcher.suggest("next")
    assert isinstance(after, dict)
    assert after["spec"]["cell"]["loss"] == "margin"
    assert after["spec"]["setting"]["loss.margin"] == margin.best[2]["loss.margin"]
