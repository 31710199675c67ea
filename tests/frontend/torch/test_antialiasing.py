"""Resizing with antialiasing gives what PyTorch's kernels give, forward and backward."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'weft[torch]'")

from tests.frontend.torch.run_torch import direct  # noqa: E402
from weft.ir.errors import UnsupportedError  # noqa: E402

aten = torch.ops.aten
SIZES = [  # given, made, factors
    ((17, 8), (3, 5), (None, None)),
    ((7, 8), (1, 11), (None, None)),
    ((1, 1), (3, 2), (None, None)),
    ((9, 7), (4, 3), (0.5, 0.45)),
    ((6, 5), (6, 5), (None, None)),
]


def picture(*size: int, dtype: Any = torch.float32) -> Any:
    return torch.randn(2, 1, *size, generator=torch.Generator().manual_seed(0), dtype=dtype)


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("kind", ["bilinear", "bicubic", "lanczos"])
def test_pictures(kind: str, corners: bool) -> None:
    resize = getattr(aten, f"_upsample_{kind}2d_aa").default
    for given, made, factors in SIZES:
        x = picture(*given)
        found = direct(lambda x, made=made, f=factors: resize(x, made, corners, *f), x)
        torch.testing.assert_close(found, resize(x, made, corners, *factors))


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("kind", ["bilinear", "bicubic"])
def test_gradients(kind: str, corners: bool) -> None:
    back = getattr(aten, f"_upsample_{kind}2d_aa_backward").default
    for given, made, factors in SIZES:
        g, how = picture(*made), (made, (2, 1, *given), corners, *factors)
        torch.testing.assert_close(direct(lambda g, how=how: back(g, *how), g), back(g, *how))


def test_doubles_are_as_near_as_doubles_can_be() -> None:
    x = picture(11, 9, dtype=torch.float64)
    resize = aten._upsample_bicubic2d_aa.default
    found = direct(lambda x: resize(x, [4, 13], False), x)
    torch.testing.assert_close(found, resize(x, [4, 13], False), rtol=1e-12, atol=1e-12)


def test_open_heights_are_left_to_pytorch() -> None:
    with pytest.raises(UnsupportedError, match="_upsample_bilinear2d_aa") as caught:
        direct(
            lambda x: aten._upsample_bilinear2d_aa(x, [3, 3], False), picture(8, 9), dynamic=True
        )
    assert caught.value.code == "WEFT-E0271"


def test_integers_are_left_to_pytorch() -> None:
    whole = torch.arange(64, dtype=torch.uint8).view(1, 1, 8, 8)
    with pytest.raises(UnsupportedError, match="_upsample_bilinear2d_aa") as caught:
        direct(lambda x: aten._upsample_bilinear2d_aa(x, [3, 3], False), whole)
    assert caught.value.code == "WEFT-E0271"
