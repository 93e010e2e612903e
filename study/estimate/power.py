"""Find the smallest difference between losses that a study can show, before it runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from analysis.ranking.pairs import components_of
from analysis.record.frames import StudyRows, read_record
from analysis.record.ledger import LedgerReader, has_begun
from analysis.record.state import StudyState
from analysis.statistics import QUICKSTART, Components, smallest_difference
from study.config.plan import StudyPlan
from study.config.protocols import find_protocol
from trainables.datasets.indexing import halves


@dataclass(frozen=True)
class SmallestDifference:
    """Hold the difference that a study tells apart with a power of 80 %, as a share of 1."""

    dataset: str
    value: float
    source: str  # of what the numbers vary by


def smallest_differences(plan: StudyPlan) -> list[SmallestDifference]:
    """Return the smallest difference by dataset, none where the study cannot know it.

    Each pair of losses is compared with all others, under one setup that does not peek.
    """
    config = plan.config
    if config.searches < 2 or not any(find_protocol(n).searches for n in config.protocols):
        return []
    found = []
    for dataset in config.dataset:
        components, source = _components(plan, dataset)
        value = smallest_difference(
            components,
            losses=len(config.losses),
            replicates=config.searches,
            classes=len(halves(plan.dataset_ref(dataset))[1]),
        )
        if value is not None:
            found.append(SmallestDifference(dataset, value, source))
    return found


def _components(plan: StudyPlan, dataset: str) -> tuple[Components, str]:
    """Return what numbers varied by in the newest finished study of this dataset and network that
    repeated what this one repeats, else in the quickstart.
    """
    searches = any(plan.searched(cell) for cell in plan.cells)
    for folder in _finished(Path(plan.config.studies)):
        try:
            rows = read_record(folder)
            if _repeats(rows, dataset, searches=searches):
                found = components_of(rows, dataset=dataset, backbones=plan.config.backbone)
                return found, f"the study '{rows.name}'"
        except (ValueError, OSError):  # it has no such comparison, or files of it are gone
            continue
    return QUICKSTART, "the quickstart"


def _repeats(rows: StudyRows, dataset: str, *, searches: bool) -> bool:
    """Return whether a study had several replicates on this dataset, each with a search if this one
    searches.
    """
    here = rows.trials[rows.trials["dataset"] == dataset]
    searched = here[(here["role"] == "search") & ~here["peeks"].astype(bool)]
    repeated = searched if searches else here
    return len(repeated) > 0 and bool(repeated["replicate"].max() > 1)


def _finished(studies: Path) -> Iterator[Path]:
    """Yield the folders of finished studies, the newest first."""
    found = []
    for folder in studies.glob("*"):
        if has_begun(folder):
            try:
                state = StudyState(LedgerReader(folder).read())
            except ValueError:  # of another version, or broken
                continue
            if state.finished:
                found.append((state.updated, folder))
    for _, folder in sorted(found, reverse=True):
        yield folder
