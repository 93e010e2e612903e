"""What may vary, and who said so. Standard library only."""

from search_spaces.losses import LOSSES
from search_spaces.space import Choice, Grid, LossSpace, Param, Range, Value, pick

__all__ = ["LOSSES", "Choice", "Grid", "LossSpace", "Param", "Range", "Value", "pick"]
