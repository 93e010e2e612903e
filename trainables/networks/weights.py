"""Find, fetch, check and load the weight files of backbones."""

from __future__ import annotations

import pickle
from functools import cache
from importlib.resources import files as resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from trainables.fetch import ProgressCallback, download, hash_file, home, verify
from trainables.networks.backbones import WeightFile, find_backbone

if TYPE_CHECKING:
    from torch import Tensor, nn

NONE = "none"  # start from random weights
PRETRAINED = "pretrained"  # start from weights that ship or that the backbone's authors published
IMAGENET = "imagenet"  # the same, of backbones whose weights were published
NAMED = (PRETRAINED, IMAGENET)  # files that the backbone knows, with their checksums
# Prefixes of what files hold beside a trunk.
CLASSIFIERS = (
    "fc.",
    "last_linear.",
    "aux1.",
    "aux2.",
    "head.",
    "head_dist.",
    "classifier.",
    "pre_logits.",
)


def weights_path(backbone: str, weights: str) -> Path | None:
    """Return where the file is, or will be; None if no file is needed."""
    if weights == NONE:
        return None
    if weights in NAMED:
        return _place(_named(backbone, weights))
    return Path(weights).expanduser().absolute()


def check_weights(backbone: str, weights: str) -> None:
    """Raise ValueError unless this backbone can start from these weights; fetch nothing."""
    if weights == NONE:
        return
    if not find_backbone(backbone).head:
        raise ValueError(
            f"{backbone} has nothing to load weights={weights} into; use weights={NONE}."
        )
    path = weights_path(backbone, weights)
    if weights not in NAMED and path and not path.is_file():
        raise ValueError(
            f"weights={weights} must be {PRETRAINED}, {IMAGENET}, {NONE} or a file, but there is "
            f"no file {path}."
        )


def check_channels(backbone: str, weights: str, *, dataset: str, channels: int) -> None:
    """Raise ValueError unless the backbone's pretrained weights take images of that many channels.

    A user's file is held against the trunk when the study is staged.
    """
    wanted = _named(backbone, weights).channels if weights in NAMED else None
    if wanted not in (None, channels):
        raise ValueError(
            f"The pretrained weights of {backbone} take images of {wanted} channel"
            f"{'s' * (wanted != 1)}, but those of {dataset} have {channels}; use weights={NONE} or "
            f"another backbone."
        )


def fetch_weights(backbone: str, weights: str, progress: ProgressCallback | None = None) -> None:
    """Fetch the backbone's pretrained weights to this node, once; verify a file that is here.

    Raise ConnectionError if that fails; the message says where to put the file.
    """
    if weights not in NAMED or not find_backbone(backbone).head:
        return
    file = _named(backbone, weights)
    path = _place(file)
    if file.url is None:
        verify(path, file.checksum, "it was changed after fairtrial was installed; install it anew")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # Several workers of a node may need the file at once.
    with FileLock(path.with_name(path.name + ".lock")):
        if path.exists():  # the user may have put it there
            verify(path, file.checksum, f"remove {path}, and it is fetched again")
        else:
            download(file.url(), path, checksum=file.checksum, progress=progress)


def _named(backbone: str, weights: str) -> WeightFile:
    """Return the file that 'pretrained' or 'imagenet' means for this backbone."""
    file = find_backbone(backbone).weights
    if file is None:
        raise ValueError(f"{backbone} has no {weights} weights; use weights={NONE} or a file.")
    if weights == IMAGENET and file.url is None:
        raise ValueError(
            f"{backbone} has no {IMAGENET} weights: those that ship with it were trained on other "
            f"images; use weights={PRETRAINED}, weights={NONE} or a file."
        )
    return file


def _place(file: WeightFile) -> Path:
    """Return where the file is, or will be once it is fetched."""
    if file.url is None:
        return Path(str(resources("trainables") / "data" / file.name))
    return home() / "weights" / file.name


def load_weights(trunk: nn.Module, path: Path) -> None:
    """Load the trunk's parameters and statistics from a file.

    Raise ValueError if the file lacks some of them, or holds more than them and a classifier.
    """
    from trainables.networks.timm_trunk import TimmTrunk

    model: nn.Module = trunk.model if isinstance(trunk, TimmTrunk) else trunk
    own, state = model.state_dict(), _read(path)
    # Some old files have a leading dimension of one too many.
    state = {
        name: value[0] if name in own and value.shape == (1, *own[name].shape) else value
        for name, value in state.items()
    }
    fault = _misfit(own, state)
    if fault and isinstance(trunk, TimmTrunk):
        state = trunk.convert(state)
        fault = _misfit(own, state)
    if fault:
        raise ValueError(f"{path} must hold the weights of this backbone, but {fault}.")
    model.load_state_dict({name: state.get(name, value) for name, value in own.items()})


def _misfit(own: dict[str, Tensor], state: dict[str, Tensor]) -> str:
    """Say why the file's tensors do not fit the trunk; return an empty text if they do."""
    faults = {
        # Files from before 2018 do not count batches, and nothing here needs the count.
        "lacks": [
            name for name in own if name not in state and not name.endswith("num_batches_tracked")
        ],
        "has another shape for": [
            name for name in own if name in state and state[name].shape != own[name].shape
        ],
        "also holds": [
            name for name in state if name not in own and not name.startswith(CLASSIFIERS)
        ],
    }
    return "; ".join(
        f"it {what} {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")
        for what, names in faults.items()
        if names
    )


def _read(path: Path) -> dict[str, Tensor]:
    """Return the tensors by name; code in a file is never run."""
    import torch

    if not path.is_file():
        raise ValueError(f"There is no weight file {path}; put it there, or use weights={NONE}.")
    try:
        found: Any = (
            _safetensors(path)
            if path.suffix == ".safetensors"
            else torch.load(path, map_location="cpu", weights_only=True)
        )
    except (pickle.UnpicklingError, RuntimeError, EOFError, LookupError) as error:
        why = str(error).split("\n")[0][:100] or type(error).__name__
        raise ValueError(
            f"{path} must be a file of plain tensors, but cannot be read as one ({why})."
        ) from None
    for wrapped in ("state_dict", "model"):
        found = found.get(wrapped, found) if isinstance(found, dict) else found
    if not isinstance(found, dict) or not all(
        isinstance(value, torch.Tensor) for value in found.values()
    ):
        raise ValueError(f"{path} must be a dictionary of tensors, as state_dict() gives it.")
    return dict(found)


def _safetensors(path: Path) -> dict[str, Tensor]:
    if find_spec("safetensors") is None:
        raise ValueError(
            f"{path} needs the package safetensors, which is not installed; install "
            f"fairtrial[timm]."
        )
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except SafetensorError as error:
        raise RuntimeError(str(error)) from error


def weights_digest(backbone: str, weights: str) -> str:
    """Return what identifies the weights: the published checksum, or a digest of the file."""
    path = weights_path(backbone, weights)
    if path is None:
        return NONE
    if weights in NAMED and not _named(backbone, weights).checksum.endswith(":"):
        return f"{path.name} {_named(backbone, weights).checksum}"
    return _hash(path, path.stat().st_mtime_ns) if path.exists() else "not here yet"


@cache
def _hash(path: Path, changed: int) -> str:
    """Return the digest of a file, read once. changed: its time, so that a new file is read."""
    return hash_file(path)
