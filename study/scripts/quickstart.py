"""Four losses on drawings, default setup against validation setup, on a laptop."""

from study.scripts import run

if __name__ == "__main__":
    run("quickstart")
