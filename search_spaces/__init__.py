"""Describe what may vary in a study, and who said so, with the standard library only."""

from search_spaces.losses import LOSSES
from search_spaces.own import OwnLoss, find_card, find_own, untagged
from search_spaces.space import (
    REALITY_ON,
    Choice,
    Claim,
    Grid,
    LossSpace,
    Param,
    Range,
    Value,
    near_name,
    pick,
    value_text,
)

__all__ = [
    "LOSSES",
    "REALITY_ON",
    "Choice",
    "Claim",
    "Grid",
    "LossSpace",
    "OwnLoss",
    "Param",
    "Range",
    "Value",
    "find_card",
    "find_own",
    "near_name",
    "pick",
    "untagged",
    "value_text",
]
