"""The report: one self-contained HTML page per study; CSV and Markdown of its ranking beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
import yaml

from analysis import figures
from analysis.statistics import ClassSums, Floats, bootstrap, interval
from analysis.tables import HONEST, METRICS, SETTING_AXES, Number, Ranking, RankingRow, rankings
from analysis.tracking import read_curves, read_queries, read_trials

SIDES = ("default", "validation", "difference")
OUTCOMES = ("finished", "stopped early", "diverged", "failed", "unfinished")
PUBLISHED = "search-0"  # the first search trial is the published setting


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


def write_report(uri: str, study: str, folder: Path, config_yaml: str) -> Path:
    """Write report.html, ranking.csv and ranking.md into the folder; the path of the page."""
    found, trials = rankings(uri, study), read_trials(uri, study)
    metric = (yaml.safe_load(config_yaml) or {}).get("select_metric", METRICS[0])
    curves = read_curves(uri, study, (f"select/{metric}", "seconds"))
    sections = []
    for place, group in _places(trials):
        ranking = next((r for r in found if (r.dataset, r.backbone, r.embedding_size) == place), None)
        sections.append(_section(uri, group, curves, ranking=ranking, metric=metric))
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
        config=re.sub(r"://[^/@\s]+@", "://…@", config_yaml),
    )
    (folder / "ranking.csv").write_text(ranking_frame(found).to_csv(index=False))
    (folder / "ranking.md").write_text(ranking_markdown(found))
    target = folder / "report.html"
    target.write_text(page, encoding="utf-8")
    return target


def ranking_frame(found: Sequence[Ranking]) -> pd.DataFrame:
    """One row per ranking and loss; shares from 0 to 1. A column's rule says whether its numbers peek."""
    frame = pd.DataFrame([_flat(ranking, row) for ranking in found for row in ranking.rows], columns=_columns())
    counts = ["rank", "rank_low", "rank_high", "default_seeds", "validation_seeds"]
    return frame.astype(dict.fromkeys(counts, "Int64"))


def ranking_json(found: Sequence[Ranking]) -> list[dict[str, Any]]:
    """Plain lists, dicts, strings and numbers."""
    return [asdict(ranking) for ranking in found]


def ranking_markdown(found: Sequence[Ranking]) -> str:
    """A table per ranking, with its baselines above and its notes below."""
    if not found:
        return "No final trial has finished, so there is nothing to rank.\n"
    return "\n".join(_markdown(ranking) for ranking in found)


def _markdown(ranking: Ranking) -> str:
    lines = [f"## {_title(ranking.dataset, ranking.backbone, ranking.embedding_size)}", "", "Test classes, in percent.", ""]
    for name, numbers in ranking.baselines.items():
        lines.append(f"- {name}: Recall@1 {numbers['recall_at_1'].percent_interval()}, MAP@R {numbers['map_at_r'].percent_interval()}")
    header = ["rank", "loss", "default* Recall@1", "default* MAP@R", "validation Recall@1", "validation MAP@R", "difference* Recall@1"]
    lines += ["", f"| {' | '.join(header)} |".replace("*", "\\*"), "| :-: | --- |" + " --: |" * 5]
    for row in ranking.rows:
        rank = f"{row.rank} [{row.rank_interval[0]}-{row.rank_interval[1]}]" if row.rank_interval else "-"
        cells = [side[m].percent_interval() if m in side else "-" for side in (row.default, row.validation) for m in METRICS]
        gap = row.difference["recall_at_1"].signed() if row.difference else "-"
        lines.append(f"| {' | '.join([rank, row.loss, *cells, gap])} |".replace("*", "\\*"))
    notes = [f"- {note}".replace("*", "\\*") for note in ranking.notes]
    return "\n".join([*lines, "", *notes, ""])


def _columns() -> list[str]:
    numbers = [f"{side}_{metric}{end}" for side in SIDES for metric in METRICS for end in ("", "_low", "_high")]
    rules = [f"{side}_rule" for side in SIDES]
    return [*SETTING_AXES, "rank", "rank_low", "rank_high", "loss", *numbers, *rules, "default_seeds", "validation_seeds"]


def _flat(ranking: Ranking, row: RankingRow) -> dict[str, Any]:
    low, high = row.rank_interval or (None, None)
    flat: dict[str, Any] = {axis: getattr(ranking, axis) for axis in SETTING_AXES}
    flat |= {"rank": row.rank, "rank_low": low, "rank_high": high, "loss": row.loss}
    for side in SIDES:
        numbers: dict[str, Number] = getattr(row, side)
        for metric, number in numbers.items():
            flat |= {f"{side}_{metric}": number.value, f"{side}_{metric}_low": number.low, f"{side}_{metric}_high": number.high}
            flat |= {f"{side}_rule": number.rule, f"{side}_seeds": number.seeds}
    return flat


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
        mine = (trials["dataset"] == dataset) & (here | (trials["backbone"] == "pixels"))
        found.append(((str(dataset), str(backbone), int(size)), trials[mine]))
    return found


def _section(uri: str, trials: pd.DataFrame, curves: pd.DataFrame, *, ranking: Ranking | None, metric: str) -> Section:
    trained = trials[trials["rule"] != "untrained"]
    searched = bool((trained["phase"] == "search").any())
    stuck = trials[trials["status"] != "FINISHED"]
    return Section(
        title=_title(*trained[SETTING_AXES].iloc[0]),
        ranking=ranking,
        answer=answer(ranking, _worlds(uri, trials), tuned=searched),
        unfinished=[f"{row['loss']}, {row['protocol']}, {row['trial']}: {row['status'].lower()}" for _, row in stuck.iterrows()],
        searched=[found for _, cell in trained[trained["rule"] == HONEST].groupby("loss") if (found := _searched(cell))],
        differences=figures.differences(ranking) if ranking else "",
        curves=figures.learning_curves(trained, curves, metric),
        search=figures.search(trained),
    )


def _title(dataset: str, backbone: str, size: int) -> str:
    return f"{dataset}, {backbone}, {size} dimensions"


def _worlds(uri: str, trials: pd.DataFrame) -> dict[str, Floats]:
    """Recall@1 of every loss chosen without test feedback and of every baseline, in worlds that share their test classes."""
    finals = trials[(trials["phase"] == "final") & (trials["status"] == "FINISHED") & (trials["rule"] != "best-on-test")]
    if finals.empty:
        return {}
    queries = read_queries(uri, finals["run_id"].tolist())
    names = finals["loss"].where(finals["rule"] != "untrained", "untrained " + finals["backbone"]).replace("untrained pixels", "raw pixels")
    groups = {
        str(name): ClassSums.of(queries[queries["run_id"].isin(runs)], "recall_at_1") for name, runs in finals["run_id"].groupby(names)
    }
    return bootstrap(groups)


def answer(ranking: Ranking | None, worlds: Mapping[str, Floats], *, tuned: bool) -> list[str]:
    """What the ranking says, and no more: who is first, who cannot be told apart from it, and whether baselines are beaten."""
    if ranking is None:
        return ["No final trial has finished, so there is nothing to rank."]
    honest = [row for row in ranking.rows if row.rank]
    if not honest:
        return ["Only the default setup was run: it chose its epochs on the test classes, so no loss is ranked."]
    return [_first(honest, worlds, tuned=tuned), *_against_baselines(ranking, honest, worlds), *_by_default(ranking)]


def _first(honest: list[RankingRow], worlds: Mapping[str, Floats], *, tuned: bool) -> str:
    best, others = honest[0], [row.loss for row in honest[1:]]
    number = best.validation["recall_at_1"]
    span = f"[{100 * number.low:.1f},\u00a0{100 * number.high:.1f}]"  # no line break inside
    score = f"a test Recall@1 of {number.percent()}\u00a0% {span}"
    how = "After fair tuning" if tuned else "Without a search, its epoch chosen on held-out classes"
    if not others:
        return f"{how}, {best.loss}, the only loss here, has {score}."
    near = [loss for loss in others if not _ahead(worlds, best.loss, loss)]
    if not near:
        return f"{how}, {best.loss} is first with {score}, and every other loss is behind it beyond chance."
    if near == others and len(others) > 1:
        return f"{how}, {best.loss} is first with {score}, but no other loss can be told apart from it: the order at the top may be chance."
    return f"{how}, {best.loss} is first with {score}; it cannot be told apart from {_listed(near)}."


def _against_baselines(ranking: Ranking, honest: list[RankingRow], worlds: Mapping[str, Floats]) -> list[str]:
    beaten, said = [], []
    for name, numbers in ranking.baselines.items():
        baseline = f"{name} ({numbers['recall_at_1'].percent()} %)"
        short = [row.loss for row in honest if not _ahead(worlds, row.loss, name)]
        if not short:
            beaten.append(baseline)
        elif len(short) == len(honest):
            said.append(f"No loss is shown to beat {baseline}.")
        else:
            said.append(f"Not shown to beat {baseline}: {_listed(short)}.")
    return ([f"Every loss beats {_listed(beaten)}."] if beaten else []) + said


def _by_default(ranking: Ranking) -> list[str]:
    """What the literature's habit would have printed: the reason for this page."""
    rows = [row for row in ranking.rows if row.default]
    paired = [row for row in rows if row.difference]
    if len(rows) < 2 or not paired:
        return []
    top = max(rows, key=lambda row: row.default["recall_at_1"].value)
    same = "also puts" if top.rank == 1 else "would have put"
    moved = [row.loss for row in paired if row.difference["recall_at_1"].low > 0 or row.difference["recall_at_1"].high < 0]
    peeked = f"{top.loss} first ({top.default['recall_at_1'].percent()} %)"
    return [f"The default setup, which peeks, {same} {peeked}; the setups differ beyond chance for {_listed(moved or ['no loss'])}."]


def _ahead(worlds: Mapping[str, Floats], one: str, other: str) -> bool:
    """Whether the paired difference leaves out zero."""
    return interval(worlds[one] - worlds[other])[0] > 0


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _searched(cell: pd.DataFrame) -> Searched | None:
    tried, final = cell[cell["phase"] == "search"], cell[cell["phase"] == "final"]
    if tried.empty:
        return None
    scores = tried.reindex(columns=["trial", "select/best"]).set_index("trial")["select/best"].astype(float)
    first: dict[str, float] = next(iter(tried.loc[tried["trial"] == PUBLISHED, "setting"]), {})
    chosen: dict[str, float] = next(iter(final["setting"]), {})
    values = [(name, _short(first.get(name)), _short(chosen.get(name))) for name in {**first, **chosen}]
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
