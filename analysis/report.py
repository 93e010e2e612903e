"""The report: one self-contained HTML page per study; CSV and Markdown of its ranking beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
import yaml

from analysis import figures
from analysis.answer import answer
from analysis.exports import ranking_frame, ranking_markdown, title
from analysis.tables import HONEST, METRICS, SETTING_AXES, Ranking
from analysis.tracking import StudyRows, redact
from search_spaces import Value, text
from trainables.contract import PIXELS, PUBLISHED

OUTCOMES = ("finished", "stopped early", "diverged", "out of memory", "failed", "unfinished")


@dataclass(frozen=True)
class Searched:
    """What the search of one loss tried and chose. Scores are on the held-out classes."""

    loss: str
    parameters: list[tuple[str, str, str]]  # name, published, chosen
    published_score: str
    best_score: str
    outcomes: dict[str, int]
    kept: bool  # the chosen setting is the published one


@dataclass(frozen=True)
class Section:
    """One dataset, backbone and embedding size on the page."""

    title: str
    ranking: Ranking | None
    answer: list[str]
    unfinished: list[str]
    searched: list[Searched]
    differences: str
    curves: str
    search: str


def write_report(rows: StudyRows, found: Sequence[Ranking], *, folder: Path, config_yaml: str) -> Path:
    """Write report.html, ranking.csv and ranking.md into the folder; the path of the page."""
    study, trials, curves = rows.name, rows.trials, rows.curves
    metric = (yaml.safe_load(config_yaml) or {}).get("select_metric", METRICS[0])
    sections = []
    for place, group in _places(trials):
        ranking = next((r for r in found if (r.dataset, r.backbone, r.embedding_size) == place), None)
        sections.append(_section(group, curves, ranking=ranking, metric=metric))
    page = _template().render(
        study=study,
        sections=sections,
        metrics={name: figures.metric_label(name) for name in METRICS},
        selected_by=figures.metric_label(metric),
        compute=_compute(trials, curves),
        when=_when(trials),
        origin={tag: sorted(set(trials[tag].dropna())) for tag in ("git", "versions") if tag in trials},
        outcomes=OUTCOMES,
        # An address may carry a password, and a page is made to be passed on.
        config=redact(config_yaml),
    )
    (folder / "ranking.csv").write_text(ranking_frame(found).to_csv(index=False))
    (folder / "ranking.md").write_text(ranking_markdown(found))
    target = folder / "report.html"
    target.write_text(page, encoding="utf-8")
    return target


def _template() -> jinja2.Template:
    loader = jinja2.PackageLoader("analysis", "")
    pages = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return pages.get_template("report.html.jinja")


def _places(trials: pd.DataFrame) -> list[tuple[tuple[str, str, int], pd.DataFrame]]:
    """The trained trials of each dataset, backbone and embedding size with the untrained ones they are held against."""
    if trials.empty:
        return []
    idle = trials["rule"] == "untrained"
    found = []
    for dataset, backbone, size in trials.loc[~idle, SETTING_AXES].drop_duplicates().itertuples(index=False):
        here = (trials["backbone"] == backbone) & (trials["embedding_size"] == size)
        mine = (trials["dataset"] == dataset) & (here | (trials["backbone"] == PIXELS))
        found.append(((str(dataset), str(backbone), int(size)), trials[mine]))
    return found


def _section(trials: pd.DataFrame, curves: pd.DataFrame, *, ranking: Ranking | None, metric: str) -> Section:
    trained = trials[trials["rule"] != "untrained"]
    searched = bool((trained["phase"] == "search").any())
    stuck = trials[trials["status"] != "FINISHED"]
    return Section(
        title=title(*trained[SETTING_AXES].iloc[0]),
        ranking=ranking,
        answer=answer(ranking, tuned=searched),
        unfinished=[f"{row['loss']}, {row['protocol']}, {row['trial']}: {row['status'].lower()}" for _, row in stuck.iterrows()],
        searched=[found for _, cell in trained[trained["rule"] == HONEST].groupby("loss") if (found := _searched(cell))],
        differences=figures.differences(ranking) if ranking else "",
        curves=figures.learning_curves(trained, curves, metric),
        search=figures.search(trained),
    )


def _searched(cell: pd.DataFrame) -> Searched | None:
    tried, final = cell[cell["phase"] == "search"], cell[cell["phase"] == "final"]
    if tried.empty:
        return None
    scores = tried.reindex(columns=["trial", "select/best"]).set_index("trial")["select/best"].astype(float)
    first: dict[str, Value] = next(iter(tried.loc[tried["trial"] == PUBLISHED, "setting"]), {})
    chosen: dict[str, Value] = next(iter(final["setting"]), {})
    values = [(name, _written(first.get(name)), _written(chosen.get(name))) for name in {**first, **chosen}]
    ended = [_outcome(row) for _, row in tried.iterrows()]
    return Searched(
        loss=str(cell["loss"].iloc[0]),
        parameters=values,
        published_score=_short(scores.get(PUBLISHED), ".1%"),
        best_score=_short(scores.max(), ".1%"),
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
        what=trials["phase"].where(trials["rule"] != "untrained", "baseline"),
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
