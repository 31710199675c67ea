"""Transposed copies between memory and registers: whole vectors and shuffles between them.

    for a in 0 … A unrolled:  for b in 0 … B vector:  T[b, a] = M[i + a, j + b]

Element by element this would be A · B loads or stores. ``A`` vectors of ``B`` elements are loaded
along the rows of one side, transposed in squares side by side, and stored as ``B`` vectors of ``A``
elements along the rows of the other. One side is a register buffer, so that they do not alias.

A square of 2ⁿ rows takes n rounds of shuffles between pairs of rows. A round exchanges one bit of
the row's number with one of the lane's: within 16 bytes pairs are interleaved (``unpck``), later
rounds move 16 bytes at a time (``shuf32x4``), so that each is one instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.codegen.llvm.builder import Builder, Index, Ramp, Value, integer, power_above
from weft.codegen.llvm.expressions import evaluate_all, streams_now
from weft.codegen.llvm.frame import Binding, Frame, Lanes
from weft.codegen.llvm.memory import address, first_lanes, load_stored
from weft.codegen.llvm.store import store_stored
from weft.ir.loop_ir import For, Store
from weft.ir.scalar_expr import Expr, Literal, Load, Var, walk

_WIDEST = 64  # vectors or lanes of a block


@dataclass(frozen=True, slots=True)
class _Side:
    """Vectors of ``lanes`` elements of ``buffer`` at ``first``, ``first + step`` …"""

    buffer: Binding
    first: Ramp
    step: Value
    lanes: int

    def at(self, b: Builder, number: int) -> Ramp:
        """The offset of vector ``number``."""
        found = b.add(self.first, b.mul(self.step, integer(number)))
        assert isinstance(found, Ramp)
        return found

    def in_force(self, frame: Frame) -> Lanes:
        """``lanes``: exactly, or of a whole vector."""
        if self.first.lanes == self.lanes:
            return Lanes(self.lanes)
        active = integer(self.lanes)
        return Lanes(self.first.lanes, first_lanes(frame, active, self.first.lanes), first=active)


def emit_transpose(frame: Frame, loop: For) -> bool:
    """Emit ``loop`` as a transposed copy; False, with nothing that has effects emitted, if it is
    none."""
    found = _copy(frame, loop)
    if found is None:
        return False
    source, target, streams = found
    rows = []
    with frame.within(source.in_force(frame)):
        for number in range(target.lanes):
            rows.append(load_stored(frame, source.buffer, source.at(frame.b, number)))
    columns = _transposed(frame, rows, source.lanes, source.buffer.dtype.itemsize)
    with frame.within(target.in_force(frame)):
        for number, (value, lanes) in enumerate(columns):
            lanes = (lanes + [-1] * target.first.lanes)[: target.first.lanes]
            if lanes != list(range(value.lanes)):
                value = frame.b.shuffle(value, None, lanes)
            at = target.at(frame.b, number)
            store_stored(frame, target.buffer, at, value, streams)
    return True


def _transposed(
    frame: Frame, rows: Sequence[Value], columns: int, size: int
) -> list[tuple[Value, list[int]]]:
    """The first ``columns`` columns of ``rows``, of elements of ``size`` bytes: each as (vector,
    its lanes), padded for missing rows."""
    b, chunk = frame.b, frame.machine.elements.chunk
    side, width = sorted((power_above(len(rows)), power_above(columns)))
    wide = len(rows) <= columns
    padded = [_resized(b, row, width if wide else side) for row in rows]
    padded += [Value("poison", rows[0].type, padded[0].lanes)] * (
        power_above(len(rows)) - len(rows)
    )
    joined = padded if wide else [b.joined(padded[k::side]) for k in range(side)]
    done = _squares(b, joined, side, size, chunk)
    starts = range(0, width, side) if wide else (0,)
    many = side if wide else width
    return [(v, list(range(k, k + many))) for k in starts for v in done][:columns]


def _squares(b: Builder, rows: Sequence[Value], side: int, size: int, chunk: int) -> list[Value]:
    """``side`` rows with each square of ``side`` lanes transposed, of elements of ``size``
    bytes, which processors interleave within ``chunk`` bytes."""
    lanes = range(rows[0].lanes)
    inner = min(side, max(chunk // size, 1))  # lanes of a square that lie in one chunk
    found = list(rows)
    bit = inner // 2
    while bit:
        # Row bit out, highest lane bit of the chunk in; the others move up, the row's is lowest.
        order = [c % 2 * rows[0].lanes + c // inner * inner + c % inner // 2 for c in lanes]
        found = _round(b, found, bit, order, inner // 2)
        bit //= 2
    bit = inner
    while bit < side:
        # The lowest bit of the chunk's number comes out, the row's goes in as the highest.
        half, chunk = side // 2, 2 * inner
        order = [
            c % side // half * rows[0].lanes
            + c // side * side
            + c % half // inner * chunk
            + c % inner
            for c in lanes
        ]
        found = _round(b, found, bit, order, inner)
        bit *= 2
    return found


def _round(b: Builder, rows: list[Value], bit: int, order: list[int], other: int) -> list[Value]:
    """Pairs of rows whose numbers differ in ``bit``: shuffled by ``order``, and by ``order`` +
    ``other``."""
    found = list(rows)
    for k in (k for k in range(len(rows)) if not k & bit):
        one, two = rows[k], rows[k + bit]
        if one.text == two.text == "poison":
            continue
        found[k] = b.shuffle(one, two, order)
        found[k + bit] = b.shuffle(one, two, [c + other for c in order])
    return found


def _resized(b: Builder, value: Value, lanes: int) -> Value:
    """The first ``lanes`` of ``value``; lanes beyond its own are arbitrary."""
    if value.lanes == lanes:
        return value
    return b.shuffle(value, None, [k if k < value.lanes else -1 for k in range(lanes)])


def _copy(frame: Frame, loop: For) -> tuple[_Side, _Side, Value | None] | None:
    """(source, target, whether it streams) of a transposed copy."""
    inner = loop.body
    if not isinstance(inner, For) or (loop.kind, inner.kind) != ("unrolled", "vector"):
        return None
    copied = inner.body
    if frame.lanes.count or not isinstance(copied, Store) or not isinstance(copied.value, Load):
        return None
    target, source = (frame.bindings[str(n)] for n in (copied.buffer, copied.value.source))
    if [target.scope, source.scope].count("register") != 1 or target.dtype != source.dtype:
        return None
    for row, column in ((loop, inner), (inner, loop)):
        loaded = _side(frame, source, copied.value.indices, row, column, _masks(frame, source))
        quickly = (
            _masks(frame, target) and not target.loaded
        )  # no store forwarding from masked stores
        stored = _side(frame, target, copied.indices, column, row, quickly)
        if loaded is not None and stored is not None and _is_injective(copied, loop, inner, stored):
            return loaded, stored, streams_now(frame, copied)
    return None


def _is_injective(copied: Store, row: For, column: For, stored: _Side) -> bool:
    """Whether each iteration stores another element, so that the order may change."""
    step = stored.step.const
    if step is not None:
        return abs(int(step)) >= stored.lanes
    names = [{n.name for n in walk(i) if isinstance(n, Var)} for i in copied.indices]
    return any((row.var in each) != (column.var in each) for each in names)


def _side(
    frame: Frame,
    buffer: Binding,
    indices: Sequence[Expr],
    number: For,
    along: For,
    masked: bool,
) -> _Side | None:
    """The access as a vector along the loop ``along`` for each iteration of ``number``, if it is
    one; ``masked``: by masks rather than by powers of two of lanes."""
    count, lanes = _trip_count(number), _trip_count(along)
    if not (2 <= count <= _WIDEST and 2 <= lanes <= _WIDEST):
        return None
    width = power_above(lanes) if buffer.scope == "register" or masked else lanes
    iteration = Ramp(integer(0), integer(1), count)
    first = _address(frame, buffer, indices, number, along, Ramp(integer(0), integer(1), width))
    steps = _address(frame, buffer, indices, along, number, iteration)
    if not isinstance(first, Ramp) or not isinstance(steps, Ramp):
        return None
    return _Side(buffer, first, steps.stride, lanes) if first.stride.const in (1, -1) else None


def _masks(frame: Frame, buffer: Binding) -> bool:
    """Whether one masked access is faster than one for each power of two of lanes."""
    elements = frame.machine.elements
    wide = frame.target.vector_bytes >= elements.masked
    return wide and buffer.dtype.itemsize >= elements.mask


def _address(
    frame: Frame, buffer: Binding, indices: Sequence[Expr], fixed: For, moving: For, lanes: Ramp
) -> Index:
    """The address in the first iteration of ``fixed``, for ``lanes`` iterations of ``moving``."""
    names = frame.names
    frame.names = {**names, fixed.var: integer(0), moving.var: lanes}
    with frame.within(Lanes(lanes.lanes)):
        found = address(frame, buffer, evaluate_all(frame, indices))
    frame.names = names
    return found


def _trip_count(loop: For) -> int:
    """The trip count of a loop from 0 with step 1; 0 if it is none."""
    if loop.lower != Literal(0, loop.lower.dtype) or loop.step != 1:
        return 0
    return int(loop.upper.value) if isinstance(loop.upper, Literal) else 0
