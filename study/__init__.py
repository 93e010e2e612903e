"""Which trials to run. In Python: from study import run_study, StudyConfig."""

from typing import TYPE_CHECKING, Any

from study.config import StudyConfig

if TYPE_CHECKING:
    from study.run import run_study

__all__ = ["StudyConfig", "run_study"]


def __getattr__(name: str) -> Any:
    """run_study on first use: it brings Ray and torch, which a bad config never needs."""
    if name == "run_study":
        from study.run import run_study

        return run_study
    raise AttributeError(name)
