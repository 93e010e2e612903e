"""The report: one self-contained HTML page per study; its figures and tables as files beside it."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import get_args

import jinja2
import pandas as pd
import yaml

from analysis.answer import answer
from analysis.decomposition import STEPS, Decomposition, decomposition
from analysis.exports import beside_frame, decomposition_frame, ranking_frame, ranking_markdown
from analysis.figures.catalogue import Picture, Source, draw
from analysis.places import Place, places
from analysis.readings import audited
from analysis.tables import HONEST, METRICS, Ranking
from analysis.tables.catalogue import TABLES, Study, make_table
from analysis.tables.number import metric_label
from analysis.tables.ranked import step_notes
from analysis.tables.writers import as_csv, as_html
from analysis.tracking import redact
from trainables.contract import PEEKING, Rule

FOLDER, CACHE = "figures", "maps"  # beside the page: every figure as SVG and PNG; places on maps, which take a while to find
OWN_PLACE = (
    "ranking",
    "beside",
    "decomposition",
    "steps",
    "default_vs_validation",
    "compute",
)  # tables that are not among the others on the page
OWN_FILE = ("ranking", "beside", "decomposition")  # tables that have a file beside the page
# Where figures stand on the page. umap and toy_embeddings are drawn when they are asked for.
OF_A_PLACE = ("differences", "curves", "search", "parallel_coordinates", "slices", "importance", "validation_against_test")
OF_THE_STUDY = ("recall_by_loss", "recall_by_size", "recall_by_backbone", "recall_by_dataset", "critical_difference", "improvement_by_year")
MAPS = ("same_vs_different", "joint_map", "yoked_map", "yoked_models", "gallery")


@dataclass(frozen=True)
class Section:
    """One dataset, backbone, embedding size and honest protocol on the page. pictures: by the name of the figure."""

    title: str
    ranking: Ranking | None
    parts: Decomposition | None
    step_notes: list[str]
    answer: list[str]
    unfinished: list[str]
    searched: bool
    pictures: dict[str, list[Picture]]
    default_in: str  # the section that has the default setup's curves and search, if it is another


def write_report(study: Study, *, folder: Path, config_yaml: str, maps: bool = False) -> list[Path]:
    """Write report.html, figures/, tables/, ranking.md and the CSV files into the folder; all of them, the page first.

    maps: embedding maps, too, which take a while the first time.
    """
    config = yaml.safe_load(config_yaml) or {}
    source = Source(study, config.get("select_metric", METRICS[0]), cache=folder / CACHE)
    trials, found = study.rows.trials, study.rankings
    drawn = {name: draw(name, source) for name in (*OF_A_PLACE, *OF_THE_STUDY, *(MAPS if maps else ()))}
    made = {name: table for name in TABLES if (table := make_table(name, study)).rows}
    page = _template().render(
        study=study.rows.name,
        sections=[_section(source, place, drawn) for place in places(trials)],
        across=[picture for name in OF_THE_STUDY for picture in drawn[name]],
        map_names=MAPS,
        maps_left=not maps and config.get("keep_embeddings") != "none" and bool(found),
        tables={name: as_html(table) for name, table in made.items() if name not in OWN_PLACE},
        compute=as_html(made["compute"]) if "compute" in made else "",
        fairness=study.fairness,
        unequal=any("not equal" in sentence for sentence in study.fairness),
        script=_script(),
        script_hash=base64.b64encode(hashlib.sha256(_script().encode()).digest()).decode(),
        metrics={name: metric_label(name) for name in METRICS},
        when=_when(trials),
        origin={tag: sorted(set(trials[tag].dropna())) for tag in ("git", "versions") if tag in trials},
        steps=STEPS,
        rules={"default": PEEKING, "validation": HONEST},
        readings=_marked(audited(folder, get_args(Rule))),
        # An address may carry a password, and a page is made to be passed on.
        config=redact(config_yaml),
    )
    texts = {"report.html": page, "ranking.csv": ranking_frame(found).to_csv(index=False)}
    texts |= {"beside.csv": beside_frame(found).to_csv(index=False), "ranking.md": ranking_markdown(found)}
    texts |= {f"tables/{name}.csv": as_csv(table) for name, table in made.items() if name not in OWN_FILE}
    (folder / "decomposition.csv").unlink(missing_ok=True)  # no file says more than none with a header only
    if len(parts := decomposition_frame(found)):
        texts["decomposition.csv"] = parts.to_csv(index=False)
    (folder / "tables").mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    pictures = [picture for each in drawn.values() for picture in each]
    return [*(folder / name for name in texts), *(path for picture in pictures for path in picture.drawing.save(folder / FOLDER))]


def _template() -> jinja2.Template:
    loader = jinja2.PackageLoader("analysis", "")
    pages = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return pages.get_template("report.html.jinja")


def _script() -> str:
    return files("analysis").joinpath("report.js").read_text(encoding="utf-8")


def _marked(counts: dict[str, int]) -> list[str]:
    return [f"{count:,} {rule}{'*' if rule == PEEKING else ''}" for rule, count in counts.items()]


def _section(source: Source, place: Place, drawn: dict[str, list[Picture]]) -> Section:
    trials, ranking, first = source.trials, source.ranking(place), source.first(place)
    trained = place.trained(trials)
    searched = trained[trained["phase"] == "search"]
    mine = pd.concat([trained, place.untrained(trials)])
    stuck = mine[mine["status"] != "FINISHED"]
    return Section(
        title=place.title,
        ranking=ranking,
        parts=decomposition(ranking) if ranking else None,
        step_notes=step_notes(ranking) if ranking else [],
        answer=answer(ranking, tuned=not searched["peeks"].all()),
        unfinished=[f"{row['loss']}, {row['protocol']}, {row['trial']}: {row['status'].lower()}" for _, row in stuck.iterrows()],
        searched=bool((~searched["peeks"]).any()),
        pictures={name: [picture for picture in each if picture.place == place.title] for name, each in drawn.items()},
        default_in=first.title if first != place and trained["peeks"].any() else "",
    )


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
