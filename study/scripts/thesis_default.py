"""Repeat thesis tables 6 to 10, 20 and 21: ten losses, three networks, four sizes."""

from study.scripts import run

if __name__ == "__main__":
    run("thesis_default")
