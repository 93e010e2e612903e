"""Compare five losses on your own photographs: pass --set data_root=FOLDER."""

from study.scripts import run

if __name__ == "__main__":
    run("photos")
