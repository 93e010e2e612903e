"""Define StudyConfig: what the user asked for, frozen and fully checked before anything starts."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Self

from pydantic import ValidationError, model_validator

from search_spaces import LOSSES
from study.config.checks import check_study
from study.config.keys.key_types import sentence
from study.config.keys.keys import Keys


class StudyConfig(Keys):
    """Hold the keys of a study, checked against each other and against the data."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_study(self)
        return self


def make(values: Mapping[str, Any]) -> StudyConfig:
    """Return a StudyConfig, or raise one ValueError with law, fact and cure."""
    for key in values:
        if key not in StudyConfig.model_fields:
            near = get_close_matches(key, StudyConfig.model_fields, n=1, cutoff=0.5)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            hint = f" A loss's own values belong under settings.{key}." if key in LOSSES else hint
            raise ValueError(f"Unknown key '{key}'.{hint} `fairtrial config keys` lists all.")
    try:
        return StudyConfig(**values)
    except ValidationError as error:
        raise ValueError(sentence(error)) from None
