"""Define the types of a study's keys: what they accept, and how they read one value or several."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)
from pydantic.fields import FieldInfo

from trainables.networks.weights import NAMED, NONE

MANY = 1_000_000  # no study needs more: a larger number is a typo
SIDE = 65_536  # dimensions of an embedding, pixels along a side
SEED = 2**31 - 1  # the largest seed that every generator takes
MOST_SEARCHES = 1000
SEEDS = 10_000  # of each replicate: its search's, then those of its final trials
SCHEMES = ("http://", "https://", "sqlite:///", "postgresql://", "mysql://")


def several(value: Any) -> Any:
    """Return a tuple of one value, of 'a,b' from the command line, or of a list."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value if isinstance(value, (list, tuple)) else (value,)


def _split_baselines(value: Any) -> Any:
    if value is True:
        return ("auto",)
    return () if value in (False, None) else several(value)


def _check_unique(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise ValueError(f"Each name must appear once, but got {', '.join(names)}.")
    return names


def _check_rising(pair: tuple[float, float]) -> tuple[float, float]:
    if not 0 < pair[0] <= pair[1]:
        raise ValueError(
            f"A range goes from a smaller to a larger number above 0, but got {pair[0]:g} to "
            f"{pair[1]:g}."
        )
    return pair


def _absolute(path: str) -> str:
    """Return an absolute path: a trial runs in its own folder, where a relative one breaks."""
    return path if path in (*NAMED, NONE) else str(Path(path).expanduser().absolute())


def _check_gpus(gpus: float | None) -> float | None:
    if gpus and gpus > 1 and gpus != int(gpus):
        raise ValueError(
            f"gpus_per_worker is a share of one GPU or a whole number, but got {gpus:g}; use "
            f"{int(gpus)}."
        )
    return gpus


def _check_name(name: str) -> str:
    if name in ("mlflow.db", "mlartifacts"):
        raise ValueError(f"The studies folder keeps its own {name}; choose another name.")
    return name


def _check_uri(uri: str | None) -> str | None:
    if uri:
        urlsplit(uri)  # a ValueError says what is wrong with a malformed one
    if uri and not uri.startswith(SCHEMES):
        raise ValueError(
            "tracking_uri starts with http://, https://, sqlite:///, postgresql:// or mysql://, "
            "or is empty for the embedded store."
        )
    return uri


StudyName = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"), AfterValidator(_check_name)
]
Texts = Annotated[tuple[str, ...], BeforeValidator(several)]
UniqueTexts = Annotated[Texts, AfterValidator(_check_unique)]
Names = Annotated[Texts, Field(min_length=1), AfterValidator(_check_unique)]
EmbeddingSizes = Annotated[
    tuple[Annotated[int, Field(gt=0, le=SIDE)], ...], BeforeValidator(several), Field(min_length=1)
]
RisingPair = Annotated[tuple[float, float], BeforeValidator(several), AfterValidator(_check_rising)]
Baselines = Annotated[
    tuple[Literal["auto", "pixels", "pooled", "untrained", "pca"], ...],
    BeforeValidator(_split_baselines),
    AfterValidator(_check_unique),
]
AbsolutePath = Annotated[str, AfterValidator(_absolute)]
TrackingUri = Annotated[str | None, AfterValidator(_check_uri)]
Gpus = Annotated[float | None, Field(ge=0), AfterValidator(_check_gpus)]
Count = Annotated[int, Field(ge=1, le=MANY)]
CountFrom0 = Annotated[int, Field(ge=0, le=MANY)]
CountFrom2 = Annotated[int, Field(ge=2, le=MANY)]
Pixels = Annotated[int, Field(ge=1, le=SIDE)]
Replicates = Annotated[int, Field(ge=1, le=MOST_SEARCHES)]
Seed = Annotated[int, Field(ge=0, le=SEED)]
Positive = Annotated[float, Field(gt=0)]


def read_values(fields: Mapping[str, FieldInfo], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values` as the fields of these names would have them; a ValueError names the key."""
    found = {}
    for key, value in values.items():
        try:
            found[key] = _adapter(fields[key].rebuild_annotation()).validate_python(value)
        except ValidationError as error:
            raise ValueError(sentence(error, key)) from None
    return found


@cache
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation, config=ConfigDict(allow_inf_nan=False))


def sentence(error: ValidationError, *parents: str) -> str:
    """Return pydantic's first complaint as one sentence. parents: keys around what it checked."""
    first = error.errors()[0]
    place = (*parents, *first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    key = ".".join(str(part) for part in place[:3])
    # pydantic complains once for each type that a value may have.
    if place[:1] == ("settings",) and len(place) > 3:
        return f"{key}={first['input']!r}: a finite number, true, false or a name is needed."
    if first["type"] == "missing":
        return f"The key '{key}' has no value; a study needs one."
    return message if first["type"] == "value_error" else f"{key}={first['input']!r}: {message}."
