"""Repeat thesis tables 17 to 19: the thesis's own loss against ten others."""

from study.scripts import run

if __name__ == "__main__":
    run("thesis_own_loss")
