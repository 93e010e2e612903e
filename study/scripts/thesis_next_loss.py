"""Run the future work of the thesis on its own loss: memory, offline mining, a redesign."""

from study.scripts import run

if __name__ == "__main__":
    run("thesis_next_loss")
