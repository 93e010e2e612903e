"""A chosen value at the end of its range is told, and no other."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from analysis.ranking.edges import Settings, edge_notes
from search_spaces import Value

CELL = "sketches/tiny-16/{loss}/fixed_validation"


def chosen(
    loss: str, setting: dict[str, Value], *, tried: Settings | None = None, seeds: int = 2
) -> list[str]:
    """tried: by the search; without it one that drew from the ranges."""
    cell = CELL.format(loss=loss)
    trial: dict[str, Any] = {
        "cell": cell,
        "loss": loss,
        "protocol": "fixed_validation",
        "replicate": 1,
        "setting": setting,
    }
    drawn = [
        setting,
        {
            name: value if isinstance(value, (bool, str)) else value * 0.987654 + 0.000123
            for name, value in setting.items()
        },
    ]
    return edge_notes(
        pd.DataFrame([trial] * seeds),
        {(cell, 1): drawn if tried is None else tried} if tried != [] else {},
    )


@pytest.mark.parametrize(
    ("loss", "value"),
    [
        ("contrastive", 0.0),
        ("contrastive", 0.009),
        ("lifted_structure", 0.995),
        ("lifted_structure", 1.0),
    ],
)
def test_a_value_within_a_hundredth_of_an_end_is_told_once_per_cell(
    loss: str, value: float
) -> None:
    (note,) = chosen(loss, {"margin": value})
    chose = f"margin of {loss} under fixed_validation was chosen as {value:.4g}"
    assert note == f"{chose}, at the edge of its range 0 to 1: the best may lie outside."


@pytest.mark.parametrize("value", [0.5, 0.02, 0.98])
def test_a_value_inside_is_not(value: float) -> None:
    assert chosen("contrastive", {"margin": value}) == []


@pytest.mark.parametrize(
    ("alpha", "told"), [(1.0, True), (1.04, True), (1.06, False), (94.0, False), (97.0, True)]
)
def test_log_ranges_are_measured_by_order_of_magnitude(alpha: float, told: bool) -> None:
    """A hundredth of 1 to 100 is a factor of 1.047."""
    assert (
        bool(
            chosen(
                "multi_similarity", {"margin": 0.5, "alpha": alpha, "beta": 50.0, "epsilon": 0.1}
            )
        )
        is told
    )


def test_the_published_value_is_called_so() -> None:
    (note,) = chosen("snr_contrastive", {"pos_margin": 0.0, "neg_margin": 1.0, "zero_mean": 0.1})
    assert "chosen as 0, its published value, at the edge of its range 0 to 1" in note


def test_where_the_domain_ends_too_nothing_better_lies_outside() -> None:
    (note,) = chosen(
        "multi_similarity", {"margin": 0.5, "alpha": 10.0, "beta": 50.0, "epsilon": 0.0}
    )
    assert note.endswith("the loss is not defined beyond.")


def test_what_was_searched_of_training_is_held_against_its_own_range() -> None:
    (note,) = chosen("contrastive", {"margin": 0.5, "training.learning_rate": 0.0099})
    assert note.startswith(
        "learning_rate of contrastive under fixed_validation was chosen as 0.0099, at the edge of "
        "its range 1e-06 to 0.01"
    )


def test_choices_have_no_edge_and_a_card_that_is_not_here_no_range() -> None:
    assert chosen("triplet_p_norm", {"margin": 1.0, "swap": True}) == []
    assert chosen("elsewhere:LOSS", {"margin": 0.0}) == []


def test_what_nobody_searched_was_not_chosen() -> None:
    assert chosen("contrastive", {"margin": 1.0}, tried=[]) == []


MULTI = {"margin": 0.5, "alpha": 2.0, "beta": 50.0, "epsilon": 0.1}


def swept(values: list[float], **others: float) -> list[dict[str, Value]]:
    return [{**MULTI, **others}, *({**MULTI, **others, "alpha": value} for value in values)]


def test_a_sweep_has_the_ends_of_what_it_tried() -> None:
    """The card's range goes from 1, the thesis's grid from 2."""
    (note,) = chosen("multi_similarity", MULTI, tried=swept([2.0, 18.0, 50.0, 100.0]))
    assert note.startswith(
        "alpha of multi_similarity under fixed_validation was chosen as 2, its published value, at "
        "the edge of its range 2 to 100"
    )
    assert note.endswith("the best may lie outside.")
    assert (
        chosen("multi_similarity", {**MULTI, "alpha": 18.0}, tried=swept([2.0, 18.0, 50.0, 100.0]))
        == []
    )
    (thinned,) = chosen(
        "multi_similarity", {**MULTI, "alpha": 50.0}, tried=swept([2.0, 18.0, 50.0])
    )
    assert "range 2 to 50" in thinned


def test_a_published_value_off_the_grid_was_tried_too() -> None:
    assert chosen("multi_similarity", MULTI, tried=swept([2.0, 18.0, 50.0], alpha=1.0)[1:]) != []
    assert (
        chosen(
            "multi_similarity", MULTI, tried=[{**MULTI, "alpha": 1.0}, *swept([2.0, 18.0, 50.0])]
        )
        == []
    )


def test_what_a_search_held_was_not_chosen() -> None:
    held = {**MULTI, "margin": 0.0}
    assert (
        chosen(
            "multi_similarity", {**held, "alpha": 18.0}, tried=swept([2.0, 18.0, 50.0], margin=0.0)
        )
        == []
    )


def test_with_several_searches_each_choice_is_told_and_how_many_lie_at_an_edge() -> None:
    cell, values = CELL.format(loss="contrastive"), (0.0, 0.4, 0.005)
    finals = [
        {"cell": cell, "loss": "contrastive", "protocol": "p", "setting": {"margin": value}}
        | {"replicate": replicate}
        for replicate, value in enumerate(values, start=1)
    ]
    tried = {(cell, each): [{"margin": 0.5}, {"margin": 0.123 * each}] for each in (1, 2, 3)}
    (note,) = edge_notes(pd.DataFrame(finals), tried)
    assert note == (
        "margin of contrastive under p was chosen as 0, 0.4, 0.005; in 2 of 3 searches that lies "
        "at the edge of its range 0 to 1: the best may lie outside."
    )
