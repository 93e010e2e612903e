"""Tables: one short file each, all of one shape, so that one writer gives text, CSV, Markdown, LaTeX, HTML and JSON."""

from analysis.readings import HONEST
from analysis.tables.number import Number
from analysis.tables.ranking import METRICS, Beside, Ranking, RankingRow, rankings
from analysis.tables.table import Cell, Column, Table

__all__ = ["HONEST", "METRICS", "Beside", "Cell", "Column", "Number", "Ranking", "RankingRow", "Table", "rankings"]
