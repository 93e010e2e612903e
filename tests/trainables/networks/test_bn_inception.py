"""Inception with batch norm, against a slow forward pass and a list of names written out here."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from trainables.networks.bn_inception import BNInception

# block: channels in | 1x1 | 3x3: reduce, out | double 3x3: reduce, first, second | pool, projection
TABLE = """
3a  192 |  64 |  64  64 |  64  96  96 | avg  32
3b  256 |  64 |  64  96 |  64  96  96 | avg  64
3c  320 |   - | 128 160 |  64  96  96 | max   -
4a  576 | 224 |  64  96 |  96 128 128 | avg 128
4b  576 | 192 |  96 128 |  96 128 128 | avg 128
4c  576 | 160 | 128 160 | 128 160 160 | avg 128
4d  608 |  96 | 128 192 | 160 192 192 | avg 128
4e  608 |   - | 128 192 | 192 256 256 | max   -
5a 1056 | 352 | 192 320 | 160 224 224 | avg 128
5b 1024 | 352 | 192 320 | 192 224 224 | max 128
"""
ROWS = [line.replace("|", "").split() for line in TABLE.strip().splitlines()]


def convolutions() -> dict[str, tuple[int, int, int]]:
    """Return name -> channels out, channels in, kernel."""
    found = {"conv1_7x7_s2": (64, 3, 7), "conv2_3x3_reduce": (64, 64, 1), "conv2_3x3": (192, 64, 3)}
    for block, width, one, *numbers, _, projection in ROWS:
        reduce, three, first, second, third = map(int, numbers)
        found[f"inception_{block}_3x3_reduce"] = (reduce, int(width), 1)
        found[f"inception_{block}_3x3"] = (three, reduce, 3)
        found[f"inception_{block}_double_3x3_reduce"] = (first, int(width), 1)
        found[f"inception_{block}_double_3x3_1"] = (second, first, 3)
        found[f"inception_{block}_double_3x3_2"] = (third, second, 3)
        if one != "-":
            found[f"inception_{block}_1x1"] = (int(one), int(width), 1)
            found[f"inception_{block}_pool_proj"] = (int(projection), int(width), 1)
    return found


def windows(x: Tensor, fill: float, stride: int, before: int) -> Tensor:
    """Return every 3 x 3 window as (n, c, h, w, 9), filled in outside the map."""
    side = (x.shape[2] + 2 * before - 3 + stride - 1) // stride + 1
    need = (side - 1) * stride + 3 - x.shape[2] - before
    padded = F.pad(x, (before, need, before, need), value=fill)
    return padded.unfold(2, 3, stride).unfold(3, 3, stride).flatten(4)


def slow(state: dict[str, Tensor], x: Tensor) -> Tensor:
    """Compute the network by formulas: convolution, batch norm, max(x, 0)."""

    def unit(name: str, x: Tensor, stride: int = 1) -> Tensor:
        weight = state[f"{name}.weight"]
        y = F.conv2d(x, weight, state[f"{name}.bias"], stride, weight.shape[2] // 2)
        mean, var, gain, bias = (
            state[f"{name}_bn.{part}"].view(-1, 1, 1)
            for part in ("running_mean", "running_var", "weight", "bias")
        )
        return ((y - mean) / (var + 1e-5).sqrt() * gain + bias).clamp(min=0)

    lowest = float("-inf")
    x = windows(unit("conv1_7x7_s2", x, 2), lowest, 2, 0).amax(-1)
    x = windows(unit("conv2_3x3", unit("conv2_3x3_reduce", x)), lowest, 2, 0).amax(-1)
    for block, _, one, *_, pool, _ in ROWS:
        name, stride = f"inception_{block}", 2 if one == "-" else 1
        three = unit(f"{name}_3x3", unit(f"{name}_3x3_reduce", x), stride)
        double = unit(
            f"{name}_double_3x3_2",
            unit(f"{name}_double_3x3_1", unit(f"{name}_double_3x3_reduce", x)),
            stride,
        )
        if one == "-":
            x = torch.cat([three, double, windows(x, lowest, 2, 0).amax(-1)], 1)
        else:
            around = (
                windows(x, 0.0, 1, 1).mean(-1)
                if pool == "avg"
                else windows(x, lowest, 1, 1).amax(-1)
            )
            x = torch.cat(
                [unit(f"{name}_1x1", x), three, double, unit(f"{name}_pool_proj", around)], 1
            )
    return x


@pytest.fixture(scope="module")
def trunk() -> BNInception:
    """Set statistics and affine parameters so that nothing has its initial value."""
    torch.manual_seed(0)
    model = BNInception().double().eval()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(std=0.1)
            module.running_var.uniform_(0.2, 1.0)
            torch.nn.init.uniform_(module.weight, 0.7, 1.3)
            torch.nn.init.normal_(module.bias, std=0.2)
    return model


def test_it_is_the_network_written_out_in_formulas(trunk):
    images = torch.randn(
        2, 3, 64, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    )
    with torch.no_grad():
        found, expected = trunk(images), slow(trunk.state_dict(), images)
    assert found.shape == (2, 1024, 2, 2)
    assert found.std() > 0.1
    assert torch.allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_its_parameters_have_exactly_the_names_and_shapes_of_the_weight_file(trunk):
    expected = {}
    for name, (after, before, kernel) in convolutions().items():
        expected |= {
            f"{name}.weight": (after, before, kernel, kernel),
            f"{name}.bias": (after,),
            f"{name}_bn.num_batches_tracked": (),
        }
        expected |= {
            f"{name}_bn.{part}": (after,)
            for part in ("weight", "bias", "running_mean", "running_var")
        }
    assert {name: tuple(value.shape) for name, value in trunk.state_dict().items()} == expected


def test_it_has_as_many_parameters_as_the_published_model_without_its_classifier(trunk):
    assert sum(parameter.numel() for parameter in trunk.parameters()) == 11_295_240 - (
        1024 * 1000 + 1000
    )


def test_its_norms_move_slowly(trunk):
    norms = [module for module in trunk.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    assert len(norms) == len(convolutions())
    assert {(norm.momentum, norm.eps) for norm in norms} == {(0.1, 1e-5)}


@pytest.mark.parametrize(
    ("height", "width", "expected"),
    [(224, 224, (7, 7)), (227, 227, (7, 7)), (112, 112, (4, 4)), (33, 100, (1, 3))],
)
def test_it_takes_any_size_odd_maps_included(trunk, height, width, expected):
    with torch.no_grad():
        assert trunk(torch.zeros(1, 3, height, width, dtype=torch.float64)).shape == (
            1,
            1024,
            *expected,
        )
