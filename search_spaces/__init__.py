"""What may vary, and who said so. Standard library only."""

from search_spaces.losses import LOSSES
from search_spaces.space import Grid, LossSpace, Param, Range, pick

__all__ = ["LOSSES", "Grid", "LossSpace", "Param", "Range", "pick"]
