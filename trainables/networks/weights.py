"""Weight files of backbones: where they lie, how they come, and into which trunk they fit."""

from __future__ import annotations

import hashlib
import pickle
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from trainables.fetch import Progress, download, home
from trainables.networks.backbones import WeightFile, find_backbone

if TYPE_CHECKING:
    from torch import Tensor, nn

NONE = "none"  # start from random weights
IMAGENET = "imagenet"  # start from the weights that the backbone's authors published
CLASSIFIERS = (
    "fc.",
    "last_linear.",
    "aux1.",
    "aux2.",
    "head.",
    "head_dist.",
    "classifier.",
    "pre_logits.",
)  # what files hold beside a trunk


def weights_path(backbone: str, weights: str) -> Path | None:
    """Where the file lies, or will lie; None: no file is wanted."""
    if weights == NONE:
        return None
    return home() / "weights" / _published(backbone).name if weights == IMAGENET else Path(weights).expanduser().absolute()


def check_weights(backbone: str, weights: str) -> None:
    """A ValueError unless this backbone can start like that; nothing is fetched."""
    if weights == NONE:
        return
    if not find_backbone(backbone).head:
        raise ValueError(f"{backbone} has nothing to load weights={weights} into; use weights={NONE}.")
    path = weights_path(backbone, weights)
    if weights != IMAGENET and path and not path.is_file():
        raise ValueError(f"weights={weights} must be {IMAGENET}, {NONE} or a file, but there is no file {path}.")


def fetch_weights(backbone: str, weights: str, progress: Progress | None = None) -> None:
    """Brings what 'imagenet' means to this node, once. ConnectionError: it could not; the sentence says where to put the file."""
    if weights != IMAGENET or not find_backbone(backbone).head:
        return
    file, path = _published(backbone), home() / "weights" / _published(backbone).name
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(path.name + ".lock")):  # several workers of a node may want it at once
        if path.exists():
            _verify(path, file.checksum)
        else:
            download(file.url(), path, checksum=file.checksum, progress=progress)


def _published(backbone: str) -> WeightFile:
    file = find_backbone(backbone).weights
    if file is None:
        raise ValueError(f"{backbone} has no {IMAGENET} weights; use weights={NONE} or a file.")
    return file


def _verify(path: Path, checksum: str) -> None:
    """For files that somebody put there: they are named, not removed."""
    kind, _, wanted = checksum.partition(":")
    with path.open("rb") as content:
        found = hashlib.file_digest(content, kind).hexdigest()
    if not found.startswith(wanted):
        raise ValueError(f"The {kind} of {path} must start with {wanted}, but is {found[:16]}...; remove it, and it is fetched anew.")


def load_weights(trunk: nn.Module, path: Path) -> None:
    """The trunk's parameters and statistics from a file: all of them, and nothing in the file is left over but a classifier."""
    from trainables.networks.timm_trunk import TimmTrunk

    model: nn.Module = trunk.model if isinstance(trunk, TimmTrunk) else trunk
    own, state = model.state_dict(), _read(path)
    # Some old files have a leading dimension of one too many.
    state = {name: value[0] if name in own and value.shape == (1, *own[name].shape) else value for name, value in state.items()}
    fault = _misfit(own, state)
    if fault and isinstance(trunk, TimmTrunk):
        state = trunk.convert(state)
        fault = _misfit(own, state)
    if fault:
        raise ValueError(f"{path} must hold the weights of this backbone, but {fault}.")
    model.load_state_dict({name: state.get(name, value) for name, value in own.items()})


def _misfit(own: dict[str, Tensor], state: dict[str, Tensor]) -> str:
    """What is wrong with the file's tensors for a trunk that has these; empty: nothing."""
    faults = {
        # Files from before 2018 do not count batches, and nothing here needs the count.
        "lacks": [name for name in own if name not in state and not name.endswith("num_batches_tracked")],
        "has another shape for": [name for name in own if name in state and state[name].shape != own[name].shape],
        "also holds": [name for name in state if name not in own and not name.startswith(CLASSIFIERS)],
    }
    return "; ".join(
        f"it {what} {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "") for what, names in faults.items() if names
    )


def _read(path: Path) -> dict[str, Tensor]:
    """Tensors by name; code in a file is never run."""
    import torch

    if not path.is_file():
        raise ValueError(f"There is no weight file {path}; put it there, or use weights={NONE}.")
    try:
        found: Any = _safetensors(path) if path.suffix == ".safetensors" else torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, LookupError) as error:
        why = str(error).split("\n")[0][:100] or type(error).__name__
        raise ValueError(f"{path} must be a file of plain tensors, but could not be read as one ({why}).") from None
    for wrapped in ("state_dict", "model"):
        found = found.get(wrapped, found) if isinstance(found, dict) else found
    if not isinstance(found, dict) or not all(isinstance(value, torch.Tensor) for value in found.values()):
        raise ValueError(f"{path} must be a dictionary of tensors, as state_dict() gives it.")
    return dict(found)


def _safetensors(path: Path) -> dict[str, Tensor]:
    if find_spec("safetensors") is None:
        raise ValueError(f"{path} needs the package safetensors, which is not installed; install fairtrial[timm].")
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except SafetensorError as error:
        raise RuntimeError(str(error)) from error
