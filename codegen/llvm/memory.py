"""Addresses and loads: the stride of an address over the lanes selects the instruction.

Uniform addresses are scalar accesses, consecutive ones (also backwards) vector accesses, small
constant strides whole vectors and shuffles, other strides scalar accesses for each lane, anything
else a gather or scatter. Masked-off lanes access no memory. Registers (stack slots that LLVM
promotes) are read whole and blended, since they are private.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial, reduce

from weft.codegen.llvm.builder import (
    Index,
    Ramp,
    Repeated,
    Value,
    integer,
    register_type,
    vector_type,
)
from weft.codegen.llvm.frame import Binding, Frame
from weft.codegen.llvm.leading_lanes import (
    first_active,
    leading_count,
    load_leading,
    masks_serve,
)
from weft.ir.dtypes import DType
from weft.ir.loop_ir import Prefetch

_SHUFFLED_STRIDES = (2, 3, 4)  # of loads that are vectors and shuffles


def memory_type(dtype: DType) -> str:
    """The LLVM type of a stored element."""
    held = register_type(dtype)
    if held in ("float", "double") and dtype.bits >= 32:
        return held
    return f"i{dtype.storage_bits}"


def address(
    frame: Frame, buffer: Binding, indices: list[Index], rows: Collection[int] = ()
) -> Index:
    """The offset of an element from the buffer's start, in elements. Along the dims ``rows`` it is
    one of several that a loop around keeps in registers of their own."""
    b = frame.b
    offset: Index = integer(0)
    for dim, (index, stride) in enumerate(zip(indices, buffer.strides, strict=True)):
        far = b.mul(index, stride)
        if dim in rows and isinstance(far, Value) and far.const is None and not far.lanes:
            far = b.opaque(far)
        offset = b.add(offset, far)
    if buffer.private:
        lane = Ramp(integer(0), integer(1), buffer.private)
        offset = b.add(b.mul(offset, integer(buffer.private)), lane)
    return offset


def load(frame: Frame, buffer: Binding, offset: Index) -> Value:
    """The element at ``offset`` in every active lane."""
    return frame.ops.load_bits(load_stored(frame, buffer, offset), buffer.dtype)


def load_stored(frame: Frame, buffer: Binding, offset: Index) -> Value:
    """The bits at ``offset`` in every active lane, in ``memory_type``."""
    b, align, type_ = frame.b, buffer.dtype.itemsize, memory_type(buffer.dtype)
    lanes = frame.lanes
    mask = lanes.mask
    if isinstance(offset, Ramp) and offset.stride.const == 1:
        if mask is None and _lies_across(buffer, offset):
            return _across_registers(frame, buffer, offset, type_)
        mask = None if is_whole(buffer, offset) else mask
        pointer = b.element(buffer.pointer, type_, offset.base)
        count = leading_count(frame, align) if mask is not None else None
        if count is not None:
            return load_leading(b, pointer, type_, offset.lanes, count, align)
        return _vector_load(frame, pointer, type_, offset.lanes, mask, align)
    if isinstance(offset, Ramp) and offset.stride.const == -1:
        pointer = b.element(buffer.pointer, type_, b.materialise(lowest(frame, offset)))
        turned = None if mask is None else backwards(frame, mask)
        return backwards(frame, _vector_load(frame, pointer, type_, offset.lanes, turned, align))
    if isinstance(offset, Ramp) and offset.stride.const in _SHUFFLED_STRIDES:
        known = mask is None or masks_serve(frame, align)
        leading = first_active(frame) if known else lanes.first
        if leading is not None:
            return _strided_load(frame, buffer, offset, type_, leading)
    if isinstance(offset, Repeated) and offset.stride.const == 1:
        return _repeated_load(frame, buffer, offset, type_)
    if isinstance(offset, Ramp) and mask is None:
        return _load_lanes(frame, pointers_of(frame, buffer, offset, type_), type_, align)
    if not isinstance(offset, Value) or offset.lanes:
        pointers = b.element(buffer.pointer, type_, b.materialise(offset))
        return _gather(frame, pointers, type_, mask, align)
    pointer = b.element(buffer.pointer, type_, offset)
    if mask is None or not lanes.may_be_empty:
        return b.load(pointer, type_, align=align)
    return _guarded_load(frame, pointer, type_, mask, align)


def _repeated_load(frame: Frame, buffer: Binding, offset: Repeated, type_: str) -> Value:
    """Contiguous elements, of which each goes to some lanes; those that no active lane needs are
    not accessed."""
    b, lanes, times = frame.b, offset.lanes, offset.times
    needed = frame.lanes.mask
    if needed is not None:
        each = [b.shuffle(needed, None, list(range(k, lanes, times))) for k in range(times)]
        needed = reduce(partial(b.binary, "or"), each)
    pointer, align = b.element(buffer.pointer, type_, offset.base), buffer.dtype.itemsize
    elements = _vector_load(frame, pointer, type_, lanes // times, needed, align)
    return b.shuffle(elements, None, [k // times for k in range(lanes)])


def pointers_of(frame: Frame, buffer: Binding, offset: Ramp, type_: str) -> list[Value]:
    """The address of each lane of a strided access."""
    b = frame.b
    places = [b.add(offset.base, b.mul(offset.stride, integer(k))) for k in range(offset.lanes)]
    return [b.element(buffer.pointer, type_, b.materialise(place)) for place in places]


def _load_lanes(frame: Frame, pointers: list[Value], type_: str, align: int) -> Value:
    """A scalar load for each lane: faster than a gather if the stride is uniform."""
    b = frame.b
    vector = Value("poison", type_, len(pointers))
    for lane, pointer in enumerate(pointers):
        vector = b.insert(vector, b.load(pointer, type_, align=align), integer(lane))
    return vector


def lowest(frame: Frame, offset: Ramp) -> Index:
    """The address of the last lane of a backward ramp, which is the first in memory."""
    return frame.b.add(offset.base, integer(1 - offset.lanes))


def backwards(frame: Frame, value: Value) -> Value:
    """The lanes of ``value`` reversed."""
    return frame.b.shuffle(value, None, list(reversed(range(value.lanes))))


def is_whole(buffer: Binding, offset: Ramp) -> bool:
    """All lanes of the access lie inside a register buffer, so that it needs no mask."""
    base = offset.base.const
    inside = base is not None and 0 <= base <= buffer.elements - offset.lanes
    return buffer.scope == "register" and inside


def _lies_across(buffer: Binding, offset: Ramp) -> bool:
    """Whether the access is to the end of one register and the beginning of the next."""
    base, lanes = offset.base.const, offset.lanes
    whole = is_whole(buffer, offset) and buffer.elements % lanes == 0
    return whole and base is not None and int(base) % lanes != 0


def _across_registers(frame: Frame, buffer: Binding, offset: Ramp, type_: str) -> Value:
    """Two registers, and a shuffle: stack slots that are read as they are written are promoted."""
    b, lanes, align = frame.b, offset.lanes, buffer.dtype.itemsize
    start, first = divmod(int(offset.base.const or 0), lanes)
    one, two = (
        b.load(b.element(buffer.pointer, type_, integer(k * lanes)), type_, lanes, align)
        for k in (start, start + 1)
    )
    return b.shuffle(one, two, list(range(first, first + lanes)))


def fills_row(frame: Frame, buffer: Binding, offset: Ramp) -> bool:
    """Whether masked-off lanes are the padding of a row of registers."""
    base, first = offset.base.const, frame.lanes.first
    if not buffer.padded or base is None or first is None or first.const is None:
        return False
    begin = int(base) % buffer.padded
    return begin + offset.lanes <= buffer.padded and begin + int(first.const) == buffer.row


def _guarded_load(frame: Frame, pointer: Value, type_: str, mask: Value, align: int) -> Value:
    """A scalar load, performed only if some lane is active."""
    b = frame.b
    before, inside, after = b.label, b.new_label("load"), b.new_label("loaded")
    b.branch(b.any_lane(mask), inside, after)
    b.at(inside)
    value = b.load(pointer, type_, align=align)
    b.jump(after)
    b.at(after)
    return b.phi((value, inside), (_zero(type_), before))


def _zero(type_: str) -> Value:
    return Value("0.0" if type_ in ("float", "double") else "0", type_)


def short_name(type_: str) -> str:
    return {"float": "f32", "double": "f64"}.get(type_, type_)


def _vector_load(
    frame: Frame, pointer: Value, type_: str, lanes: int, mask: Value | None, align: int
) -> Value:
    b = frame.b
    if mask is None:
        return b.load(pointer, type_, lanes, align)
    full = vector_type(type_, lanes)
    name = f"@llvm.masked.load.v{lanes}{short_name(type_)}.p0"
    b.declare(f"{full} {name}(ptr, <{lanes} x i1>, {full})")
    call = f"call {full} {name}(ptr align {align} {pointer.text}, {mask}, {full} zeroinitializer)"
    return b.emit(call, type_, lanes)


def _gather(frame: Frame, pointers: Value, type_: str, mask: Value | None, align: int) -> Value:
    b, lanes = frame.b, pointers.lanes
    full = vector_type(type_, lanes)
    if align < frame.machine.elements.gather:
        return _load_each(frame, pointers, type_, mask, align)
    name = f"@llvm.masked.gather.v{lanes}{short_name(type_)}.v{lanes}p0"
    b.declare(f"{full} {name}(<{lanes} x ptr>, <{lanes} x i1>, {full})")
    active = mask or b.splat(integer(1, "i1"), lanes)
    at = f"<{lanes} x ptr> align {align} {pointers.text}"
    return b.emit(f"call {full} {name}({at}, {active}, {full} zeroinitializer)", type_, lanes)


def _load_each(frame: Frame, pointers: Value, type_: str, mask: Value | None, align: int) -> Value:
    """A scalar load for each lane; masked-off lanes read a zero of the module.

    Processors gather no elements this narrow, and LLVM would branch around every lane.
    """
    b, lanes = frame.b, pointers.lanes
    if mask is not None:
        zeros = "@weft_zeros"
        b.support.setdefault(
            zeros, f"{zeros} = internal constant [8 x i8] zeroinitializer, align 8\n"
        )
        pointers = b.select(mask, pointers, Value(zeros, "ptr"))
    vector = Value("poison", type_, lanes)
    for lane in map(integer, range(lanes)):
        element = b.load(b.extract(pointers, lane), type_, align=align)
        vector = b.insert(vector, element, lane)
    return vector


def _strided_load(frame: Frame, buffer: Binding, offset: Ramp, type_: str, active: Value) -> Value:
    """Every ``stride``-th element out of whole vectors; nothing beyond the last one is accessed.

    ``active``: the number of leading active lanes (an int64).
    """
    b, lanes, align = frame.b, offset.lanes, buffer.dtype.itemsize
    stride = int(offset.stride.const or 1)
    span = b.add(b.mul(b.add(active, integer(-1)), integer(stride)), integer(1))
    assert isinstance(span, Value)
    gathered: Value | None = None
    starts = list(range(0, (lanes - 1) * stride + 1, lanes))
    if span.const is not None and span.const >= lanes:  # the last overlaps, which saves its mask
        starts = [min(start, int(span.const) - lanes) for start in starts if start < span.const]
    for start in starts:
        pointer = b.element(
            buffer.pointer, type_, b.materialise(b.add(offset.base, integer(start)))
        )
        left = clamped(frame, b.materialise(b.add(span, integer(-start))), lanes)
        mask = None if left.const == lanes else first_lanes(frame, left, lanes)
        piece = _vector_load(frame, pointer, type_, lanes, mask, align)
        if gathered is None:
            gathered = b.shuffle(piece, None, [min(k * stride, lanes - 1) for k in range(lanes)])
            continue
        wanted = [k * stride - start for k in range(lanes)]
        picks = [lanes + w if 0 <= w < lanes else k for k, w in enumerate(wanted)]
        gathered = b.shuffle(gathered, piece, picks)
    assert gathered is not None
    return gathered


def clamped(frame: Frame, count: Value, most: int) -> Value:
    """``count`` clamped to 0 … ``most``."""
    if count.const is not None:
        return integer(min(max(int(count.const), 0), most))
    return frame.b.intrinsic("smax", frame.b.intrinsic("smin", count, integer(most)), integer(0))


def first_lanes(frame: Frame, count: Value, lanes: int) -> Value:
    """A mask of the first ``count`` lanes, ``count`` an int64 in 0 … lanes."""
    b = frame.b
    if count.const is not None:
        bits = ", ".join(f"i1 {'true' if k < count.const else 'false'}" for k in range(lanes))
        return Value(f"<{bits}>", "i1", lanes)
    width = max(8, min(32, frame.target.vector_bytes * 8 // lanes))
    type_ = f"i{width}"
    limit = b.splat(b.cast("trunc", count, type_), lanes)
    return b.compare("icmp ult", b.lane_numbers(lanes, type_), limit)


def prefetch(frame: Frame, buffer: Binding, offset: Index, hint: Prefetch) -> None:
    """Prefetch the cache line at ``offset``, and each line of consecutive lanes; other patterns of
    lanes are not prefetched."""
    b, size, lines = frame.b, frame.machine.line, 1
    if isinstance(offset, Ramp) and offset.stride.const == 1:
        offset, lines = offset.base, -(-offset.lanes * buffer.dtype.itemsize // size)
    if buffer.scope == "register" or isinstance(offset, Ramp) or offset.lanes:
        return
    b.declare("void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    for line in range(lines):
        at = b.add(offset, integer(line * size // buffer.dtype.itemsize))
        assert isinstance(at, Value)
        pointer = b.element(buffer.pointer, memory_type(buffer.dtype), at)
        hints = f"i32 {int(hint.write)}, i32 {2 if hint.far else 3}, i32 1"
        b.line(f"call void @llvm.prefetch.p0({pointer}, {hints})")


def load_words(
    frame: Frame,
    buffer: Binding,
    offset: Index,
    depth: int,
    mask: Value | None,
    count: int | None = None,
) -> Value:
    """``depth`` elements from ``offset`` on, in each active lane, as one integer; a scalar if
    uniform. Masked-off lanes, and elements from the ``count``-th on, are zeros; no memory is
    accessed for them."""
    b, align = frame.b, buffer.dtype.itemsize
    bits = buffer.dtype.storage_bits
    type_ = f"i{depth * bits}"
    element, lanes = memory_type(buffer.dtype), frame.lanes
    if mask is not None:
        lanes = frame.narrowed(frame.spread(mask), may_be_empty=True)
    short = count is not None and count < depth
    if isinstance(offset, Ramp) and offset.stride.const == depth:
        at = b.element(buffer.pointer, element, offset.base)
        if not short:
            return _vector_load(frame, at, type_, offset.lanes, lanes.mask, align)
        places = range(depth * offset.lanes)
        there = ", ".join(f"i1 {'true' if k % depth < (count or 0) else 'false'}" for k in places)
        within = Value(f"<{there}>", "i1", len(places))
        if lanes.mask is not None:
            within = b.binary(
                "and", within, b.shuffle(lanes.mask, None, [k // depth for k in places])
            )
        words = _vector_load(frame, at, f"i{bits}", len(places), within, align)
        return b.cast("bitcast", words, type_, offset.lanes)
    if short:
        parts = [
            b.cast("zext", load_words(frame, buffer, b.add(offset, integer(k)), 1, mask), type_)
            for k in range(count or 0)
        ]
        for k, part in enumerate(parts[1:], 1):
            moved = b.binary("shl", part, integer(k * bits, type_))
            parts[0] = b.binary("or", parts[0], moved)
        return parts[0]
    at = b.element(buffer.pointer, element, b.materialise(offset))
    if at.lanes:
        return _load_each(frame, at, type_, lanes.mask, align)
    if lanes.mask is None or not lanes.may_be_empty:
        return b.load(at, type_, align=align)
    return _guarded_load(frame, at, type_, lanes.mask, align)
