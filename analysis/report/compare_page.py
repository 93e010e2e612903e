"""Write two studies as one page: what differs first, then their rankings side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from analysis.ranking.comparisons import title
from analysis.ranking.measurement import Measurement
from analysis.ranking.notes import listed
from analysis.ranking.ranking import Ranking, rankings
from analysis.ranking.readings import DEFAULT
from analysis.ranking.summary import summarise
from analysis.record.frames import StudyRows
from analysis.report.overview import RankingPicture, how_made, picture_of
from analysis.report.render import render
from analysis.statistics import leaves_out_zero
from analysis.tables.compare import compare
from analysis.tables.table import Table
from analysis.tables.writers import as_html

DIFFERENCE = "difference_recall_at_1"


@dataclass(frozen=True)
class Side:
    """Hold one study's ranking of a comparison: what it says, and its picture."""

    sentence: str
    picture: RankingPicture | None


def write_compare_page(one: StudyRows, other: StudyRows, path: Path) -> Path:
    """Write the page of two studies, and return its path."""
    made = compare(one, other)
    found = _by_title([rankings(rows) for rows in (one, other)])
    names = [each.name for each in (one, other)]
    if names[0] == names[1]:
        names = [f"{names[0]} (first)", f"{names[1]} (second)"]
    page = render(
        "compare.html.jinja",
        names=names,
        answer=[*_leaders(names, found), *_differences(made, names)],
        unequal=made.above,
        pairs=_pairs(found),
        made=[how_made(rows, _metric(rows)) for rows in (one, other)],
        table=as_html(replace(made, above=())),
    )
    path.write_text(page, encoding="utf-8")
    return path


def _metric(rows: StudyRows) -> str:
    """Return the metric that chose, as the study's trials record it."""
    specs = (spec.get("training", {}).get("select_metric") for spec in rows.specs.values())
    return next((metric for metric in specs if metric), "recall_at_1")


def _by_title(found: Sequence[Sequence[Ranking]]) -> list[dict[str, Ranking]]:
    """Return the rankings of each study by comparison; if each has one protocol, whichever."""
    one = all(len({ranking.protocol for ranking in each}) < 2 for each in found)
    return [
        {
            title(
                each.dataset, each.backbone, each.embedding_size, "" if one else each.protocol
            ): each
            for each in study
        }
        for study in found
    ]


def _pairs(by_title: Sequence[Mapping[str, Ranking]]) -> list[tuple[str, list[Side]]]:
    """Return by comparison the rankings of both studies."""
    found = []
    for name in dict.fromkeys(name for each in by_title for name in each):
        both = [each.get(name) for each in by_title]
        beside = [ranking for ranking in both if ranking]
        found.append((name, [_side(ranking, beside) for ranking in both]))
    return found


def _side(ranking: Ranking | None, beside: Sequence[Ranking]) -> Side:
    if ranking is None:
        return Side("This study did not compare losses here.", None)
    return Side(summarise(ranking)[0], picture_of(ranking, beside=beside))


def _leaders(names: Sequence[str], by_title: Sequence[Mapping[str, Ranking]]) -> Iterator[str]:
    """Yield by comparison which loss each study ranks first."""
    leaders = [{name: _leader(ranking) for name, ranking in each.items()} for each in by_title]
    shared = [name for name in leaders[0] if leaders[0][name] and leaders[1].get(name)]
    for name in shared:
        where = f"{name}: " if len(shared) > 1 else ""
        first, second = (each[name] for each in leaders)
        if first == second:
            yield f"{where}{names[0]} and {names[1]} both rank {first} first."
        else:
            yield f"{where}{names[0]} ranks {first} first, {names[1]} ranks {second} first."


def _leader(ranking: Ranking) -> str:
    return next((row.loss for row in ranking.rows if row.rank), "")


def _differences(made: Table, names: Sequence[str]) -> Iterator[str]:
    """Yield for which losses the two studies' own numbers differ, by what they can show."""
    gaps = {
        str(row["loss"]) if len(_places(made)) < 2 else f"{row['loss']} ({row['dataset']})": gap
        for row in made.rows
        if row["setup"] != DEFAULT and isinstance(gap := row[DIFFERENCE], Measurement)
    }
    if not gaps:
        yield "No loss has a number that ranks in both studies, so there is no difference to show."
        return
    moved = {loss: gap for loss, gap in gaps.items() if leaves_out_zero(gap.interval)}
    what = f"{names[1]} minus {names[0]}, Recall@1"
    if not moved:
        yield f"{what}: no difference is shown for any loss."
        return
    each = [f"{loss} ({_points(gap)})" for loss, gap in moved.items()]
    rest = len(gaps) - len(moved)
    others = f"; none is shown for {rest} other{'s' * (rest > 1)}" if rest else ""
    yield f"{what}: a difference is shown for {listed(each)}{others}."


def _places(made: Table) -> set[tuple[object, ...]]:
    return {(row["dataset"], row["backbone"], row["embedding_size"]) for row in made.rows}


def _points(gap: Measurement) -> str:
    low, high = (100 * end for end in gap.interval)
    return f"{100 * gap.value:+.1f}{gap.marks} [{low:+.1f}, {high:+.1f}]"
