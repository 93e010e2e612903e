"""Repeat thesis tables 12 and 13: ten folds, the top three losses."""

from study.scripts import run

if __name__ == "__main__":
    run("thesis_cross_validation")
