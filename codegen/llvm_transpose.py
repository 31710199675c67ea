"""Transposed copies between memory and registers: whole vectors and shuffles between them.

    for a in 0 … W unrolled:  for b in 0 … W vector:  T[b, a] = A[i + a, j + b]

Element by element this would be W² loads or stores. ``W`` vectors are loaded along the rows of one
side, transposed in log₂ W rounds that exchange blocks of ever larger size, and stored along the
rows of the other. One of the sides is a register buffer, so nothing overlaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.codegen.llvm_builder import Builder, Ramp, Value, integer
from weft.codegen.llvm_expressions import evaluate_all
from weft.codegen.llvm_frame import Frame, Lanes
from weft.codegen.llvm_memory import address, load, store
from weft.codegen.loop_ir import For, Store
from weft.frontend.scalar_expr import Expr, Literal, Load


@dataclass(frozen=True, slots=True)
class _Copy:
    """``store`` of a ``load``, for all values below ``width`` of two variables: ``row`` counts the
    vectors that are loaded, ``column`` those that are stored."""

    store: Store
    load: Load
    row: str
    column: str
    width: int


def emit_transpose(frame: Frame, loop: For) -> bool:
    """Emit ``loop`` as a transposed copy; False, with nothing emitted, if it is none."""
    found = _copy(frame, loop)
    if found is None:
        return False
    rows = []
    with frame.within(Lanes(found.width)):
        for number in range(found.width):
            indices = _indices(frame, found.load.indices, found, found.row, number)
            buffer = frame.bindings[str(found.load.source)]
            rows.append(load(frame, buffer, address(frame, buffer, indices)))
        for number, value in enumerate(_transposed(frame.b, rows)):
            indices = _indices(frame, found.store.indices, found, found.column, number)
            buffer = frame.bindings[found.store.buffer]
            store(frame, buffer, address(frame, buffer, indices), value)
    return True


def _transposed(b: Builder, rows: Sequence[Value]) -> list[Value]:
    width, half = len(rows), 1
    found = list(rows)
    while half < width:
        lower = [c - half + width if c & half else c for c in range(width)]
        upper = [c + width if c & half else c + half for c in range(width)]
        for k in (k for k in range(width) if not k & half):
            one, two = found[k], found[k + half]
            found[k], found[k + half] = b.shuffle(one, two, lower), b.shuffle(one, two, upper)
        half *= 2
    return found


def _copy(frame: Frame, loop: For) -> _Copy | None:
    inner = loop.body
    if not isinstance(inner, For) or (loop.kind, inner.kind) != ("unrolled", "vector"):
        return None
    copied = inner.body
    if frame.lanes.count or not isinstance(copied, Store) or not isinstance(copied.value, Load):
        return None
    width = _width(loop)
    if width is None or width != _width(inner) or width & (width - 1) or width < 2:
        return None
    scopes = [frame.bindings[str(name)].scope for name in (copied.buffer, copied.value.source)]
    if scopes.count("register") != 1:
        return None
    for row, column in ((loop.var, inner.var), (inner.var, loop.var)):
        found = _Copy(copied, copied.value, row, column, width)
        loaded = _is_vector(frame, str(copied.value.source), copied.value.indices, found, row)
        if loaded and _is_vector(frame, copied.buffer, copied.indices, found, column):
            return found
    return None


def _is_vector(frame: Frame, name: str, indices: Sequence[Expr], copy: _Copy, number: str) -> bool:
    """Whether the access is a vector for each value of ``number``."""
    buffer = frame.bindings[name]
    at = address(frame, buffer, _indices(frame, indices, copy, number, 0))
    return isinstance(at, Ramp) and at.stride.const in (1, -1)


def _indices(
    frame: Frame, indices: Sequence[Expr], copy: _Copy, number: str, value: int
) -> list[Value | Ramp]:
    names = frame.names
    other = copy.column if number == copy.row else copy.row
    lanes = Ramp(integer(0), integer(1), copy.width)
    frame.names = {**names, number: integer(value), other: lanes}
    found = evaluate_all(frame, indices)
    frame.names = names
    return found


def _width(loop: For) -> int | None:
    if loop.lower != Literal(0, loop.lower.dtype) or loop.step != 1:
        return None
    return int(loop.upper.value) if isinstance(loop.upper, Literal) else None
