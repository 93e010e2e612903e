"""Repeat thesis tables 15 and 16: the sweep on held-out classes, beside the default setup."""

from study.scripts import run

if __name__ == "__main__":
    run("thesis_fixed_validation")
