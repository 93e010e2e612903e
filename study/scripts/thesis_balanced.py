"""Repeat thesis tables 6 to 10 with balanced batches where the thesis draws random ones."""

from study.scripts import run

if __name__ == "__main__":
    run("thesis_balanced")
