"""Numbers of a closed set carry their mark into every table, format, figure and sentence."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from itertools import product

import pytest

from analysis.figures.catalogue import draw
from analysis.figures.from_study import FigureData
from analysis.ranking.decomposition import plain
from analysis.ranking.summary import summarise
from analysis.record.frames import StudyRows
from analysis.tables.catalogue import TABLES, Study, make_table
from analysis.tables.compare import compare
from analysis.tables.ranking import compact_ranking
from analysis.tables.writers import FORMATS, as_text
from tests.support.synthetic_study import HONEST, RATIO, SEEDS, SyntheticTrial, final, rows_of
from trainables.contract import CLOSED

MARKS = {"text": "‡", "csv": "closed_set", "markdown": "‡", "latex": r"$^\ddagger$", "html": "‡"}


def closed(rows: StudyRows) -> StudyRows:
    """Return the study as if its final trials had been of a closed set."""
    queries = rows.queries[rows.queries["rule"].isin([HONEST, "untrained"])]
    trials = rows.trials.assign(
        protocol="closed_set", rule=rows.trials["rule"].replace(HONEST, CLOSED)
    )
    return replace(
        rows, trials=trials, queries=queries.assign(rule=queries["rule"].replace(HONEST, CLOSED))
    )


def disjoint() -> StudyRows:
    made = [
        final(loss, RATIO, "final", seed, more=more, tuned=False)
        for (loss, more), seed in product((("triplet", 0), ("contrastive", 1)), SEEDS)
    ]
    baseline = {("0", "untrained"): [1] * 6}
    return rows_of([*made, SyntheticTrial("untrained", "none", "final", 1, baseline, tuned=False)])


@pytest.fixture(scope="module")
def study() -> Study:
    return Study(closed(disjoint()))


@pytest.mark.parametrize("name", sorted(TABLES))
@pytest.mark.parametrize("form", sorted(FORMATS))
def test_every_number_of_a_closed_set_is_marked_in_every_format(
    study: Study, name: str, form: str
) -> None:
    made = make_table(name, study)
    assert all(number.closed for number in made.measurements())
    if not list(made.measurements()):
        return
    text = FORMATS[form](made)
    if form == "json":
        numbers = [
            part for row in json.loads(text)["rows"] for part in row.values() if type(part) is dict
        ]
        assert numbers
        assert all(part["closed"] for part in numbers)
    else:
        assert MARKS[form] in text
    if form == "csv":
        assert {row["closed_set"] for row in csv.DictReader(io.StringIO(text))} == {"True"}


def test_the_ranking_of_a_closed_set_claims_no_validation(study: Study) -> None:
    (ranking,) = study.rankings
    text = as_text(make_table("ranking", study)) + as_text(compact_ranking(ranking))
    assert "closed set‡" in text
    assert "default" not in text
    assert "selected-on-validation" not in text
    assert [row.loss for row in ranking.rows] == ["contrastive", "triplet"]
    sentences = " ".join(summarise(ranking))
    assert "In a closed set" in sentences
    assert "held-out" not in sentences
    assert "‡" in sentences
    for row in plain(ranking)["rows"]:
        assert row["validation"]["recall_at_1"]["closed"]


@pytest.mark.parametrize("name", ["differences", "recall_by_loss", "training_loss"])
def test_figures_of_a_closed_set_say_so(study: Study, name: str) -> None:
    pictures = draw(name, FigureData(study))
    assert pictures
    for picture in pictures:
        assert "‡ closed set: train and test images share their classes" in picture.caption
        assert "‡ closed set" in [text.get_text() for text in picture.drawing.figure.texts]


def test_a_closed_set_is_compared_with_no_class_disjoint_study(study: Study) -> None:
    with pytest.raises(ValueError, match="compare with no class-disjoint number"):
        compare(study.rows, disjoint())
    assert all(number.closed for number in compare(study.rows, study.rows).measurements())


def test_class_disjoint_numbers_have_no_mark_of_a_closed_set() -> None:
    study = Study(disjoint())
    for name in TABLES:
        made = make_table(name, study)
        assert not any(number.closed for number in made.measurements())
        assert "‡" not in as_text(made)
