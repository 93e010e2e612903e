"""Keep the published setting, for a study that searches nothing."""

from study.strategies.strategy import Setting, Space


class PublishedOnly:
    """Keep the published setting: a cell under this strategy has no search trials."""

    about = "the published setting only; nothing is searched"

    def __init__(self, space: Space, *, first: Setting, trials: int, seed: int) -> None:
        self.first = first

    @staticmethod
    def trials(space: Space, *, first: Setting, budget: int) -> int:
        return 0

    def suggest(self, trial_id: str) -> Setting:
        return self.first

    def complete(self, trial_id: str, score: float | None) -> None:
        pass
