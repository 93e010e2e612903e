"""Repeat thesis tables 6 to 10: ten losses on three networks, four sizes and three datasets."""

from study.scripts import run

if __name__ == "__main__":
    run("thesis_default")
