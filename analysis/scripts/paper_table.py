"""Print the ranking as a LaTeX table for a paper."""

from analysis.scripts import show

if __name__ == "__main__":
    show(lambda study: study.ranking().text("latex"))
