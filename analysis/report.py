"""The report: one self-contained HTML page per study; CSV and Markdown of its ranking beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import jinja2
import pandas as pd
import yaml

from analysis import figures
from analysis.answer import answer
from analysis.decomposition import STEPS, Decomposition, decomposition
from analysis.exports import beside_frame, decomposition_frame, ranking_frame, ranking_markdown
from analysis.places import Place, places
from analysis.readings import audited
from analysis.tables import HONEST, METRICS, Ranking
from analysis.tracking import StudyRows, redact
from search_spaces import Value, text
from trainables.contract import PEEKING, PUBLISHED, Rule

OUTCOMES = ("finished", "stopped early", "diverged", "out of memory", "failed", "unfinished")


@dataclass(frozen=True)
class Searched:
    """What the search of one loss tried and chose. Scores are on the held-out classes, or starred."""

    loss: str
    parameters: list[tuple[str, str, str]]  # name, published, chosen
    published_score: str
    best_score: str
    outcomes: dict[str, int]
    kept: bool  # the chosen setting is the published one


@dataclass(frozen=True)
class Section:
    """One dataset, backbone, embedding size and honest protocol on the page."""

    title: str
    ranking: Ranking | None
    parts: Decomposition | None
    answer: list[str]
    unfinished: list[str]
    searched: list[Searched]
    differences: str
    curves: str
    search: str
    peeking_search: str
    default_in: str  # the section that has the default setup's curves and search, if it is another


def write_report(rows: StudyRows, found: Sequence[Ranking], *, folder: Path, config_yaml: str) -> Path:
    """Write report.html, ranking.md and the CSV files into the folder; the path of the page."""
    study, trials, curves = rows.name, rows.trials, rows.curves
    metric = (yaml.safe_load(config_yaml) or {}).get("select_metric", METRICS[0])
    sections = []
    first: dict[tuple[str, str, int], str] = {}  # the section in which the default setup's curves stand, which several are joined by
    for place in places(trials):
        title = first.setdefault((place.dataset, place.backbone, place.embedding_size), place.title)
        mine = (place.dataset, place.backbone, place.embedding_size, place.protocol)
        ranking = next((r for r in found if (r.dataset, r.backbone, r.embedding_size, r.protocol) == mine), None)
        sections.append(_section(place, trials, curves, ranking=ranking, metric=metric, default_in="" if title == place.title else title))
    page = _template().render(
        study=study,
        sections=sections,
        metrics={name: figures.metric_label(name) for name in METRICS},
        selected_by=figures.metric_label(metric),
        compute=_compute(trials, curves),
        when=_when(trials),
        origin={tag: sorted(set(trials[tag].dropna())) for tag in ("git", "versions") if tag in trials},
        outcomes=OUTCOMES,
        steps=STEPS,
        rules={"default": PEEKING, "validation": HONEST},
        readings=_marked(audited(folder, get_args(Rule))),
        # An address may carry a password, and a page is made to be passed on.
        config=redact(config_yaml),
    )
    (folder / "ranking.csv").write_text(ranking_frame(found).to_csv(index=False))
    (folder / "beside.csv").write_text(beside_frame(found).to_csv(index=False))
    _write_or_remove(folder / "decomposition.csv", decomposition_frame(found))
    (folder / "ranking.md").write_text(ranking_markdown(found))
    target = folder / "report.html"
    target.write_text(page, encoding="utf-8")
    return target


def _template() -> jinja2.Template:
    loader = jinja2.PackageLoader("analysis", "")
    pages = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return pages.get_template("report.html.jinja")


def _write_or_remove(path: Path, frame: pd.DataFrame) -> None:
    """No file says more than none with a header only."""
    path.unlink(missing_ok=True)
    if len(frame):
        path.write_text(frame.to_csv(index=False))


def _marked(counts: dict[str, int]) -> list[str]:
    return [f"{count:,} {rule}{'*' if rule == PEEKING else ''}" for rule, count in counts.items()]


def _section(place: Place, trials: pd.DataFrame, curves: pd.DataFrame, *, ranking: Ranking | None, metric: str, default_in: str) -> Section:
    trained = place.trained(trials)
    shown = trained[~trained["peeks"]] if default_in else trained
    searched = trained[trained["phase"] == "search"]
    mine = pd.concat([trained, place.untrained(trials)])
    stuck = mine[mine["status"] != "FINISHED"]
    return Section(
        title=place.title,
        ranking=ranking,
        parts=decomposition(ranking) if ranking else None,
        answer=answer(ranking, tuned=not searched["peeks"].all()),
        unfinished=[f"{row['loss']}, {row['protocol']}, {row['trial']}: {row['status'].lower()}" for _, row in stuck.iterrows()],
        searched=[found for _, cell in shown.groupby(["peeks", "loss"]) if (found := _searched(cell))],
        differences=figures.differences(ranking) if ranking else "",
        curves=figures.learning_curves(shown, curves, metric),
        search=figures.search(shown),
        peeking_search=figures.search(shown, peeks=True),
        default_in=default_in if trained["peeks"].any() else "",
    )


def _searched(cell: pd.DataFrame) -> Searched | None:
    tried, final = cell[cell["role"] == "search"], cell[cell["role"] == "final"]
    if tried.empty:
        return None
    scores = tried.reindex(columns=["trial", "select/best"]).set_index("trial")["select/best"].astype(float)
    first: dict[str, Value] = next(iter(tried.loc[tried["trial"] == PUBLISHED, "setting"]), {})
    chosen: dict[str, Value] = next(iter(final["setting"]), {})
    values = [(name, _written(first.get(name)), _written(chosen.get(name))) for name in {**first, **chosen}]
    ended = [_outcome(row) for _, row in tried.iterrows()]
    loss, star = str(cell["loss"].iloc[0]), "*" if cell["peeks"].iloc[0] else ""
    return Searched(
        loss=f"{loss}, default*" if star else loss,
        parameters=values,
        published_score=_short(scores.get(PUBLISHED), ".1%") + star,
        best_score=_short(scores.max(), ".1%") + star,
        outcomes={name: ended.count(name) for name in OUTCOMES},
        kept=bool(chosen) and first == chosen,
    )


def _outcome(row: pd.Series[Any]) -> str:
    known = row.get("outcome")
    return known if known in OUTCOMES else "failed" if row["status"] == "FAILED" else "unfinished"


def _written(value: Value | None) -> str:
    return "–" if value is None else text(value)


def _short(value: float | None, form: str = ".3g") -> str:
    return "–" if value is None or pd.isna(value) else format(value, form)


def _compute(trials: pd.DataFrame, curves: pd.DataFrame) -> list[tuple[str, int, int, str]]:
    """What, trials, epochs, and the time for which they held a slot."""
    if trials.empty:
        return []
    epochs = curves[curves["metric"] == "seconds"].groupby("run_id")["epoch"].nunique()
    spent = trials.assign(
        what=trials["role"].where(trials["rule"] != "untrained", "baseline"),
        epochs=trials["run_id"].map(epochs).fillna(0),
        seconds=(trials["end"] - trials["start"]).astype(float).fillna(0) / 1000,
    )
    parts = [(str(what), part) for what, part in spent.groupby("what", sort=False)]
    return [(what, len(part), int(part["epochs"].sum()), _time(part["seconds"].sum())) for what, part in [*parts, ("all", spent)]]


def _time(seconds: float) -> str:
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.1f} min" if seconds >= 60 else f"{seconds:.0f} s"


def _when(trials: pd.DataFrame) -> str:
    """From the first start to the last end."""
    if trials.empty or trials["end"].isna().all():
        return ""
    start, end = float(trials["start"].min()) / 1000, float(trials["end"].max()) / 1000
    return f"{datetime.fromtimestamp(start, UTC):%Y-%m-%d %H:%M} UTC, {_time(end - start)} from first to last trial"
