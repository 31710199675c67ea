"""Loads and stores of the first lanes of a vector, where masks do not serve its elements.

    x[0 … n)  →  if n & 1: v = x[n & -2] . v;  if n & 2: v = x[n & -4 … + 2) . v;  …

Blocks of powers of two elements, the largest first in memory. LLVM would branch around every lane.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.codegen.llvm.builder import Builder, Value, integer
from weft.codegen.llvm.frame import Frame


def leading_count(frame: Frame, size: int) -> Value | None:
    """How many lanes are active, if these are the first ones and elements of ``size`` bytes have
    no masks."""
    lanes = frame.lanes
    if masks_serve(frame, size) or lanes.mask is None or lanes.count & (lanes.count - 1):
        return None
    return first_active(frame)


def masks_serve(frame: Frame, size: int) -> bool:
    """Whether vectors of elements of ``size`` bytes are loaded and stored under masks."""
    elements = frame.machine.elements
    return frame.target.vector_bytes >= elements.masked or size >= elements.mask


def first_active(frame: Frame) -> Value | None:
    """How many lanes are active (an int64), if these are the first ones; None if that is not
    known."""
    b, lanes = frame.b, frame.lanes
    if lanes.mask is None:
        return integer(lanes.count)
    if lanes.first is not None or lanes.mask.text not in frame.bounds:
        return lanes.first
    count = b.binary("sub", *frame.bounds[lanes.mask.text])
    return b.intrinsic("smax", b.intrinsic("smin", count, integer(lanes.count)), integer(0))


def load_leading(
    b: Builder, pointer: Value, type_: str, lanes: int, count: Value, align: int
) -> Value:
    """The first ``count`` of ``lanes`` integers of ``type_`` at ``pointer``; zeros behind them."""
    loaded = b.splat(integer(0, type_), lanes)
    for k in _powers(lanes):
        before, inside, after = b.label, b.new_label("some"), b.new_label("others")
        at = _branch(b, pointer, type_, count, k, inside, after)
        word = _word(type_, k)
        if k == lanes:
            joined = b.load(at, type_, lanes, align)
        elif word:
            moved = b.shuffle(loaded, None, [*[-1] * k, *range(lanes - k)])
            words = b.cast("bitcast", moved, word, lanes // k)
            words = b.insert(words, b.load(at, word, align=align), integer(0))
            joined = b.cast("bitcast", words, type_, lanes)
        else:
            part = b.shuffle(b.load(at, type_, k, align), None, [*range(k), *[-1] * (lanes - k)])
            joined = b.shuffle(part, loaded, [*range(k), *range(lanes, 2 * lanes - k)])
        b.jump(after)
        b.at(after)
        loaded = b.phi((joined, inside), (loaded, before))
    return loaded


def store_leading(b: Builder, pointer: Value, value: Value, count: Value, align: int) -> None:
    """Store the first ``count`` integers of ``value`` at ``pointer``."""
    lanes = value.lanes
    for k in reversed(list(_powers(lanes))):
        before, inside, after = b.label, b.new_label("some"), b.new_label("others")
        at = _branch(b, pointer, value.type, count, k, inside, after)
        word = _word(value.type, k)
        if word and k < lanes:
            words = b.cast("bitcast", value, word, lanes // k)
            b.store(b.extract(words, integer(0)), at, align)
        else:
            b.store(b.shuffle(value, None, list(range(k))), at, align)
        moved = b.shuffle(value, None, [*range(k, lanes), *[-1] * k])
        b.jump(after)
        b.at(after)
        value = b.phi((moved, inside), (value, before))


def _word(type_: str, k: int) -> str:
    """The integer of ``k`` elements of ``type_``; none where that fits no register."""
    bits = k * int(type_[1:])
    return f"i{bits}" if bits <= 64 else ""


def _powers(lanes: int) -> Iterator[int]:
    return (1 << k for k in range(lanes.bit_length()))


def _branch(
    b: Builder, pointer: Value, type_: str, count: Value, k: int, inside: str, after: str
) -> Value:
    """To ``inside`` if ``count`` has a block of ``k`` elements, whose address is the result."""
    has = b.compare("icmp ne", b.binary("and", count, integer(k)), integer(0))
    b.branch(has, inside, after)
    b.at(inside)
    return b.element(pointer, type_, b.binary("and", count, integer(-2 * k)))
