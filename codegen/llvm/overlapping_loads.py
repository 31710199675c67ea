"""Overlapping vector loads are loaded once and shifted in registers.

    y[v] = x[v-1] + x[v] + x[v+1]     →     before = the last lanes of x[… v]
    (three loads, each of two lines)        each iteration:  last = x[v+1 … v+W]
                                                             x[v-1], x[v] = lanes of before and last
                                                             before = last

If a vector is as long as a cache line, at most one of the loads at W neighbouring offsets is within
one line: each of the others is two accesses, which bound a stencil in L1. The furthest load of an
iteration is kept for the next one.

Reference: data reorganisation on streams, Eichenberger et al., PLDI 2004; scalar replacement of
vectors as in Henretty et al., CC 2011.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weft.codegen.llvm.builder import Ramp, Value, integer
from weft.codegen.llvm.expressions import evaluate_all
from weft.codegen.llvm.frame import Frame, Lanes
from weft.codegen.llvm.memory import address, load
from weft.ir.loop_ir import (
    Block,
    Comment,
    For,
    Let,
    Stmt,
    Store,
    Update,
    walk,
)
from weft.ir.scalar_affine import Affine, to_affine
from weft.ir.scalar_expr import Expr, Load, Select

_KEPT = 6  # vectors that are kept in registers between iterations


@dataclass(frozen=True, slots=True)
class _Row:
    """Loads of neighbouring elements: ``last``, and the nodes with their distances before it."""

    last: Load
    places: tuple[tuple[int, Load], ...]

    @property
    def reach(self) -> int:
        return max(distance for distance, _ in self.places)


class OverlappingLoads:
    """The rows of one vector loop over whole vectors of ``width`` lanes."""

    def __init__(self, frame: Frame, loop: For, width: int) -> None:
        self.frame, self.loop, self.width = frame, loop, width
        self._rows = _rows(frame, loop, width)[:_KEPT]
        self._before: list[Value] = []

    @property
    def there(self) -> bool:
        """Whether there are any, so that each vector needs the one before."""
        return bool(self._rows)

    def start(self, lower: Value, some: Value) -> None:
        """Before the iterations from ``lower`` on; ``some`` (an i1): there is at least one."""
        b, width = self.frame.b, self.width
        for row in self._rows:
            # The load furthest back in the first iteration, whose first lanes are the last of the
            # vector before. A masked load from before the array is slow at the start of a page.
            with self.frame.within(Lanes(width, b.splat(some, width))):
                first = self._load(row.last, lower, -row.reach)
            lanes = [max(0, k - (width - row.reach)) for k in range(width)]
            self._before.append(b.cell(b.shuffle(first, None, lanes)))

    def iteration(self, index: Value) -> dict[int, Value]:
        """The values of the loads of the iteration at ``index``, by the node's identity."""
        b, width = self.frame.b, self.width
        known: dict[int, Value] = {}
        with self.frame.within(Lanes(width)):
            for row, cell in zip(self._rows, self._before, strict=True):
                last = self._load(row.last, index, 0)
                before = b.load(cell, last.type, width)
                shifted: dict[int, Value] = {0: last}
                for distance, node in row.places:
                    if distance not in shifted:
                        lanes = list(range(width - distance, 2 * width - distance))
                        shifted[distance] = b.shuffle(before, last, lanes)
                    known[id(node)] = shifted[distance]
                b.store(last, cell)
        return known

    def _load(self, node: Load, index: Value, offset: int) -> Value:
        frame, b = self.frame, self.frame.b
        names = frame.names
        frame.names = {**names, self.loop.var: Ramp(index, integer(1), self.width)}
        buffer = frame.bindings[str(node.source)]
        at = address(frame, buffer, evaluate_all(frame, node.indices))
        frame.names = names
        return load(frame, buffer, b.add(at, integer(offset)))


def _rows(frame: Frame, loop: For, width: int) -> list[_Row]:
    """Rows that ``loop`` loads unconditionally at several offsets, at most one vector apart."""
    line, shift = frame.machine.line, frame.machine.elements.shift
    if loop.step != 1 or frame.target.vector_bytes < line:  # shorter ones seldom cross one
        return []
    written = [target for stmt in walk(loop.body) for target in _targets(stmt)]
    rows: dict[tuple[object, ...], list[tuple[int, Load]]] = {}
    bound = {stmt.name for stmt in walk(loop.body) if isinstance(stmt, Let)}
    for node in _loads(loop.body):
        buffer = frame.bindings.get(str(node.source))
        if buffer is None or buffer.scope != "global" or buffer.private:
            continue
        if any(name in buffer.overlaps for name, _ in written):
            continue
        size = buffer.dtype.itemsize
        along = buffer.strides[-1:]
        if size < shift or size * width < line or not along or along[0].const != 1:
            continue
        found = _place(node, loop.var, bound)
        same = (indices for name, indices in written if name == node.source)
        if found is not None and all(_other_row(indices, found[0]) for indices in same):
            rows.setdefault((node.source, *found[0]), []).append((found[1], node))
    return [row for places in rows.values() if (row := _row(places, width)) is not None]


def _row(places: list[tuple[int, Load]], width: int) -> _Row | None:
    far = max(place for place, _ in places)
    last = next(node for place, node in places if place == far)
    near = tuple((far - place, node) for place, node in places if far - place <= width)
    return _Row(last, near) if len({distance for distance, _ in near}) > 1 else None


def _place(node: Load, var: str, bound: set[str]) -> tuple[tuple[Affine, ...], int] | None:
    """The row that ``node`` loads from, and its constant offset in the row."""
    forms = [to_affine(index) for index in node.indices]
    found = [form for form in forms if form is not None]
    if not found or len(found) < len(forms) or any(f.variables() & bound for f in found):
        return None
    *outer, last = found
    along = Affine(((var, 1),))
    if any(var in form.variables() for form in (*outer, last - along)):
        return None
    return (*outer, last.plus(-last.constant)), last.constant


def _other_row(indices: Sequence[Expr], row: Sequence[Affine]) -> bool:
    """Whether an element at ``indices`` is in another row than ``row``, in every iteration."""
    for index, own in zip(indices[:-1], row[:-1], strict=True):
        form = to_affine(index)
        distance = None if form is None else form - own
        if distance is not None and distance.is_constant and distance.constant:
            return True
    return False


def _targets(stmt: Stmt) -> tuple[tuple[str, tuple[Expr, ...]], ...]:
    """What ``stmt`` itself writes: buffers and indices."""
    match stmt:
        case Store(name, indices):
            return ((name, indices),)
        case Update(targets=targets):
            return targets
    return ()


def _loads(stmt: Stmt) -> Iterator[Load]:
    """The unconditional loads of a straight-line body; none if it is not straight-line code."""
    stmts = list(walk(stmt))
    if not all(isinstance(s, Block | Store | Update | Let | Comment) for s in stmts):
        return
    stack: list[Expr] = []
    for s in stmts:
        match s:
            case Store(value=value) | Let(value=value):
                stack.append(value)
            case Update(values=values):
                stack.extend(values)
    while stack:
        node = stack.pop()
        if isinstance(node, Load):
            yield node
        elif not isinstance(node, Select):
            stack.extend(node.children)
