"""Decide which trials to run, and run them; in Python: from study import run_study, StudyConfig."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from study.config.study_config import StudyConfig
    from study.driver.study_run import run_study

# Ray reads these when it is imported, which is later than this.
for _name, _value in {
    # else every worker copies the folder and starts through `uv run` again
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    # a study is as nice as its user starts it; Ray's 15 gives way to any other program
    "RAY_worker_niceness": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    # errors of slots that nobody asks for any more
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    # study/ends/interrupts.py has one that also knows SIGTERM
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    # Tune's own notes of an experiment are never read: ours are in the ledger
    "TUNE_GLOBAL_CHECKPOINT_S": "1000000",
    # slots start side by side; the searcher hands out no more trials than there are slots
    "TUNE_MAX_PENDING_TRIALS_PG": "1000",
}.items():
    os.environ.setdefault(_name, _value)
if "FAIRTRIAL_DATA" in os.environ:  # workers may run in other folders
    os.environ["FAIRTRIAL_DATA"] = os.path.abspath(os.environ["FAIRTRIAL_DATA"])

__all__ = ["StudyConfig", "run_study"]


_HOMES = {"StudyConfig": "study.config.study_config", "run_study": "study.driver.study_run"}


def __getattr__(name: str) -> Any:
    """Import on first use: run_study brings Ray and torch, which a bad config never needs."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(name)
