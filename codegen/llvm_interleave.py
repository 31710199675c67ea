"""Stores that interleave: what neighbouring stores of all lanes leave in memory, as whole vectors.

    P[4*lane] = a                 lane: a vector loop
    P[4*lane + 1] = b
    P[4*lane + 2] = c         →   store of a0 b0 c0 d0 a1 b1 c1 d1 …
    P[4*lane + 3] = d

One after the other, each would be a store for every lane.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.codegen.llvm_builder import Builder, Ramp, Value, integer
from weft.codegen.llvm_expressions import evaluate_all
from weft.codegen.llvm_frame import Binding, Frame
from weft.codegen.llvm_memory import address, first_lanes
from weft.codegen.llvm_store import store_vector
from weft.codegen.loop_ir import Stmt, Store
from weft.frontend.scalar_affine import to_affine
from weft.frontend.scalar_expr import Load, walk

_MOST = 8  # stores
_ELEMENTS = 256  # of them all


def emit_interleaved(frame: Frame, stmts: Sequence[Stmt]) -> bool:
    """Emit ``stmts`` as stores of whole vectors; False, with nothing emitted, if they are no
    stores that interleave."""
    stores = [s for s in stmts if isinstance(s, Store)]
    count, lanes = len(stores), frame.lanes
    if count != len(stmts) or not 2 <= count <= _MOST or count & (count - 1):
        return False
    if lanes.count < 2 or count * lanes.count > _ELEMENTS:
        return False
    active = integer(lanes.count) if lanes.mask is None else lanes.first
    buffer = frame.bindings[stores[0].buffer]
    if active is None or buffer.private or buffer.scope == "register":
        return False
    if not _neighbours(stores) or _reads(buffer, stores):
        return False
    place = address(frame, buffer, evaluate_all(frame, stores[0].indices))
    if not isinstance(place, Ramp) or place.stride.const != count:
        return False
    if buffer.strides[-1].const != 1:
        return False
    values = [
        frame.ops.store_bits(frame.spread(v), buffer.dtype)
        for v in evaluate_all(frame, [s.value for s in stores])
    ]
    b = frame.b
    if active.const is not None:
        store_vector(frame, buffer, place.base, interleaved(b, values, int(active.const)), None)
        return True
    whole = interleaved(b, values, lanes.count)
    written = b.mul(active, integer(count))
    assert isinstance(written, Value)
    mask = first_lanes(frame, written, whole.lanes)
    store_vector(frame, buffer, place.base, whole, mask)
    return True


def _neighbours(stores: Sequence[Store]) -> bool:
    """Whether each store goes to one element after the last one."""
    first = [to_affine(index) for index in stores[0].indices]
    for number, stmt in enumerate(stores):
        if stmt.buffer != stores[0].buffer:
            return False
        for place, (one, index) in enumerate(zip(first, stmt.indices, strict=True)):
            form = to_affine(index)
            if one is None or form is None:
                return False
            distance = form - one
            expected = number if place == len(first) - 1 else 0
            if not distance.is_constant or distance.constant != expected:
                return False
    return True


def _reads(buffer: Binding, stores: Sequence[Store]) -> bool:
    """Whether a value may come from what an earlier store wrote."""
    mine = {stores[0].buffer, *buffer.overlaps}
    return any(isinstance(n, Load) and n.source in mine for s in stores for n in walk(s.value))


def interleaved(b: Builder, values: Sequence[Value], lanes: int) -> Value:
    """Lane by lane the elements of all ``values``, of the first ``lanes``."""
    width, count = values[0].lanes, len(values)
    halves = list(values)
    while len(halves) > 2:
        both = list(range(2 * halves[0].lanes))
        halves = [b.shuffle(x, y, both) for x, y in zip(halves[::2], halves[1::2], strict=True)]
    order = [number * width + lane for lane in range(lanes) for number in range(count)]
    return b.shuffle(halves[0], halves[1], order)
