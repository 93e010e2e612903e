"""Compare five losses on vectors that you have: pass --set data_root=FILE."""

from study.scripts import run

if __name__ == "__main__":
    run("vectors")
