"""One searcher for all cells: the order of trials, and what is chosen."""

from __future__ import annotations

import pickle
import pickletools
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from ray.tune.search import Searcher

from analysis.record.events import AnyEvent, TrialEnded, TrialStarted, decode, encode
from analysis.record.trial_id import TrialId
from study.config.plan import expand
from study.config.study_config import StudyConfig
from study.driver.resume import complete
from study.estimate.counts import count_cells
from study.search.cell_search import TrialAssignment
from study.search.searcher import StudySearcher
from tests.conftest import MakeConfig
from tests.support.events import trial_ended, trial_started
from trainables.contract import Cell, TrialSpec
from trainables.outputs.checkpoints import Saving

Suggestion = dict[str, Any]
Score = Callable[[TrialSpec], float]


def serve(
    searcher: StudySearcher, *, slots: int = 1, score: Score = lambda spec: 0.5
) -> list[Suggestion]:
    """Play Tune: keep the slots full, finish the oldest first."""
    running: list[tuple[str, Suggestion]] = []
    order: list[Suggestion] = []
    for number in range(10_000):
        while len(running) < slots:
            suggested = searcher.suggest(f"t{number}-{len(order)}")
            assert suggested != Searcher.FINISHED or not running, "Tune would not ask again"
            if not isinstance(suggested, dict):
                break
            running.append((f"t{number}-{len(order)}", suggested))
            order.append(suggested)
        if not running:
            assert searcher.suggest("last") == Searcher.FINISHED
            return order
        trial_id, suggested = running.pop(0)
        searcher.on_trial_complete(
            trial_id, {"score": score(suggested["spec"]), "done": True, "chosen_epoch": 1.5}
        )
    raise AssertionError("the searcher never finishes")


def of(suggested: Suggestion) -> TrialId:
    return TrialId.parse(suggested["trial"])


def names(order: list[Suggestion], loss: str, protocol: str) -> list[str]:
    """Return the names of the trials of one loss and protocol."""
    return [
        of(each).name
        for each in order
        if (of(each).cell.loss, of(each).cell.protocol) == (loss, protocol)
    ]


def of_phase(order: list[Suggestion], phase: str) -> list[Suggestion]:
    return [each for each in order if of(each).phase == phase]


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_every_cell_gets_its_own_budget(config: MakeConfig, slots: int) -> None:
    study = config(search_trials=4, reproductions=3)
    order = serve(StudySearcher(expand(study)), slots=slots)
    for loss in study.losses:
        assert sorted(names(order, loss, "fixed_validation")) == sorted(
            [f"search-{i}" for i in range(4)] + [f"final-{i}" for i in (1, 2, 3)]
        )
        assert sorted(names(order, loss, "default")) == ["final-1", "final-2", "final-3"]
    assert len(order) == 4 * (4 + 3 + 3) + 4


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_a_cell_is_searched_before_its_final_trials(config: MakeConfig, slots: int) -> None:
    order = serve(StudySearcher(expand(config(search_trials=4))), slots=slots)
    for loss in config().losses:
        found = names(order, loss, "fixed_validation")
        assert [name.startswith("search") for name in found] == sorted(
            [name.startswith("search") for name in found], reverse=True
        )


def test_the_first_trial_of_every_search_is_the_published_setting(config: MakeConfig) -> None:
    study = config()
    plan = expand(study)
    first = [each for each in serve(StudySearcher(plan), slots=2) if of(each).name == "search-0"]
    assert len(first) == len(study.losses)
    for each in first:
        assert of(each).is_published_setting
        assert each["spec"].setting == plan.published(each["spec"].cell.loss)


def test_cells_take_turns_so_that_each_searcher_learns_before_it_is_asked_again(
    config: MakeConfig,
) -> None:
    order = serve(StudySearcher(expand(config(search_trials=3))), slots=2)
    searched = [of(each).cell for each in of_phase(order, "search")]
    assert all(len(set(searched[i : i + 4])) == 4 for i in range(0, len(searched), 4))


def test_no_search_trial_carries_a_test_class(config: MakeConfig) -> None:
    for each in serve(StudySearcher(expand(config()))):
        assert bool(each["spec"].splits[0].test) == of(each).name.startswith("final")
        assert each["spec"].phase == of(each).phase


def test_final_trials_use_the_best_setting(config: MakeConfig) -> None:
    study = config(losses=["contrastive"], search_trials=6, strategy="random")
    plan = expand(study)

    def score(spec: TrialSpec) -> float:
        return round(1 - abs(float(spec.setting.get("loss.margin", 0)) - 0.7), 6)

    order = serve(StudySearcher(plan), score=score)
    tried = [each["spec"].setting for each in of_phase(order, "search")]
    best = min(tried, key=lambda setting: abs(setting["loss.margin"] - 0.7))
    finals = {
        protocol: [
            each["spec"].setting
            for each in of_phase(order, "final")
            if of(each).cell.protocol == protocol
        ]
        for protocol in ("fixed_validation", "default")
    }
    assert finals["fixed_validation"] == [best] * study.reproductions
    assert finals["default"] == [plan.published("contrastive")] * study.reproductions


def test_of_equally_good_settings_the_earlier_trial_wins_even_if_it_ends_later(
    config: MakeConfig,
) -> None:
    study = config(
        losses=["contrastive"], protocols=["fixed_validation"], search_trials=3, strategy="random"
    )
    searcher = StudySearcher(expand(study))
    suggested = [searcher.suggest(f"t{i}") for i in range(3)]
    settings = [each["spec"].setting for each in suggested if isinstance(each, dict)]
    for trial, score in (("t2", 0.5), ("t1", 0.5), ("t0", 0.4)):
        searcher.on_trial_complete(trial, {"score": score, "done": True})
    final = searcher.suggest("final")
    assert isinstance(final, dict)
    assert final["spec"].setting == settings[1]


def test_no_final_trial_repeats_a_search_trial_seed_and_all(config: MakeConfig) -> None:
    order = serve(StudySearcher(expand(config())))
    searched = {each["spec"].seed for each in of_phase(order, "search")}
    assert not searched & {each["spec"].seed for each in of_phase(order, "final")}


def test_a_cell_whose_search_failed_altogether_falls_back_to_the_published_setting(
    config: MakeConfig,
) -> None:
    study = config(losses=["triplet"], protocols=["fixed_validation"], baselines=False)
    plan = expand(study)
    searcher = StudySearcher(plan)
    for i in range(study.search_trials):
        assert isinstance(searcher.suggest(f"t{i}"), dict)
        searcher.on_trial_complete(f"t{i}", error=True)
    final = searcher.suggest("final")
    assert isinstance(final, dict)
    assert final["spec"].setting == plan.published("triplet")
    assert not final["spec"].tuned  # nothing was chosen


def test_a_cell_is_not_tuned_until_one_of_its_search_trials_has_a_score(
    config: MakeConfig,
) -> None:
    about = {
        "losses": ["contrastive"],
        "protocols": ["fixed_validation"],
        "baselines": False,
        "strategy": "random",
        "search_trials": 3,
    }
    study = config(**about, reproductions=1)
    plan = expand(study)
    searcher = StudySearcher(plan)
    for i in range(3):
        assert isinstance(searcher.suggest(f"t{i}"), dict)
        searcher.on_trial_complete(f"t{i}", {"score": 0.0, "done": True}, error=i == 0)
    final = searcher.suggest("final")
    assert isinstance(final, dict)
    assert final["spec"].setting == plan.published("contrastive")
    assert not final["spec"].tuned
    searcher.on_trial_complete("final", {"score": 0.3, "done": True, "chosen_epoch": 1})
    searcher.grow(expand(config(**about | {"search_trials": 4}, reproductions=1)))
    rest = serve(searcher, score=lambda spec: 0.4)
    assert [of(each).name for each in rest] == ["search-3", "final-1-round2"]
    assert rest[1]["spec"].tuned
    assert rest[1]["spec"].setting == rest[0]["spec"].setting


def test_the_published_setting_is_refitted_beside_the_chosen_one(config: MakeConfig) -> None:
    study = config(
        losses=["contrastive"],
        protocols=["fixed_validation"],
        baselines=False,
        refit=True,
        published_too=True,
        search_trials=3,
    )
    plan = expand(study)
    order = serve(StudySearcher(plan), score=lambda spec: float(spec.setting["loss.margin"]))
    finals = {of(each).name: each["spec"] for each in of_phase(order, "final")}
    assert sorted(finals) == sorted(
        f"{kind}-{seed}"
        for kind in ("final", "published", "refit", "published_refit")
        for seed in (1, 2)
    )
    assert len(finals) == plan.trials(plan.cells[0])[1] == count_cells(plan)[0].final_trials
    train = set(plan.splits("sketches", "default")[0].train)
    for name, spec in finals.items():
        assert (spec.rule == "refit") == ("refit" in name)
        assert spec.tuned == (not name.startswith("published"))
        assert (spec.setting == plan.published("contrastive")) == name.startswith("published")
        assert (set(spec.splits[0].train) == train) == ("refit" in name)


def margin_score(spec: TrialSpec) -> float:
    return 1 / (1 + float(spec.setting.get("loss.margin", 2.0)))


def started(assignment: TrialAssignment) -> TrialStarted:
    """Return the event that the driver notes of a trial."""
    spec = assignment.spec
    return trial_started(
        assignment.trial,
        seed=spec.seed,
        setting=dict(spec.setting),
        tuned=spec.tuned,
        epochs=spec.training.epochs,
        rule=spec.rule,
        extended=assignment.extended,
    )


def play(study: StudyConfig, *, events: int) -> tuple[list[Suggestion], list[AnyEvent]]:
    """Play a whole study. Return what was handed out, and the first events of its record."""
    past: list[AnyEvent] = []
    searcher = StudySearcher(expand(study))
    searcher.serve(assigned=lambda assignment: past.append(started(assignment)))
    real = searcher.complete

    def note_and_complete(
        trial: TrialId, *, score: float | None, chosen_epoch: float | None = None
    ) -> None:
        past.append(trial_ended(trial, score=score, chosen_epoch=chosen_epoch))
        real(trial, score=score, chosen_epoch=chosen_epoch)

    searcher.complete = note_and_complete  # type: ignore[method-assign]
    order = serve(searcher, score=margin_score)
    return order, [decode(encode(event)) for event in past[:events]]


@pytest.mark.parametrize("strategy", ["hyperopt", "random", "coordinate", "grid"])
@pytest.mark.parametrize("cut", [1, 4, 7, 12, 19])
def test_a_searcher_that_replays_a_record_goes_on_as_if_nothing_had_happened(
    config: MakeConfig, strategy: str, cut: int
) -> None:
    study = config(losses=["margin", "contrastive"], search_trials=6, strategy=strategy)
    order, past = play(study, events=cut)
    again = StudySearcher(expand(study))
    ended = 0
    for event in past:
        if isinstance(event, TrialStarted):
            again.replay(event)
        elif isinstance(event, TrialEnded):
            complete(again, TrialId.parse(event.trial), event)
            ended += 1
    for trial in list(again.running):
        again.take_up(trial)
    assert serve(again, score=margin_score) == order[ended:]


@pytest.mark.parametrize(
    "change",
    [
        {"setting": {"loss.margin": 0.123}},
        {"trial": str(TrialId(Cell("sketches", "tiny", 16, "margin", "default"), "final", 1))},
        {"seed": 7},
        {"tuned": True},
        {"epochs": 1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_record_that_other_code_wrote_is_refused(
    config: MakeConfig, change: dict[str, Any]
) -> None:
    study = config(losses=["margin"], search_trials=3)
    _, (event,) = play(study, events=1)
    assert isinstance(event, TrialStarted)
    if "setting" in change:
        change = {"setting": event.setting | change["setting"]}
    with pytest.raises(ValueError, match="must be resumed with the code that began it"):
        StudySearcher(expand(study)).replay(msgspec.structs.replace(event, **change))


def test_an_interrupted_trial_is_handed_out_again_with_its_checkpoint_and_is_no_new_one(
    config: MakeConfig,
) -> None:
    study = config(
        losses=["margin"], protocols=["fixed_validation"], baselines=False, search_trials=3
    )
    order, past = play(study, events=1)
    new: list[TrialAssignment] = []
    again = StudySearcher(expand(study))
    saving = Saving("folder", 60.0, ("folder/saved_000001",), epoch=1)
    again.serve(slots=lambda: 1, assigned=new.append, saving={of(order[0]): saving}.get)
    for event in past:
        assert isinstance(event, TrialStarted)
        again.replay(event)
    again.take_up(of(order[0]))
    assert again.load() == (0, 3)
    assert again.suggest("t0") == {**order[0], "saving": saving}
    assert not new
    assert again.load() == (1, 2)
    assert again.suggest("t1") is None  # its slot is taken


def test_a_trial_that_is_replayed_and_its_refit_stay_marked_as_the_record_has_them(
    config: MakeConfig,
) -> None:
    study = config(
        losses=["margin"],
        protocols=["fixed_validation"],
        baselines=False,
        refit=True,
        published_too=False,
        search_trials=1,
        reproductions=1,
    )
    _, past = play(study, events=3)
    again = StudySearcher(expand(study))
    for event in past:
        if isinstance(event, TrialStarted):
            again.replay(msgspec.structs.replace(event, extended=True))
        elif isinstance(event, TrialEnded):
            complete(again, TrialId.parse(event.trial), event)
    (final,) = again.running.values()
    assert (final.trial.name, final.extended) == ("final-1", True)
    again.complete(final.trial, score=0.5, chosen_epoch=1.5)
    new: list[TrialAssignment] = []
    again.serve(assigned=new.append)
    assert isinstance(again.suggest("refit"), dict)
    assert [(each.trial.name, each.extended) for each in new] == [("refit-1", True)]


def test_a_trial_that_was_cut_off_has_not_ended(config: MakeConfig) -> None:
    searcher = StudySearcher(expand(config(losses=["margin"], protocols=["fixed_validation"])))
    assert isinstance(searcher.suggest("t"), dict)
    searcher.on_trial_complete("t", {"score": 0.4, "done": False})
    assert [str(trial) for trial in searcher.running] == [
        "sketches/tiny-16/margin/fixed_validation/search-0"
    ]
    assert not searcher.over


def test_what_could_run_is_known_before_it_is_drawn(config: MakeConfig) -> None:
    study = config(
        losses=["triplet"],
        protocols=["fixed_validation"],
        baselines=False,
        search_trials=3,
        reproductions=2,
    )
    plan = expand(study)
    searcher = StudySearcher(plan)
    seen = []
    for number in range(3):
        seen.append(searcher.load())
        searcher.suggest(f"t{number}")
    assert seen == [(0, 3), (1, 2), (2, 1)]
    assert searcher.load() == (3, 0)  # final trials wait for the search
    for number in range(3):
        searcher.on_trial_complete(f"t{number}", {"score": 0.5, "done": True})
    assert searcher.load() == (0, sum(plan.trials(plan.cells[0])) - 3)
    searcher.serve(halts=lambda: True)
    assert searcher.load() == (0, 0)


def test_nothing_new_is_handed_out_once_a_study_is_being_stopped(config: MakeConfig) -> None:
    searcher = StudySearcher(expand(config()))
    assert isinstance(searcher.suggest("t"), dict)
    searcher.serve(halts=lambda: True)
    assert searcher.suggest("u") == Searcher.FINISHED
    searcher.on_trial_complete("t", {"score": 0.4, "done": True})
    assert not searcher.running


def grown(
    config: MakeConfig, score: Score, *, slots: int = 1, **more: int
) -> tuple[list[Suggestion], list[Suggestion], StudySearcher]:
    """Play a study to its end, then let it grow.

    Return its first trials, those that were added, and its searcher.
    """
    begins = {
        "losses": ["contrastive"],
        "protocols": ["fixed_validation"],
        "strategy": "random",
        "search_trials": 2,
        "reproductions": 2,
    }
    assigned: list[TrialAssignment] = []
    searcher = StudySearcher(expand(config(**begins)))
    searcher.serve(assigned=assigned.append)
    first = serve(searcher, score=score)
    assert [each.trial for each in assigned] == [of(each) for each in first]
    assert not any(each.extended for each in assigned)
    searcher.grow(expand(config(**begins | more)))
    assigned.clear()
    added = serve(searcher, slots=slots, score=score)
    assert [each.trial for each in assigned] == [of(each) for each in added]
    assert all(each.extended for each in assigned)
    return first, added, searcher


def test_more_seeds_are_added_and_marked(config: MakeConfig) -> None:
    first, added, searcher = grown(config, lambda spec: 0.5, reproductions=4)
    # One of each seed is the untrained network's.
    wanted = ["final-3", "final-3", "final-4", "final-4"]
    assert sorted(of(each).name for each in added) == wanted
    assert {str(each["spec"].setting) for each in added if each["spec"].setting} == {
        str(first[0]["spec"].setting)
    }
    assert searcher.over


def test_a_search_that_grows_and_finds_nothing_better_keeps_its_final_trials(
    config: MakeConfig,
) -> None:
    _, added, _ = grown(config, lambda spec: 0.5, search_trials=5)
    assert [of(each).name for each in added] == ["search-2", "search-3", "search-4"]


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_a_search_that_grows_and_finds_better_makes_its_final_trials_again(
    config: MakeConfig, slots: int
) -> None:
    # The search, its final trials, the baselines; the search again.
    best = iter([0.1, 0.1, 0, 0, 0, 0, 0] + [0.9] * 3 + [0] * 10)
    _, added, searcher = grown(config, lambda spec: next(best), slots=slots, search_trials=5)
    assert [of(each).name for each in added] == [
        "search-2",
        "search-3",
        "search-4",
        "final-1-round2",
        "final-2-round2",
    ]
    assert added[3]["spec"].setting == added[0]["spec"].setting
    assert searcher.over


def test_final_trials_are_marked_whose_search_grew_after_another_cell_read_test(
    config: MakeConfig,
) -> None:
    begins = {
        "losses": ["contrastive", "triplet"],
        "strategy": "random",
        "search_trials": 2,
        "reproductions": 1,
        "baselines": False,
    }
    assigned: list[TrialAssignment] = []
    searcher = StudySearcher(expand(config(**begins)))
    searcher.serve(assigned=assigned.append)
    # The four search trials, and the final ones of contrastive.
    for name in [f"t{i}" for i in range(6)]:
        assert isinstance(searcher.suggest(name), dict)
        searcher.on_trial_complete(name, {"score": 0.5, "done": True, "chosen_epoch": 1.0})
    searcher.grow(expand(config(**begins | {"search_trials": 3})))
    serve(searcher)
    found = {str(each.trial).removeprefix("sketches/tiny-16/"): each.extended for each in assigned}
    assert not any(found[f"{loss}/default/final-1"] for loss in ("contrastive", "triplet"))
    assert not found["contrastive/fixed_validation/final-1"]
    assert found["triplet/fixed_validation/search-2"]
    assert found["triplet/fixed_validation/final-1"]


@pytest.mark.parametrize("slots", [1, 2, 5])
@pytest.mark.parametrize("strategy", ["grid", "coordinate"])
def test_a_strategy_with_a_size_of_its_own_is_served_to_its_end(
    config: MakeConfig, strategy: str, slots: int
) -> None:
    study = config(losses=["triplet", "margin"], strategy=strategy, search_trials=2)
    plan = expand(study)
    order = serve(
        StudySearcher(plan),
        slots=slots,
        score=lambda spec: float(spec.setting.get("loss.margin", 0.0)) / 10,
    )
    for cell in plan.cells:
        search, final = plan.trials(cell)
        assert len(names(order, cell.loss, cell.protocol)) == search + final
        assert search > 2 or cell.protocol == "default"


def test_a_cell_that_waits_is_not_asked_again_until_one_of_its_trials_ends_and_the_others_go_on(
    config: MakeConfig,
) -> None:
    study = config(
        losses=["triplet", "margin"],
        protocols=["fixed_validation"],
        strategy="coordinate",
        baselines=False,
    )
    searcher = StudySearcher(expand(study))
    margin = searcher.cells[Cell("sketches", "tiny", 16, "margin", "fixed_validation"), 1]
    asked: list[str] = []
    real = margin.strategy.suggest
    margin.strategy.suggest = lambda trial_id: asked.append(trial_id) or real(trial_id)  # type: ignore[method-assign, func-returns-value]
    # Five levels, and margin's published value, which is not among them.
    sweeps = {"margin": 6, "triplet": 5}
    suggested = [searcher.suggest(f"t{i}") for i in range(sum(sweeps.values()))]
    losses = [of(each).cell.loss for each in suggested if isinstance(each, dict)]
    assert {loss: losses.count(loss) for loss in sweeps} == sweeps
    assert len(asked) == 6
    # Both wait: one for its sweep, one for its search to end.
    assert [searcher.suggest(f"w{i}") for i in range(3)] == [None] * 3
    assert len(asked) == 7
    searcher.on_trial_complete(f"t{losses.index('margin')}", {"score": 0.3, "done": True})
    assert searcher.suggest("w3") is None
    assert len(asked) == 8
    for i, loss in enumerate(losses):
        if loss == "margin" and i != losses.index("margin"):
            searcher.on_trial_complete(f"t{i}", {"score": 0.1, "done": True})
    after = searcher.suggest("next")
    assert isinstance(after, dict)
    assert of(after).cell.loss == "margin"
    assert after["spec"].setting["loss.margin"] == margin.chosen["loss.margin"]


def test_what_a_worker_unpickles_needs_neither_analysis_nor_study(config: MakeConfig) -> None:
    """A file of one of these names beside a user's own loss must not break the workers."""
    suggested = StudySearcher(expand(config())).suggest("t0")
    sent = pickletools.genops(pickle.dumps(suggested))
    words = {word for _, word, _ in sent if isinstance(word, str)}
    assert any(word.startswith("trainables.") for word in words)
    assert not any(word.split(".")[0] in ("analysis", "study") for word in words)


def race_study(config: MakeConfig, **changes: Any) -> StudyConfig:
    usual = {"losses": ["margin"], "protocols": ["fixed_validation"], "baselines": False}
    return config(**usual | {"search_trials": 16, "epochs": 4} | changes)


@pytest.mark.parametrize("slots", [1, 3])
def test_finalists_are_tried_on_further_splits_and_the_best_mean_is_chosen(
    config: MakeConfig, slots: int
) -> None:
    """The search's best is lucky on its own split; the third best is better on the others."""
    plan = expand(race_study(config))
    own = plan.splits("sketches", "fixed_validation")[0].select
    order: list[float] = []

    def score(spec: TrialSpec) -> float:
        margin = float(spec.setting["loss.margin"])
        if margin not in order:
            order.append(margin)
        if spec.splits[0].select == own:
            return 0.5 + order.index(margin) / 100
        return {order[15]: 0.0, order[14]: 0.1, order[13]: 0.6}[margin]

    handed = serve(StudySearcher(plan), slots=slots, score=score)
    finalists = [each for each in handed if of(each).role == "finalist"]
    assert len(finalists) == 3 * 2
    assert [of(each).name for each in finalists] == [f"finalist-{i}" for i in range(6)]
    assert {each["spec"].setting["loss.margin"] for each in finalists} == set(order[13:16])
    selects = [each["spec"].splits[0].select for each in finalists]
    assert own not in selects
    assert len(set(selects)) == 2, "all finalists meet the same two further splits"
    assert not any(split.test for each in finalists for split in each["spec"].splits)
    finals = [each for each in handed if of(each).phase == "final"]
    assert {each["spec"].setting["loss.margin"] for each in finals} == {order[13]}
    assert [of(each).phase for each in handed] == ["search"] * 22 + ["final"] * 2
    assert sum(plan.trials(plan.cells[0])) == len(handed)


@pytest.mark.parametrize(
    "changes",
    [
        {"search_trials": 15},
        {"finalist_splits": 0},
        {"finalists": 1},
        {"protocols": ["k_fold:2"]},
        {"protocols": ["default"], "peek_search": True},
    ],
    ids=str,
)
def test_there_is_no_race_where_it_cannot_help(config: MakeConfig, changes: dict[str, Any]) -> None:
    plan = expand(race_study(config, **changes))
    assert plan.finalists(plan.cells[0]) == 0
    handed = serve(StudySearcher(plan))
    assert not any(of(each).role == "finalist" for each in handed)


def test_a_search_that_grows_races_only_those_that_did_not_race_before(
    config: MakeConfig,
) -> None:
    searcher = StudySearcher(expand(race_study(config)))
    rising: dict[float, float] = {}

    def score(spec: TrialSpec) -> float:
        margin = float(spec.setting["loss.margin"])
        return rising.setdefault(margin, 0.1 + len(rising) / 100)

    assigned: list[TrialAssignment] = []
    searcher.serve(assigned=assigned.append)
    serve(searcher, score=score)
    before = len(assigned)
    searcher.grow(expand(race_study(config, search_trials=18)))
    serve(searcher, score=score)
    added = [each for each in assigned[before:] if each.trial.role == "finalist"]
    assert [each.trial.number for each in added] == [6, 7, 8, 9], "two new settings, two splits"
    assert all(each.extended for each in added)
    assert not any(each.extended for each in assigned[:before])
