"""Repeat thesis table 14: how many classes to hold out."""

from study.scripts import run

if __name__ == "__main__":
    run("thesis_split_ratio")
