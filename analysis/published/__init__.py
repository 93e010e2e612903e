"""Show the papers' own numbers: a paper's tables and figures by name, alone or beside a study's."""

from collections.abc import Callable

from analysis.published.papers import GENERALIZATION, REALITY_CHECK, TRIPLET_REPORT
from analysis.published.thesis import THESIS
from analysis.tables.table import Table
from search_spaces import pick

PAPERS: dict[str, dict[str, Callable[[], Table]]] = {
    "thesis": THESIS,
    "reality_check": REALITY_CHECK,
    "triplet_report": TRIPLET_REPORT,
    "generalization": GENERALIZATION,
}


def published_table(paper: str, name: str) -> Table:
    """Return a table of a paper; a ValueError names the nearest known paper or table."""
    return pick(pick(PAPERS, paper, "paper"), name, f"table of {paper}")()
