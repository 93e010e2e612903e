"""Draw what a trained network places near and far."""

from analysis.scripts import show

if __name__ == "__main__":
    show(
        lambda study: study.figure("same_vs_different"),
        lambda study: study.figure("joint_map"),
        lambda study: study.figure("yoked_map"),
        lambda study: study.figure("yoked_models"),
        lambda study: study.figure("gallery"),
    )
