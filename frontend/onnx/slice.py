"""Handlers of slices, splits, concatenation and padding."""

from __future__ import annotations

from collections.abc import Sequence

from weft.frontend.onnx.context import NodeContext, Results, handler
from weft.frontend.onnx.shape import (
    axes_of,
    axis_of,
    checked_sizes,
    optional_ints,
    optional_sizes,
    static_int,
    static_ints,
)
from weft.frontend.operators.sizes import unify
from weft.ir.build import maximum, minimum
from weft.ir.operator_graph import Value
from weft.ir.scalar_expr import Expr, literal, select
from weft.ir.tensor_expr import Size, as_size, constant_size

# ---- slice --------------------------------------------------------------------------------------


@handler("Slice")
def slice_(node: NodeContext) -> Results:
    x = node.input(0)
    rank = len(x.shape)
    starts, ends = optional_sizes(node, "starts", 1), optional_sizes(node, "ends", 2)
    if starts is None or ends is None or len(starts) != len(ends):
        raise node.malformed(f"starts {starts} and ends {ends} do not pair")
    given = optional_ints(node, "axes", 3)
    axes = axes_of(node, list(range(len(starts))) if given is None else given, rank)
    steps = optional_ints(node, "steps", 4) or [1] * len(starts)
    if len(axes) != len(starts) or len(steps) != len(starts):
        raise node.malformed(f"{len(starts)} starts, {len(axes)} axes and {len(steps)} steps")
    if 0 in steps:
        raise node.malformed("a step is 0")
    first: list[Size] = [0] * rank
    stride = [1] * rank
    sizes = list(x.shape)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        extent = constant_size(x.shape[axis])
        if extent is None or not isinstance(start, int) or not isinstance(end, int):
            found = _symbolic_range(node, x.shape[axis], start, end, step)
            first[axis], sizes[axis] = map(node.normal, found)
        else:
            begin = max(start, -extent) if step < 0 else start  # ONNX clamps to the first element
            chosen = range(*slice(begin, end, step).indices(extent))
            first[axis], sizes[axis] = chosen.start if chosen else 0, len(chosen)
        stride[axis] = step if constant_size(sizes[axis]) != 1 else 1
    return part_of(node, x, first, stride, sizes)


def part_of(
    node: NodeContext, x: Value, starts: Sequence[Size], steps: Sequence[int], sizes: Sequence[Size]
) -> Value:
    """``x`` sliced, or itself where that takes nothing away."""
    whole = all(size == old for size, old in zip(sizes, x.shape, strict=True))
    if whole and all(step == 1 for step in steps):
        return x
    result: Value = node.call(
        "strided_slice", x, starts=tuple(starts), steps=tuple(steps), sizes=tuple(sizes)
    )
    return result


def _symbolic_range(
    node: NodeContext, size: Size, start: Size, end: Size, step: int
) -> tuple[Size, Size]:
    """First index and number of elements of ``start:end:step`` where sizes are open."""
    if step > 0:
        low, high = (_clamped(node, at, size, 0, size) for at in (start, end))
        distance = high - low
    else:
        last = as_size(size) - 1
        high = _clamped(node, end, size, -1, last)
        low = last if start == -1 else minimum(_clamped(node, start, size, 0, last), last)
        distance = low - high
    count = (distance + (abs(step) - 1)) // abs(step)
    return low, count if count == as_size(size) else maximum(count, 0)


def _clamped(node: NodeContext, bound: Size, size: Size, least: int, most: Size) -> Expr:
    """``bound``, from the back where negative, within ``least`` … ``most``."""
    known = constant_size(bound)
    if known is None:
        if not node.at_least(bound, 0):
            bound = select(as_size(bound) < 0, as_size(bound) + size, bound)
        elif isinstance(size, int):
            node.assume_at_most(bound, size)
        return maximum(minimum(as_size(bound), most), least)
    if known < -(2**30):
        return as_size(least)
    if known > 2**30:
        return as_size(most)
    if known < 0:
        return maximum(as_size(size) + known, least)
    return as_size(known) if known <= max(least, 0) else minimum(as_size(known), most)


@handler("Split")
def split(node: NodeContext) -> Results:
    x = node.input(0)
    axis = axis_of(node, node.attribute("axis", 0), len(x.shape))
    sizes = optional_sizes(node, "split", 1)
    if sizes is None:
        count = node.attribute("num_outputs", node.n_outputs)
        return split_parts(node, x, axis, _even_parts(node, x.shape[axis], count))
    return split_parts(node, x, axis, sizes)


def _even_parts(node: NodeContext, size: Size, count: int) -> list[Size]:
    """``count`` equal sizes, the last one smaller where they do not come out."""
    if count < 1:
        raise node.malformed(f"{count} outputs")
    extent = constant_size(size)
    if extent is None:
        equal = node.normal((as_size(size) + (count - 1)) // count)
        return [equal] * (count - 1) + [node.normal(as_size(size) - as_size(equal) * (count - 1))]
    part = -(-extent // count)
    last = extent - part * (count - 1)
    if last < 0:
        raise node.malformed(f"{extent} elements do not split into {count} parts")
    return [*[part] * (count - 1), last]


def split_parts(node: NodeContext, x: Value, axis: int, sizes: Sequence[Size]) -> list[Value]:
    sizes = checked_sizes(node, sizes)
    whole = sum(map(as_size, sizes), literal(0))
    known, extent = constant_size(whole), constant_size(x.shape[axis])
    if known is not None and extent is not None and known != extent:
        raise node.malformed(f"{list(sizes)} do not split a dimension of size {x.shape[axis]}")
    unify(whole, x.shape[axis], "the parts and what they split")
    parts: list[Value] = []
    at: Size = 0
    for size in sizes:
        first: list[Size] = [0] * len(x.shape)
        extents = list(x.shape)
        first[axis], extents[axis] = at, size
        parts.append(part_of(node, x, first, [1] * len(x.shape), extents))
        at += size
    return parts


@handler("Concat")
def concat(node: NodeContext) -> Results:
    xs = node.all_inputs()
    if not xs:
        raise node.malformed("nothing to concatenate")
    axis = node.attribute("axis", 1)  # required from opset 4 on
    return node.call("concat", *xs, axis=axis) if len(xs) > 1 else xs[0]


# ---- pad and crop -------------------------------------------------------------------------------


@handler("Pad", since=11)
def pad(node: NodeContext) -> Results:
    pads = static_ints(node, node.input(1))
    axes_input = node.optional(3)
    axes = None if axes_input is None else static_ints(node, axes_input)
    return _pad(node, pads, axes, node.optional(2))


@handler("Pad")
def pad_2(node: NodeContext) -> Results:
    pads = node.attribute("pads", node.attribute("paddings"))
    if pads is None:
        raise node.malformed("no pads are given")
    x = node.input(0)
    value = node.call("fill", shape=(), value=node.attribute("value", 0.0), dtype=x.dtype)
    return _pad(node, pads, None, value)


def _pad(
    node: NodeContext, pads: Sequence[int], axes: Sequence[int] | None, value: Value | None
) -> Results:
    x = node.input(0)
    rank = len(x.shape)
    chosen = list(range(rank)) if axes is None else axes_of(node, axes, rank)
    if len(pads) != 2 * len(chosen):
        raise node.malformed(f"{len(pads)} pads for {len(chosen)} axes")
    if value is not None and any(constant_size(size) != 1 for size in value.shape):
        raise node.malformed(f"the value has shape {value.shape}")
    before, after = [0] * rank, [0] * rank
    for position, axis in enumerate(chosen):
        before[axis], after[axis] = pads[position], pads[position + len(chosen)]
    mode = node.attribute("mode", "constant")
    for d, (low, high) in enumerate(zip(before, after, strict=True)):
        if mode != "constant" and constant_size(x.shape[d]) is None and max(low, high) > 0:
            node.assume(as_size(x.shape[d]) > (max(low, high) if mode == "reflect" else 0))
    return node.call("pad", x, value, before=tuple(before), after=tuple(after), mode=mode)


@handler("CenterCropPad")
def center_crop_pad(node: NodeContext) -> Results:
    x = node.input(0)
    rank = len(x.shape)
    axes = axes_of(node, node.attribute("axes", list(range(rank))), rank)
    target = static_ints(node, node.input(1))
    if len(target) != len(axes):
        raise node.malformed(f"{len(target)} sizes for {len(axes)} axes")
    before, after = [0] * rank, [0] * rank
    for axis, size in zip(axes, target, strict=True):
        extent = constant_size(x.shape[axis])
        if extent is None:
            raise node.unsupported("cropping a dimension of unknown size")
        missing = abs(size - extent)
        sign = 1 if size > extent else -1
        before[axis], after[axis] = sign * (missing // 2), sign * (missing - missing // 2)
    return node.call("pad", x, None, before=tuple(before), after=tuple(after), mode="constant")


# ---- triangles and sequences --------------------------------------------------------------------


@handler("Trilu")
def trilu(node: NodeContext) -> Results:
    k = node.optional(1)
    diagonal = 0 if k is None else static_int(node, k)
    return node.call("trilu", node.input(0), k=diagonal, upper=bool(node.attribute("upper", 1)))


@handler("ReverseSequence")
def reverse_sequence(node: NodeContext) -> Results:
    return node.call(
        "reverse_sequence",
        node.input(0),
        node.input(1),
        time_axis=node.attribute("time_axis", 0),
        batch_axis=node.attribute("batch_axis", 1),
    )
