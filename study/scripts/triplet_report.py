"""Repeat the triplet report: its ten runs with ResNet-18 and ResNet-34."""

from study.scripts import run

if __name__ == "__main__":
    run("triplet_report")
