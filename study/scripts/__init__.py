"""The presets as scripts, for `ray job submit -- python -m study.scripts.NAME` or a shell; each takes the options of `fairtrial run`."""

import sys


def run(preset: str) -> None:
    """What `fairtrial run PRESET` does, with what else was typed."""
    from study.__main__ import app

    app(["run", preset, *sys.argv[1:]], prog_name=f"study.scripts.{preset}")
