"""One block of a matrix unit, recognised in its loops: its operands and their strides.

for r < rows: for l < lanes: for q < steps:       all of them on the unit
  tile[r, l] += A[…] * B[…]                       A without l, B without r; perhaps masked
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weft.ir.instruction import Instruction
from weft.ir.loop_ir import Block, For, Let, Stmt, Store, Update, children
from weft.ir.scalar_affine import Affine, to_affine
from weft.ir.scalar_expr import Expr, Literal, Load, Select, Var, literal, substitute
from weft.ir.scalar_match import matches
from weft.polyhedral.analysis.linear import mentions

Distances = list[list[int]]  # for each value of a variable: of each index, from its first value


@dataclass(frozen=True, slots=True)
class Source:
    """``load`` where ``mask`` holds, 0 elsewhere."""

    load: Load
    mask: Expr | None = None

    @property
    def buffer(self) -> str:
        return str(self.load.source)

    def distances(self, name: str, count: int, start: int = 0) -> Distances | None:
        """How far each index moves while ``name`` takes ``count`` values from ``start`` on; None if
        that depends on other variables."""
        found: Distances = []
        first = self._at(name, start)
        for k in range(count):
            pairs = zip(self._at(name, start + k), first, strict=True)
            moved = [x - y for x, y in pairs if x is not None and y is not None]
            if len(moved) < len(first) or not all(form.is_constant for form in moved):
                return None
            found.append([form.constant for form in moved])
        return found

    def _at(self, name: str, value: int) -> list[Affine | None]:
        """The indices for this value of ``name``."""
        return [to_affine(substitute(i, {name: literal(value)})) for i in self.load.indices]


@dataclass(frozen=True, slots=True)
class Issue:
    """``row``, ``lane`` and ``step``: variables, which start at 0; ``sums``: a buffer."""

    row: str
    lane: str
    step: str
    rows: int
    lanes: int
    steps: Expr
    sums: str
    a: Source
    b: Source

    def strided_rows(self, start: int, rows: int, depth: int) -> bool:
        """Whether ``depth`` steps of ``a`` are contiguous and ``rows`` rows from ``start`` on have
        one stride."""
        found, steps = self.a.distances(self.row, rows, start), self.a.distances(self.step, depth)
        return (
            found is not None and steps is not None and _evenly_spaced(found) and _contiguous(steps)
        )

    def strided_words(self, start: int, lanes: int, depth: int, word: int) -> Distances | None:
        """How far the indices of ``b`` move along ``lanes`` lanes from ``start`` on, if the steps
        of a word are contiguous and words have one stride; None otherwise."""
        found = self.b.distances(self.lane, lanes, start)
        steps = self.b.distances(self.step, depth)
        if (
            found is None
            or steps is None
            or not _evenly_spaced(found)
            or not _evenly_spaced(steps[::word])
        ):
            return None
        parts = [steps[k : k + word] for k in range(0, depth, word)]
        return found if all(_contiguous(part) for part in parts) else None

    def zeroed_by(self, stmt: Stmt) -> bool:
        """Whether ``stmt`` stores zeros to all of the sums and does nothing else."""
        match stmt:
            case For(row, start, end, body=For(lane, left, right, body=Store() as store)):
                box = (start, end), (left, right)
                zero = isinstance(store.value, Literal) and not store.value.value
                whole = box == tuple((literal(0), literal(n)) for n in (self.rows, self.lanes))
                to = store.buffer, store.indices
                return zero and whole and to == (self.sums, (Var(row), Var(lane)))
        return False


def _evenly_spaced(distances: Sequence[list[int]]) -> bool:
    """Whether ``distances`` are multiples of the first."""
    return all(d == [k * n for n in distances[1]] for k, d in enumerate(distances))


def _contiguous(distances: Sequence[list[int]]) -> bool:
    """Whether only the last index moves, by 1 each."""
    *others, last = distances[0]
    return all(d == [*others, last + k] for k, d in enumerate(distances))


def issues_in(stmt: Stmt) -> Iterator[For]:
    """The outermost loops of ``stmt`` that are marked with an instruction."""
    if isinstance(stmt, For) and stmt.instruction is not None:
        yield stmt
        return
    for part in children(stmt):
        yield from issues_in(part)


def issue_of(loop: For, instruction: Instruction) -> Issue | None:
    """``loop`` as one block of ``instruction``; None if it is none."""
    loops: list[For] = []
    lets: dict[str, Expr] = {}
    stmt: Stmt = loop
    while not isinstance(stmt, Update):
        match stmt:
            case For() if stmt.instruction == instruction and stmt.lower == literal(0):
                loops.append(stmt)
                stmt = stmt.body
            case Let(name, value, body):
                lets[name] = substitute(value, lets)
                stmt = body
            case Block((single,)):
                stmt = single
            case _:
                return None
    match loops, stmt:
        case [For() as row, For() as lane, For() as step], Update(((sums, at),), _, (value,)):
            sources = _sources(instruction, substitute(value, lets), row.var, lane.var)
            rows, lanes = (_trip_count(x, i) for x, i in zip((row, lane), at, strict=True))
            if sources is not None and rows and lanes:
                names = row.var, lane.var, step.var
                return Issue(*names, rows, lanes, step.upper, sums, *sources)
    return None


def _trip_count(loop: For, index: Expr) -> int:
    """The trip count of ``loop`` if its variable is ``index``; 0 otherwise."""
    trips = int(loop.upper.value) if isinstance(loop.upper, Literal) else 0
    return trips if index == Var(loop.var) or (index == literal(0) and trips == 1) else 0


def _sources(
    instruction: Instruction, value: Expr, row: str, lane: str
) -> tuple[Source, Source] | None:
    for found in matches(instruction.value, value):
        operands = {instruction.tensors[number]: expr for number, expr in found.items()}
        if mentions(operands["a"], (lane,)) or mentions(operands["b"], (row,)):
            continue
        a, b = map(_source, (operands["a"], operands["b"]))
        if a is not None and b is not None:
            return a, b
    return None


def _source(expr: Expr) -> Source | None:
    match expr:
        case Load():
            return Source(expr)
        case Select(mask, Load() as load, Literal(value)) if not value:
            return Source(load, mask)
    return None
