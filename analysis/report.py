"""The report: one self-contained HTML page per study; its figures as files, and CSV and Markdown of its ranking beside it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import jinja2
import pandas as pd
import yaml

from analysis import figures
from analysis.answer import answer
from analysis.decomposition import STEPS, Decomposition, decomposition
from analysis.exports import beside_frame, decomposition_frame, ranking_frame, ranking_markdown
from analysis.figures import Drawing
from analysis.places import Place, places
from analysis.readings import audited
from analysis.tables import HONEST, METRICS, Ranking
from analysis.tracking import StudyRows, redact
from search_spaces import Value, text
from trainables.contract import PEEKING, PUBLISHED, Rule

FIGURES, MAPS = "figures", "maps"  # folders beside the page: every figure as SVG and PNG; places on maps, which take a while to find
PLACES_WITH_MAPS = 3  # the first ones of a page, so that it can be mailed
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
    differences: Drawing | None
    curves: Drawing | None
    search: Drawing | None
    peeking_search: Drawing | None
    settings: list[Drawing]
    transfer: Drawing | None
    maps: list[tuple[Drawing, str]]  # with captions
    default_in: str  # the section that has the default setup's curves and search, if it is another

    def outcomes(self) -> list[str]:
        """How search trials ended here."""
        return [name for name in OUTCOMES if any(found.outcomes[name] for found in self.searched)]

    def drawings(self) -> Iterator[Drawing]:
        own = [
            self.differences,
            self.curves,
            self.search,
            self.peeking_search,
            *self.settings,
            self.transfer,
            *(one for one, _ in self.maps),
        ]
        yield from (drawing for drawing in own if drawing)


def write_report(
    rows: StudyRows,
    found: Sequence[Ranking],
    *,
    folder: Path,
    config_yaml: str,
    tables: Sequence[tuple[str, str]] = (),
    fairness: Sequence[str] = (),
    drawings: Sequence[tuple[Drawing, str]] = (),
    uri: str | None = None,
) -> Path:
    """Write report.html, figures/, ranking.md and the CSV files into the folder; the path of the page.

    tables: more tables for the page, as (title, HTML). fairness: what differs between the rows compared, a sentence each.
    drawings: more figures with their captions, of the whole study.
    uri: the store that holds the trials' kept embeddings; without it the page has no maps.
    """
    study, trials, curves = rows.name, rows.trials, rows.curves
    metric = (yaml.safe_load(config_yaml) or {}).get("select_metric", METRICS[0])
    sections: list[Section] = []
    first: dict[tuple[str, str, int], str] = {}  # the section in which the default setup's curves stand, which several are joined by
    for place in places(trials):
        title = first.setdefault((place.dataset, place.backbone, place.embedding_size), place.title)
        mine = (place.dataset, place.backbone, place.embedding_size, place.protocol)
        ranking = next((r for r in found if (r.dataset, r.backbone, r.embedding_size, r.protocol) == mine), None)
        maps = _maps(uri, place.trained(rows.finals), ranking, folder / MAPS) if uri and len(sections) < PLACES_WITH_MAPS else []
        shown_in = "" if title == place.title else title
        sections.append(_section(place, trials, curves, ranking=ranking, metric=metric, maps=maps, default_in=shown_in))
    effects = _effects(rows.finals)
    page = _template().render(
        study=study,
        sections=sections,
        effects=effects,
        tables=tables,
        fairness=fairness,
        drawings=drawings,
        script=_script(),
        script_hash=base64.b64encode(hashlib.sha256(_script().encode()).digest()).decode(),
        metrics={name: figures.metric_label(name) for name in METRICS},
        selected_by=figures.metric_label(metric),
        compute=_compute(trials, curves),
        when=_when(trials),
        origin={tag: sorted(set(trials[tag].dropna())) for tag in ("git", "versions") if tag in trials},
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
    for drawing in [*(one for section in sections for one in section.drawings()), *effects, *(one for one, _ in drawings)]:
        drawing.save(folder / FIGURES)
    target = folder / "report.html"
    target.write_text(page, encoding="utf-8")
    return target


def _template() -> jinja2.Template:
    loader = jinja2.PackageLoader("analysis", "")
    pages = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return pages.get_template("report.html.jinja")


def _script() -> str:
    return files("analysis").joinpath("report.js").read_text(encoding="utf-8")


def _maps(uri: str, finals: pd.DataFrame, ranking: Ranking | None, cache: Path) -> list[tuple[Drawing, str]]:
    """Of the first loss of the ranking, if a trial of it kept its embeddings."""
    if not ranking or not ranking.rows:
        return []
    from analysis.maps.pictures import kept_of, pictures  # torch and numba: seconds

    kept = kept_of(uri, finals, ranking.rows[0].loss)
    return pictures(kept, cache=cache) if kept else []


def _effects(finals: pd.DataFrame) -> list[Drawing]:
    """What embedding size, backbone and dataset change, where a study has several."""
    frame = figures.recall_frame(finals)
    found = [figures.recall_by(frame, axis) for axis in ("embedding_size", "backbone", "dataset") if frame[axis].nunique() > 1]
    return [drawing for drawing in found if drawing]


def _write_or_remove(path: Path, frame: pd.DataFrame) -> None:
    """No file says more than none with a header only."""
    path.unlink(missing_ok=True)
    if len(frame):
        path.write_text(frame.to_csv(index=False))


def _marked(counts: dict[str, int]) -> list[str]:
    return [f"{count:,} {rule}{'*' if rule == PEEKING else ''}" for rule, count in counts.items()]


def _section(
    place: Place,
    trials: pd.DataFrame,
    curves: pd.DataFrame,
    *,
    ranking: Ranking | None,
    metric: str,
    maps: list[tuple[Drawing, str]],
    default_in: str,
) -> Section:
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
        differences=figures.differences(ranking) if ranking else None,
        curves=figures.learning_curves(shown, curves, metric),
        search=figures.search(shown),
        peeking_search=figures.search(shown, peeks=True),
        settings=[drawing for draw in (figures.parallel_coordinates, figures.slices) if (drawing := draw(trained))],
        transfer=figures.validation_against_test(trained[trained["status"] == "FINISHED"]),
        maps=maps,
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
