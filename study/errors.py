"""Define how a command ends when it cannot do its work: one exception, and the exit codes."""

BUG, BAD_INPUT, FAILED_TRIALS, NO_PLACE, TIME_IS_UP, INTERRUPTED = 1, 2, 3, 4, 124, 130


class PreflightError(Exception):
    """Report that the config is good, but this machine or cluster cannot run it."""
