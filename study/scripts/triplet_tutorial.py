"""Compare what the triplet tutorial explains: swap, raw vectors, mining, distances, NT-Xent."""

from study.scripts import run

if __name__ == "__main__":
    run("triplet_tutorial")
