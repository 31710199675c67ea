"""Stores: how an address varies over the lanes decides the instruction (see ``llvm_memory``)."""

from __future__ import annotations

from weft.codegen.llvm_builder import Ramp, Value, integer
from weft.codegen.llvm_frame import Binding, Frame
from weft.codegen.llvm_memory import (
    GATHERED,
    backwards,
    fills_row,
    is_whole,
    lowest,
    memory_type,
    pointers_of,
    short_name,
)

_STREAMED = 16  # bytes of the shortest vectors that go past the caches
_MASKED = 64  # bytes of vectors of processors that store under masks quickly


def store(
    frame: Frame,
    buffer: Binding,
    offset: Value | Ramp,
    value: Value,
    streams: Value | None = None,
) -> None:
    """Store ``value`` at ``offset`` in every active lane; in lane order where addresses meet.
    Past the caches if ``streams``, an i1, and where processors can."""
    store_stored(frame, buffer, offset, frame.ops.store_bits(value, buffer.dtype), streams)


def store_stored(
    frame: Frame,
    buffer: Binding,
    offset: Value | Ramp,
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
        if mask is None and streams is not None:
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
    """Store bits in ``memory_type`` from the element at ``offset`` on, side by side."""
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


def _leaves_gaps(frame: Frame, buffer: Binding) -> bool:
    """Whether two vectors under masks are quicker than an element at a time: where processors have
    masks, and no load has to wait until what a mask let through has reached the cache."""
    wide = frame.target.vector_bytes >= _MASKED
    return wide and buffer.dtype.itemsize == GATHERED and not buffer.loaded


def _every_other_store(frame: Frame, buffer: Binding, offset: Ramp, value: Value) -> None:
    """Two vectors with a gap behind each element, which the mask leaves as it is."""
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
    """A vector store past the caches if ``streams`` and its address is a multiple of its size, or
    of a register's, as processors demand; both are the same throughout a row, so that the jump
    costs nothing."""
    b, lanes = frame.b, min(value.lanes, frame.target.vector_bytes // align)
    size = lanes * align
    if size < _STREAMED or size & (size - 1) or value.lanes % lanes:
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
    """What was stored past the caches is seen by whoever sees what is stored after this."""
    if frame.streams and frame.target.triple.startswith(("x86_64", "i386", "i686")):
        frame.b.declare("void @llvm.x86.sse.sfence()")
        frame.b.line("call void @llvm.x86.sse.sfence()")


def _scatter(frame: Frame, pointers: Value, value: Value, mask: Value | None, align: int) -> None:
    b, lanes = frame.b, value.lanes
    if align < GATHERED:
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
