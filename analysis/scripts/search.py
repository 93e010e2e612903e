"""Print and draw what the search tried and found, and which hyperparameters matter."""

from analysis.scripts import show

if __name__ == "__main__":
    show(
        lambda study: study.figure("search"),
        lambda study: study.table("search"),
        lambda study: study.table("hyperparameters"),
        lambda study: study.figure("importance"),
        lambda study: study.figure("parallel_coordinates"),
        lambda study: study.figure("slices"),
    )
