"""Thesis tables 17 to 19: its own loss against ten others."""

from study.scripts import run

if __name__ == "__main__":
    run("thesis_own_loss")
