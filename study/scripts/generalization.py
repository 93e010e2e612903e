"""Four ways to pick triplets, from the embedding and from the features below it."""

from study.scripts import run

if __name__ == "__main__":
    run("generalization")
