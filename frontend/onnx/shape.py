"""Handlers of operators that move shapes about, and of constants."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from weft.frontend.onnx.context import NodeContext, Results, handler
from weft.frontend.onnx.tensors import dtype_of
from weft.frontend.operators.shape import resolve_shape
from weft.frontend.operators.sizes import unify
from weft.ir import dtypes
from weft.ir.build import maximum
from weft.ir.errors import BudgetError
from weft.ir.limits import MAX_ELEMENTS
from weft.ir.operator_graph import Value
from weft.ir.scalar_expr import Expr, literal
from weft.ir.scalar_polynomial import polynomial, quotient
from weft.ir.tensor_expr import Size, as_size, constant_size


def static_ints(node: NodeContext, value: Value) -> list[int]:
    """The integers of a shape-like input, at most one-dimensional, as Python numbers."""
    data = node.static(value)
    if data.ndim > 1 or data.dtype.kind not in "iu":
        raise node.malformed(f"{value.name} should hold one list of integers")
    return [int(e) for e in data.reshape(-1)]


def open_sizes(node: NodeContext, value: Value) -> list[Size]:
    """The same, open sizes as expressions."""
    data = node.sizes(value)
    if data.ndim > 1 or data.dtype.kind not in "iuO":
        raise node.malformed(f"{value.name} should hold one list of integers")
    return [e if isinstance(e, Expr) else int(e) for e in data.reshape(-1)]


def static_int(node: NodeContext, value: Value) -> int:
    """The one integer of a scalar-like input."""
    data = node.static(value)
    if data.size != 1 or data.dtype.kind not in "iu":
        raise node.malformed(f"{value.name} should hold one integer")
    return int(data.reshape(-1)[0])


def optional_ints(node: NodeContext, name: str, index: int) -> list[int] | None:
    """Attribute ``name`` of older opsets, or input ``index`` of newer ones; None where neither."""
    given = node.attribute(name)
    if given is not None:
        return [int(e) for e in given]
    value = node.optional(index)
    return None if value is None else static_ints(node, value)


def optional_sizes(node: NodeContext, name: str, index: int) -> list[Size] | None:
    """The same, open sizes as expressions."""
    given = node.attribute(name)
    if given is not None:
        return [int(e) for e in given]
    value = node.optional(index)
    return None if value is None else open_sizes(node, value)


def checked_sizes(node: NodeContext, sizes: Sequence[Size]) -> list[Size]:
    """``sizes`` of a result, of which none is negative: malformed where one is known to be."""
    for size in sizes:
        known = constant_size(size)
        if known is not None and known < 0:
            raise node.malformed(f"negative size in {list(sizes)}")
    return [node.normal(size) for size in sizes]


def axis_of(node: NodeContext, axis: int, rank: int) -> int:
    """``axis`` counted from the front; malformed where it is out of range."""
    if not -rank <= axis < rank:
        raise node.malformed(f"axis {axis} of a tensor of {rank} dimensions")
    return axis % rank if rank else 0


def axes_of(node: NodeContext, axes: Sequence[int], rank: int) -> list[int]:
    """Several axes, which must differ."""
    found = [axis_of(node, axis, rank) for axis in axes]
    if len(set(found)) < len(found):
        raise node.malformed(f"axes {list(axes)} name one axis twice")
    return found


# ---- the same elements --------------------------------------------------------------------------


@handler("Reshape")
def reshape(node: NodeContext) -> Results:
    x = node.input(0)
    target = optional_sizes(node, "shape", 1)
    if target is None:
        raise node.malformed("no shape is given")
    allowzero = bool(node.attribute("allowzero", 0))
    if not allowzero:
        _assume_no_copies(node, x, target)
    return node.call("reshape", x, shape=tuple(resolve_shape(x.shape, target, allowzero=allowzero)))


def _assume_no_copies(node: NodeContext, x: Value, target: Sequence[Size]) -> None:
    """An open size in ``target`` that is 0 would copy a size of ``x``: where that is not 0, too,
    it is another shape than the one that is imported."""
    for d, size in enumerate(target):
        if constant_size(size) is not None or node.at_least(size, 1):
            continue
        copied = as_size(x.shape[d]) if d < len(x.shape) else literal(1)
        if quotient(polynomial(copied), polynomial(as_size(size))) is None:  # 0 where ``size`` is
            node.assume(as_size(size).not_equal(0) | copied.equal(0))


@handler("Flatten")
def flatten(node: NodeContext) -> Results:
    x = node.input(0)
    rank, axis = len(x.shape), node.attribute("axis", 1)
    if not -rank <= axis <= rank:
        raise node.malformed(f"axis {axis} of a tensor of {rank} dimensions")
    axis += rank if axis < 0 else 0
    return node.call("reshape", x, shape=(_total(x.shape[:axis]), _total(x.shape[axis:])))


def _total(sizes: Sequence[Size]) -> Size:
    product: Size = 1
    for size in sizes:
        product = product * size
    return product


@handler("Squeeze")
def squeeze(node: NodeContext) -> Results:
    x = node.input(0)
    given = optional_ints(node, "axes", 1)
    if given is None:
        axes = [d for d, size in enumerate(x.shape) if constant_size(size) == 1]
        for size in x.shape:
            if constant_size(size) is None:
                node.assume(as_size(size).not_equal(1))
    else:
        axes = axes_of(node, given, len(x.shape))
    for d in axes:
        if constant_size(x.shape[d]) not in (1, None):
            raise node.malformed(f"axis {d} has size {x.shape[d]}, not 1")
        unify(x.shape[d], 1, f"axis {d}, which is squeezed, and 1")
    return node.call("reshape", x, shape=tuple(s for d, s in enumerate(x.shape) if d not in axes))


@handler("Unsqueeze")
def unsqueeze(node: NodeContext) -> Results:
    x = node.input(0)
    given = optional_ints(node, "axes", 1)
    if given is None:
        raise node.malformed("no axes are given")
    rank = len(x.shape) + len(given)
    axes = axes_of(node, given, rank)
    rest = iter(x.shape)
    return node.call("reshape", x, shape=tuple(1 if d in axes else next(rest) for d in range(rank)))


@handler("Identity")
def identity(node: NodeContext) -> Results:
    return node.input(0)


@handler("Transpose")
def transpose(node: NodeContext) -> Results:
    x = node.input(0)
    perm = node.attribute("perm", list(reversed(range(len(x.shape)))))
    return node.call("transpose", x, perm=tuple(perm))


def _blocks(node: NodeContext, x: Value) -> tuple[Size, Size, Size, Size, int]:
    """The sizes of an image (batch, channel, row, column), and the block size."""
    block = node.required("blocksize")
    if len(x.shape) != 4 or block < 1:
        raise node.malformed(f"blocks of {block} in a tensor of shape {x.shape}")
    n, c, h, w = x.shape
    return n, c, h, w, block


def _divided(node: NodeContext, size: Size, by: int) -> Size:
    extent = constant_size(size)
    if extent is not None and extent % by:
        raise node.malformed(f"{extent} does not divide by {by}")
    return size // by


def _depth_first(node: NodeContext) -> bool:
    """Whether the block's position is the slowest part of the channel."""
    mode = node.attribute("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise node.malformed(f"unknown mode {mode!r}")
    return bool(mode == "DCR")


@handler("DepthToSpace")
def depth_to_space(node: NodeContext) -> Results:
    x = node.input(0)
    n, c, h, w, block = _blocks(node, x)
    rest = _divided(node, c, block * block)
    depth_first = _depth_first(node)
    split = (n, block, block, rest, h, w) if depth_first else (n, rest, block, block, h, w)
    perm = (0, 3, 4, 1, 5, 2) if depth_first else (0, 1, 4, 2, 5, 3)
    y = node.call("transpose", node.call("reshape", x, shape=split), perm=perm)
    return node.call("reshape", y, shape=(n, rest, h * block, w * block))


@handler("SpaceToDepth")
def space_to_depth(node: NodeContext) -> Results:
    x = node.input(0)
    n, c, h, w, block = _blocks(node, x)
    rows, columns = _divided(node, h, block), _divided(node, w, block)
    y = node.call("reshape", x, shape=(n, c, rows, block, columns, block))
    perm = (0, 3, 5, 1, 2, 4) if _depth_first(node) else (0, 1, 3, 5, 2, 4)
    y = node.call("transpose", y, perm=perm)
    return node.call("reshape", y, shape=(n, c * (block * block), rows, columns))


@handler("Expand")
def expand(node: NodeContext) -> Results:
    shape = checked_sizes(node, open_sizes(node, node.input(1)))
    return node.call("expand", node.input(0), shape=tuple(shape))


@handler("Tile", since=6)
def tile(node: NodeContext) -> Results:
    repeats = open_sizes(node, node.input(1))
    return node.call("tile", node.input(0), repeats=tuple(repeats))


@handler("Tile")
def tile_1(node: NodeContext) -> Results:
    x = node.input(0)
    repeats = [1] * len(x.shape)
    axis = axis_of(node, static_int(node, node.input(2)), len(x.shape))
    repeats[axis] = static_int(node, node.input(1))
    return node.call("tile", x, repeats=tuple(repeats))


# ---- shapes as data -----------------------------------------------------------------------------


@handler("Shape")
def shape(node: NodeContext) -> Results:
    x = node.input(0)
    start, end, _ = slice(node.attribute("start", 0), node.attribute("end")).indices(len(x.shape))
    sizes = [constant_size(size) for size in x.shape[start:end]]
    if None in sizes:
        return node.call("shape_of", x, start=start, end=max(start, end))
    return node.constant(np.array(sizes, np.int64))


@handler("Size")
def size(node: NodeContext) -> Results:
    x = node.input(0)
    sizes = [constant_size(size) for size in x.shape]
    if None in sizes:
        return node.call("size_of", x)
    return node.constant(np.array(math.prod(s for s in sizes if s is not None), np.int64))


# ---- tensors from nothing -----------------------------------------------------------------------


@handler("Constant")
def constant(node: NodeContext) -> Results:
    kinds: dict[str, type[np.generic]] = dict.fromkeys(("value_float", "value_floats"), np.float32)
    kinds |= dict.fromkeys(("value_int", "value_ints"), np.int64)
    for name in ("value", "sparse_value", *kinds):
        data = node.attribute(name)
        if data is not None:
            array = np.asarray(data, kinds.get(name))
            if array.dtype == object:
                raise node.unsupported("strings")
            return node.constant(array)
    if node.attribute("value_string") is not None or node.attribute("value_strings") is not None:
        raise node.unsupported("strings")
    raise node.malformed("no value is given")


@handler("ConstantOfShape")
def constant_of_shape(node: NodeContext) -> Results:
    sizes = checked_sizes(node, open_sizes(node, node.input(0)))
    value = node.attribute("value", np.zeros(1, np.float32))
    if value.size != 1:
        raise node.malformed(f"value has {value.size} elements, not 1")
    dtype = dtypes.as_dtype(value.dtype)
    return node.call("fill", shape=tuple(sizes), value=_number(value), dtype=dtype)


def _number(data: np.ndarray) -> int | float:
    """The one element of ``data`` as a Python number."""
    element = data.reshape(-1)[0]
    return float(element) if dtypes.as_dtype(data.dtype).is_float else int(element)


@handler("EyeLike")
def eye_like(node: NodeContext) -> Results:
    x = node.input(0)
    if len(x.shape) != 2:
        raise node.malformed(f"the input has {len(x.shape)} dimensions, not 2")
    asked = node.attribute("dtype")
    dtype = x.dtype if asked is None else dtype_of(asked)
    rows, columns = x.shape
    return node.call("eye", rows=rows, columns=columns, k=node.attribute("k", 0), dtype=dtype)


@handler("Range")
def arange(node: NodeContext) -> Results:
    unknown = any(node.known(node.input(index)) is None for index in range(3))
    if unknown and node.input(0).dtype == dtypes.int64:
        return _open_range(node)
    given = [node.static(node.input(index)) for index in range(3)]
    if any(data.size != 1 for data in given):
        raise node.malformed("start, limit and delta are scalars")
    start, limit, step = map(_number, given)
    dtype = node.input(0).dtype
    if step == 0 or not all(map(math.isfinite, (start, limit, step))):
        raise node.malformed(f"a range from {start} to {limit} in steps of {step}")
    # For integers exact, and rounded up.
    steps = (limit - start) / step if dtype.is_float else -((start - limit) // step)
    if steps > MAX_ELEMENTS:
        raise BudgetError("WEFT-E0290", f"a range of {steps:g} elements", where=node.name)
    exact = dtypes.float64 if dtype.is_float else dtypes.int64
    if dtype.is_float and dtype.bits < 32 and node.opset >= 27:
        exact = dtype_of(node.attribute("stash_type", 1))
    return node.call(
        "arange",
        start=start,
        step=step,
        count=max(0, math.ceil(steps)),
        dtype=dtype,
        compute_in=exact,
    )


def _open_range(node: NodeContext) -> Results:
    """A range of int64 between open sizes."""
    given = [open_sizes(node, node.input(index)) for index in range(3)]
    if any(len(numbers) != 1 for numbers in given):
        raise node.malformed("start, limit and delta are scalars")
    (start,), (limit,), (delta,) = (map(as_size, numbers) for numbers in given)
    step = constant_size(delta)
    if step is None:
        raise node.unsupported("a range in steps of an open size")
    if step == 0:
        raise node.malformed("a range in steps of 0")
    distance = limit - start if step > 0 else start - limit
    count = node.normal(maximum((distance + (abs(step) - 1)) // abs(step), 0))
    dtype = node.input(0).dtype
    return node.call(
        "arange", start=start, step=step, count=count, dtype=dtype, compute_in=dtypes.int64
    )
