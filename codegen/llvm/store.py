"""Stores: the stride of an address over the lanes selects the instruction (see ``memory``)."""

from __future__ import annotations

from collections.abc import Sequence

from weft.codegen.llvm.builder import Builder, Index, Ramp, Value, integer
from weft.codegen.llvm.expressions import evaluate_all
from weft.codegen.llvm.frame import Binding, Frame
from weft.codegen.llvm.leading_lanes import leading_count, store_leading
from weft.codegen.llvm.memory import (
    address,
    backwards,
    clamped,
    fills_row,
    first_lanes,
    is_whole,
    lowest,
    memory_type,
    pointers_of,
    short_name,
)
from weft.ir.loop_ir import Stmt, Store, Update
from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Load, Select, Var, substitute, walk


def store(
    frame: Frame,
    buffer: Binding,
    offset: Index,
    value: Value,
    streams: Value | None = None,
) -> None:
    """Store ``value`` at ``offset`` in every active lane, in lane order where addresses are equal.
    ``streams``, an i1: as a non-temporal store, if the target has them."""
    store_stored(frame, buffer, offset, frame.ops.store_bits(value, buffer.dtype), streams)


def store_stored(
    frame: Frame,
    buffer: Binding,
    offset: Index,
    stored: Value,
    streams: Value | None = None,
) -> None:
    """Like ``store``, of bits in ``memory_type``."""
    b, align, mask = frame.b, buffer.dtype.itemsize, frame.lanes.mask
    type_ = memory_type(buffer.dtype)
    if isinstance(offset, Ramp) and offset.stride.const == 1:
        stored = b.splat(stored, offset.lanes)
        pointer = b.element(buffer.pointer, type_, offset.base)
        if mask is not None and fills_row(frame, buffer, offset):
            mask = None
        if mask is not None and is_whole(buffer, offset):
            stored = b.select(mask, stored, b.load(pointer, type_, offset.lanes, align))
            mask = None
        count = leading_count(frame, align) if mask is not None else None
        if count is not None:
            store_leading(b, pointer, stored, count, align)
        elif mask is None and streams is not None:
            _streaming_store(frame, pointer, stored, align, streams)
        else:
            _vector_store(frame, pointer, stored, mask, align)
        return
    if isinstance(offset, Ramp) and offset.stride.const == -1:
        pointer = b.element(buffer.pointer, type_, b.materialise(lowest(frame, offset)))
        turned = None if mask is None else backwards(frame, mask)
        _vector_store(
            frame, pointer, backwards(frame, b.splat(stored, offset.lanes)), turned, align
        )
        return
    if isinstance(offset, Value) and not offset.lanes and not stored.lanes:
        b.store(stored, b.element(buffer.pointer, type_, offset), align)
        return
    lanes = frame.lanes.count
    if isinstance(offset, Ramp) and offset.stride.const == 2 and _leaves_gaps(frame, buffer):
        _every_other_store(frame, buffer, offset, b.splat(stored, lanes))
        return
    if isinstance(offset, Ramp) and mask is None:
        stored = b.splat(stored, lanes)
        for lane, pointer in enumerate(pointers_of(frame, buffer, offset, type_)):
            b.store(b.extract(stored, integer(lane)), pointer, align)
        return
    pointers = b.splat(b.element(buffer.pointer, type_, b.materialise(offset)), lanes)
    _scatter(frame, pointers, b.splat(stored, lanes), mask, align)


def store_vector(
    frame: Frame, buffer: Binding, offset: Value, stored: Value, mask: Value | None
) -> None:
    """Store bits in ``memory_type``, contiguously from the element at ``offset`` on."""
    pointer = frame.b.element(buffer.pointer, memory_type(buffer.dtype), offset)
    _vector_store(frame, pointer, stored, mask, buffer.dtype.itemsize)


def _vector_store(
    frame: Frame, pointer: Value, value: Value, mask: Value | None, align: int
) -> None:
    b, lanes = frame.b, value.lanes
    if mask is None:
        b.store(value, pointer, align)
        return
    name = f"@llvm.masked.store.v{lanes}{short_name(value.type)}.p0"
    b.declare(f"void {name}({value.full_type}, ptr, <{lanes} x i1>)")
    b.line(f"call void {name}({value}, ptr align {align} {pointer.text}, {mask})")


def whole(frame: Frame, stmt: Store, value: Value) -> Value:
    """The ``value`` of a store that may keep the old one in some lanes, opaque to LLVM where masks
    are slow: it would make the selection a masked store."""
    buffer = frame.bindings[stmt.buffer]
    slow = frame.target.vector_bytes < frame.machine.elements.masked
    if slow and buffer.scope != "register" and value.lanes and isinstance(stmt.value, Select):
        old = Load(stmt.buffer, stmt.indices, buffer.dtype)
        if any(each == old or isinstance(each, Var) for each in stmt.value.children[1:]):
            return frame.b.emit(f"freeze {value}", value.type, value.lanes)
    return value


def _leaves_gaps(frame: Frame, buffer: Binding) -> bool:
    """Whether two masked vector stores are faster than scalar ones: the target has fast masks, and
    no load waits for store forwarding from a masked store."""
    elements = frame.machine.elements
    wide = frame.target.vector_bytes >= elements.masked
    return wide and buffer.dtype.itemsize == elements.mask and not buffer.loaded


def _every_other_store(frame: Frame, buffer: Binding, offset: Ramp, value: Value) -> None:
    """Stores of stride 2: two vectors, masked so that the gaps keep their values."""
    b, lanes, type_ = frame.b, offset.lanes, memory_type(buffer.dtype)
    mask = frame.lanes.mask or b.splat(integer(1, "i1"), lanes)
    none = b.splat(integer(0, "i1"), lanes)
    for start in (0, lanes):
        picks = [(start + k) // 2 for k in range(lanes)]
        spread = b.shuffle(value, None, [p if k % 2 == 0 else -1 for k, p in enumerate(picks)])
        active = b.shuffle(mask, none, [p if k % 2 == 0 else lanes for k, p in enumerate(picks)])
        place = b.materialise(b.add(offset.base, integer(start)))
        pointer = b.element(buffer.pointer, type_, place)
        _vector_store(frame, pointer, spread, active, buffer.dtype.itemsize)


def _streaming_store(
    frame: Frame, pointer: Value, value: Value, align: int, streams: Value
) -> None:
    """A non-temporal vector store if ``streams`` and its address is aligned to its size, or to a
    register's, as processors demand. Both are uniform along a row, so that the branch is predicted.
    """
    b, lanes = frame.b, min(value.lanes, frame.target.vector_bytes // align)
    size = lanes * align
    if size < frame.machine.elements.stream or size & (size - 1) or value.lanes % lanes:
        _vector_store(frame, pointer, value, None, align)
        return
    past, plain, after = b.new_label("past"), b.new_label("plain"), b.new_label("stored")
    low = b.binary("and", b.cast("ptrtoint", pointer, "i64"), integer(size - 1))
    lies = b.compare("icmp eq", low, integer(0))
    b.branch(lies if streams.const else b.binary("and", streams, lies), past, plain)
    b.at(past)
    for k, part in enumerate(b.parts(value, lanes)):
        place = b.element(pointer, value.type, integer(k * lanes))
        b.store(part, place, size, streams=True)
    b.jump(after)
    b.at(plain)
    b.store(value, pointer, align)
    b.jump(after)
    b.at(after)


def settle(frame: Frame) -> None:
    """Order non-temporal stores before later stores: a store fence."""
    if frame.streams and frame.target.triple.startswith(("x86_64", "i386", "i686")):
        frame.b.declare("void @llvm.x86.sse.sfence()")
        frame.b.line("call void @llvm.x86.sse.sfence()")


def _scatter(frame: Frame, pointers: Value, value: Value, mask: Value | None, align: int) -> None:
    b, lanes = frame.b, value.lanes
    if align < frame.machine.elements.gather:
        if mask is not None:
            pointers = b.select(mask, pointers, b.alloca("i64"))
        for lane in map(integer, range(lanes)):
            b.store(b.extract(value, lane), b.extract(pointers, lane), align)
        return
    name = f"@llvm.masked.scatter.v{lanes}{short_name(value.type)}.v{lanes}p0"
    b.declare(f"void {name}({value.full_type}, <{lanes} x ptr>, <{lanes} x i1>)")
    active = mask or b.splat(integer(1, "i1"), lanes)
    at = f"<{lanes} x ptr> align {align} {pointers.text}"
    b.line(f"call void {name}({value}, {at}, {active})")


# ---- Interleaved stores: neighbouring stores of all lanes as whole vectors.
#
#     P[3*lane + 1] = a             lane: a vector loop
#     P[3*lane] = b             →   store of b0 a0 c0 b1 a1 c1 …
#     P[3*lane + 2] += c
#
# Each would be a scalar store for every lane otherwise.


_MOST = 8  # stores
_ELEMENTS = 256  # of all of them


def emit_interleaved(frame: Frame, stmts: Sequence[Stmt]) -> int:
    """Emit the first of ``stmts`` as stores of whole vectors: how many; 0, with nothing stored, if
    they do not interleave."""
    group, lanes = _group(stmts), frame.lanes
    if lanes.count < 2 or len(group) < 2:
        return 0
    active = integer(lanes.count) if lanes.mask is None else lanes.first
    buffer = frame.bindings[group[0].buffer]
    if active is None or buffer.private or buffer.scope == "register":
        return 0
    group = group[: _independent(buffer, group)]
    places = _offsets(group)
    if len(group) < 2 or sorted(places) != list(range(len(group))):
        return 0
    if len(group) * lanes.count > _ELEMENTS or buffer.strides[-1].const != 1:
        return 0
    in_order = [s for _, s in sorted(zip(places, group, strict=True), key=lambda pair: pair[0])]
    place = address(frame, buffer, evaluate_all(frame, in_order[0].indices))
    if not isinstance(place, Ramp) or place.stride.const != len(group):
        return 0
    values = [
        frame.ops.store_bits(frame.spread(v), buffer.dtype)
        for v in evaluate_all(frame, [s.value for s in in_order])
    ]
    _store_interleaved(frame, buffer, place.base, values, active)
    return len(group)


def _store_interleaved(
    frame: Frame, buffer: Binding, base: Value, values: Sequence[Value], active: Value
) -> None:
    """The first ``active`` lanes of ``values``, interleaved, from the element ``base`` on."""
    b, count, lanes = frame.b, len(values), values[0].lanes
    if active.const is not None:
        store_vector(frame, buffer, base, interleaved(b, values, int(active.const)), None)
        return
    whole, written = interleaved(b, values, lanes), b.mul(active, integer(count))
    assert isinstance(written, Value)
    if not count & (count - 1):
        mask = first_lanes(frame, written, whole.lanes)
        store_vector(frame, buffer, base, whole, mask)
        return
    for start in range(0, whole.lanes, lanes):  # masks have a power of two of lanes
        part = b.shuffle(whole, None, list(range(start, start + lanes)))
        at, left = b.add(base, integer(start)), b.materialise(b.add(written, integer(-start)))
        assert isinstance(at, Value)
        mask = first_lanes(frame, clamped(frame, left, lanes), lanes)
        store_vector(frame, buffer, at, part, mask)


def _group(stmts: Sequence[Stmt]) -> list[Store]:
    """The first of ``stmts``, as stores to one buffer; a fold is a store of what is combined."""
    group: list[Store] = []
    for stmt in stmts[:_MOST]:
        one = _as_store(stmt)
        if one is None or (group and one.buffer != group[0].buffer):
            break
        group.append(one)
    return group


def _as_store(stmt: Stmt) -> Store | None:
    match stmt:
        case Store():
            return stmt
        case Update(targets=((name, indices),), monoid=monoid, values=(value,)):
            old = Load(name, indices, monoid.left[0].dtype)
            both = {monoid.left[0].name: old, monoid.right[0].name: value}
            return Store(name, indices, substitute(monoid.combined[0], both))
    return None


def _independent(buffer: Binding, group: Sequence[Store]) -> int:
    """How many of ``group``, from the first on, read nothing that one before wrote: a value may
    read its own element, which none else writes."""
    mine = {group[0].buffer, *buffer.overlaps}
    for number, stmt in enumerate(group[1:], 1):
        loads = [n for n in walk(stmt.value) if isinstance(n, Load) and n.source in mine]
        if any(n.source != stmt.buffer or n.indices != stmt.indices for n in loads):
            return number
    return len(group)


def _offsets(group: Sequence[Store]) -> list[int]:
    """The elements of ``group`` in one row of memory, counted from the lowest; [] if they are not
    known to be in one row."""
    first = [to_affine(index) for index in group[0].indices]
    found: list[int] = []
    for stmt in group:
        distances: list[int] = []
        for one, index in zip(first, stmt.indices, strict=True):
            form = to_affine(index)
            apart = form - one if form is not None and one is not None else None
            if apart is None or not apart.is_constant:
                return []
            distances.append(apart.constant)
        if not distances or any(distances[:-1]):
            return []
        found.append(distances[-1])
    return [place - min(found) for place in found]


def interleaved(b: Builder, values: Sequence[Value], lanes: int) -> Value:
    """The first ``lanes`` lanes of ``values``, interleaved."""
    width, count = values[0].lanes, len(values)
    halves = list(values)
    while len(halves) & (len(halves) - 1):
        halves.append(halves[-1])  # never picked
    while len(halves) > 2:
        both = list(range(2 * halves[0].lanes))
        halves = [b.shuffle(x, y, both) for x, y in zip(halves[::2], halves[1::2], strict=True)]
    order = [number * width + lane for lane in range(lanes) for number in range(count)]
    return b.shuffle(halves[0], halves[1], order)
