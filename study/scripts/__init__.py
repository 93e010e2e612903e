"""Run presets as scripts, by `ray job submit -- python -m study.scripts.NAME` or in a shell; each
takes the options of `fairtrial run`.
"""

import sys


def run(preset: str) -> None:
    """Do what `fairtrial run PRESET` does, with the options of this command line."""
    from study.__main__ import app

    app(["run", preset, *sys.argv[1:]], prog_name=f"study.scripts.{preset}")
