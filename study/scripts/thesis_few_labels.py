"""Run the future work of the thesis on few labels: four losses, four shares of the labels."""

from study.scripts import run

if __name__ == "__main__":
    run("thesis_few_labels")
