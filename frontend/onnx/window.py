"""Attributes of sliding windows: kernel_shape, strides, dilations, pads and auto_pad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.frontend.onnx.context import NodeContext
from weft.ir.tensor_expr import Size

AUTO_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


def window_attributes(
    node: NodeContext, kernel: Sequence[int], sizes: Sequence[Size]
) -> dict[str, Any]:
    """strides, dilations and pads for a window over spatial ``sizes``.

    ``malformed`` where a list has the wrong length or a value is out of range.
    """
    rank = len(sizes)
    if len(kernel) != rank:
        raise node.malformed(f"kernel_shape has {len(kernel)} values for {rank} dimensions")
    strides = integers(node, "strides", rank, default=1, least=1)
    dilations = integers(node, "dilations", rank, default=1, least=1)
    if any(k < 1 for k in kernel):
        raise node.malformed(f"kernel sizes must be at least 1, got {list(kernel)}")
    pads: tuple[int, ...] | str
    match auto_pad(node):
        case "SAME_UPPER" | "SAME_LOWER" as mode:
            pads = mode.lower()
        case "VALID":
            pads = (0,) * (2 * rank)
        case _:
            pads = integers(node, "pads", 2 * rank, default=0, least=0)
    return {"strides": strides, "dilations": dilations, "pads": pads}


def auto_pad(node: NodeContext) -> str:
    mode = node.attribute("auto_pad", "NOTSET") or "NOTSET"
    if mode not in AUTO_PADS:
        raise node.malformed(f"auto_pad is {mode!r}, must be one of {', '.join(AUTO_PADS)}")
    return str(mode)


def integers(
    node: NodeContext, name: str, count: int, *, default: int, least: int
) -> tuple[int, ...]:
    """An attribute of ``count`` integers, none below ``least``."""
    given = node.attribute(name)
    values = tuple(int(v) for v in given) if given is not None else (default,) * count
    if len(values) != count:
        raise node.malformed(f"{name} has {len(values)} values, must have {count}")
    if any(v < least for v in values):
        raise node.malformed(f"{name} must be at least {least}, got {list(values)}")
    return values


def kernel_shape(node: NodeContext) -> tuple[int, ...]:
    """The required attribute of pooling."""
    return tuple(int(k) for k in node.required("kernel_shape"))


def weights_kernel(node: NodeContext, weights: Sequence[Size]) -> tuple[int, ...]:
    """The kernel sizes that the weights have, which kernel_shape must repeat if it is given."""
    sizes = weights[2:]
    if not all(isinstance(size, int) for size in sizes):
        raise node.unsupported("the kernel's sizes are not known before the model runs")
    kernel = tuple(int(size) for size in sizes)  # type: ignore[arg-type]
    given = node.attribute("kernel_shape")
    if given is not None and tuple(int(k) for k in given) != kernel:
        raise node.malformed(f"kernel_shape is {list(given)}, but the weights' is {list(kernel)}")
    return kernel


def spatial(node: NodeContext, shape: Sequence[Size]) -> tuple[Size, ...]:
    """The sizes after batch and channels, at least one."""
    if len(shape) < 3:
        raise node.malformed(f"the input has rank {len(shape)}, must have at least 3")
    return tuple(shape[2:])
