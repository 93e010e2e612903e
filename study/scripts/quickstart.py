"""Compare the default setup with the validation setup for four losses on drawings, on a laptop."""

from study.scripts import run

if __name__ == "__main__":
    run("quickstart")
