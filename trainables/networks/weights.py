"""Weight files of backbones: where they lie, how they come, and into which trunk they fit."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from trainables.fetch import download, home
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


def fetch_weights(backbone: str, weights: str) -> None:
    """Brings what 'imagenet' means to this node, once. ConnectionError: it could not; the sentence says where to put the file."""
    if weights != IMAGENET:
        return
    file, path = _published(backbone), home() / "weights" / _published(backbone).name
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(path.name + ".lock")):  # several workers of a node may want it at once
        if path.exists():
            _verify(path, file.checksum)
        else:
            download(file.url(), path, checksum=file.checksum)


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
        raise ValueError(
            f"{path} must have a {kind} that starts with {wanted}, but has {found[:16]}...; remove it, and it is fetched anew."
        )


def load_weights(trunk: nn.Module, path: Path) -> None:
    """The trunk's parameters and statistics from a file: all of them, and nothing in the file is left over but a classifier."""
    from trainables.networks.timm_trunk import TimmTrunk

    model, state = (trunk.model, trunk.convert(_read(path))) if isinstance(trunk, TimmTrunk) else (trunk, _read(path))
    own = model.state_dict()
    # Some old files have a leading dimension of one too many.
    state = {name: value[0] if name in own and value.shape == (1, *own[name].shape) else value for name, value in state.items()}
    # Files from before 2018 do not count batches, and nothing here needs the count.
    missing = [name for name in own if name not in state and not name.endswith("num_batches_tracked")]
    misfits = [name for name in own if name in state and state[name].shape != own[name].shape]
    surplus = [name for name in state if name not in own and not name.startswith(CLASSIFIERS)]
    faults = {"lacks": missing, "has another shape for": misfits, "also holds": surplus}
    if any(faults.values()):
        told = "; ".join(f"it {what} {names[0]}{_more(names)}" for what, names in faults.items() if names)
        raise ValueError(f"{path} must hold the weights of this backbone, but {told}.")
    model.load_state_dict({name: state.get(name, value) for name, value in own.items()})


def _more(names: list[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""


def _read(path: Path) -> dict[str, Tensor]:
    """Tensors by name; code in a file is never run."""
    import torch

    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        found: Any = torch.load(path, map_location="cpu", weights_only=True)
    except ImportError:
        raise ValueError(f"{path} needs the package safetensors, which is not installed; install fairtrial[timm].") from None
    except FileNotFoundError:
        raise ValueError(f"There is no weight file {path}; put it there, or use weights={NONE}.") from None
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError) as error:
        raise ValueError(
            f"{path} must be a file of plain tensors, but could not be read as one ({str(error).splitlines()[0][:100]})."
        ) from None
    for wrapped in ("state_dict", "model"):
        found = found.get(wrapped, found) if isinstance(found, dict) else found
    if not isinstance(found, dict) or not all(isinstance(value, torch.Tensor) for value in found.values()):
        raise ValueError(f"{path} must be a dictionary of tensors, as state_dict() gives it.")
    return dict(found)
