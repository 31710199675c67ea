"""What an operation takes with its result and its operands in given layouts: closed forms.

Vectors run along one loop, or along several that memory walks together; what they do not fill is
lost. An operand that they do not run along is broadcast; one that is contiguous along them is a
load, more where windows slide over it or strides leave gaps; others are copied, one element after
the other. Loads serve all rows, or all vectors, of a register tile. Sums that lie across the
vectors are transposed in registers. In cycles of one core: ``polyhedral/policy`` decides about the
code later, by finer forms of the same kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, prod

from weft.frontend.scalar_affine import to_affine
from weft.frontend.scalar_expr import Var
from weft.graph.layout_facts import Item, Read
from weft.polyhedral.machine import Machine

ROWS, VECTORS = 8, 4  # of a register tile
SHIFTED = 2.5  # times a load whose vectors cross lines
GAPS = 4  # the longest stride that is loaded in whole vectors
TURN = 4.0  # cycles to transpose a vector of sums
COPY = 1.0  # cycles for an element that is copied
FAR = 4.0  # … that vectors of a window, or of what has no sum, store or load across memory

Order = Sequence[int]  # dims of a tensor as they are stored


def cycles(item: Item, order: Order, orders: Sequence[Order], machine: Machine) -> float:
    """Of all of ``item``, its result stored by ``order``, what its reads load by ``orders``."""
    lanes = [d for d, size in enumerate(item.shape) if size > 1]
    return min((_along(item, d, order, orders, machine) for d in lanes), default=0.0)


def _along(item: Item, lane: int, order: Order, orders: Sequence[Order], machine: Machine) -> float:
    """With vectors along the loop of dim ``lane``."""
    size = prod(item.shape[d] for d in _run(item, lane, order, orders))
    in_row = ceil(size / machine.lanes(item.dtype))
    vectors = in_row * prod(item.shape) // size
    load, once, each = 1 / machine.loads_per_cycle, 0.0, 0.0
    sums = item.steps > 1
    for read, own in zip(item.reads, orders, strict=True):
        stride = _stride(read, own, item.loops[lane])
        if stride == 0:
            each += load / min(VECTORS, in_row) if sums and read.indices else 0.0
            continue
        still = prod(
            n for n, loop in zip(item.shape, item.loops, strict=True) if not read.moves(loop)
        )
        again = min(ROWS, still) if sums or read.constant else 1
        if read.constant:
            each += load / again  # packed at compile time
        elif 1 <= stride <= GAPS:
            slides = not isinstance(read.indices[own[-1]], Var)
            each += load * stride * (SHIFTED if slides else 1.0) / again
        elif item.contraction:
            each, once = each + load / again, once + COPY * prod(read.shape)
        else:
            each += FAR * machine.lanes(item.dtype) / again
    step = max(each, 1 / machine.fma_per_cycle if sums else 0.0)
    across = TURN if item.contraction else FAR * machine.lanes(item.dtype)
    stored = 1.0 if lane == order[-1] else across
    return vectors * (item.steps * step + stored) + once


def _run(item: Item, lane: int, order: Order, orders: Sequence[Order]) -> list[int]:
    """``lane`` and the dims outside of it that all accesses walk together with it."""
    run = [lane]
    for d in reversed(order[: order.index(lane)]):
        reads = zip(item.reads, orders, strict=True)
        if item.shape[d] > 1:
            if not all(_together(item, r, own, d, run[-1]) for r, own in reads):
                break
            run.append(d)
    return run


def _together(item: Item, read: Read, own: Order, outer: int, inner: int) -> bool:
    """Whether ``read`` moves along both loops as along one, or along none of them."""
    one, other = item.loops[outer], item.loops[inner]
    if not read.moves(one) and not read.moves(other):
        return True
    for d, after in pairwise(own):
        match read.indices[d], read.indices[after]:
            case Var(x), Var(y) if (x, y) == (one, other):
                return read.shape[after] == item.shape[inner]
    return False


def _stride(read: Read, own: Order, loop: str) -> int:
    """Elements between what neighbours along ``loop`` read: 0 for the same, -1 for far ones."""
    moving = [d for d in own if loop in read.loops[d]]
    if not moving:
        return 0
    form = to_affine(read.indices[own[-1]])
    return form.coefficient(loop) if moving == [own[-1]] and form is not None else -1
