"""Print and draw what choosing on the test classes changes."""

from analysis.scripts import show

if __name__ == "__main__":
    show(
        lambda study: study.answer(),
        lambda study: study.figure("differences"),
        lambda study: study.table("default_vs_validation"),
        lambda study: study.table("convergence"),
        lambda study: study.figure("validation_against_test"),
    )
