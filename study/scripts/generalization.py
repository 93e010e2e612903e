"""Pick triplets in four ways, and score the embedding and the features below it."""

from study.scripts import run

if __name__ == "__main__":
    run("generalization")
