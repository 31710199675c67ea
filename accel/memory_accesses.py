"""Memory accesses of an instruction, from its semantics and its fields.

An element is what one address holds: the first index of a memory is the address, the others are
within an element. Addresses depend on the instruction's loops, fields and micro-operations, which
are looked up in ``contents``.

``analyse`` finds, once for the semantics: the accesses; *bases*, parameters that only offset
addresses; the parameters that the rest depends on; the memories that addresses are read from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.ir.errors import CompileError, StreamError
from weft.ir.scalar_affine import Affine, to_affine
from weft.ir.scalar_expr import Apply, Expr, Load, Var, walk
from weft.ir.scalar_interpreter import evaluate
from weft.ir.scop import Access, Constraint, Scop, Statement

Array = np.ndarray[Any, Any]
Contents = Mapping[str, Array]  # arrays by the name of the semantics' tensor
MAX_ITERATIONS = 1 << 24  # of one instruction
MAX_NUMBER = 1 << 38  # largest factor in an address


@dataclass(frozen=True, slots=True)
class AccessedElements:
    """``addresses`` in iteration order; ``number``: of the statement, in textual order."""

    tensor: str
    addresses: Array
    writes: bool
    number: int


@dataclass(frozen=True, slots=True)
class Nest:
    """The loops of a statement: affine bounds, as (form, is an equality), and the constraints that
    couple dims or have floors."""

    statement: Statement
    sums: tuple[tuple[Affine, bool], ...]
    masks: tuple[Constraint, ...]


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """An access: its address is the sum of ``bases`` and ``addresses``. ``dims``: those that the
    rest of the address, or the guard, depends on."""

    tensor: str
    writes: bool
    number: int
    nest: Nest
    access: Access
    bases: tuple[str, ...]
    dims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Analysed:
    """``accesses``: in each statement those of ``contents`` first, without duplicates of earlier
    statements; ``shape``: parameters, not derived ones, that addresses without bases depend on;
    ``contents``: tensors."""

    scop: Scop
    accesses: tuple[MemoryAccess, ...]
    shape: tuple[str, ...]
    contents: tuple[str, ...]


def memory_accesses(
    scop: Scop, fields: Mapping[str, int], contents: Contents
) -> Iterator[AccessedElements]:
    """The accesses of an instruction with these ``fields``. Raises as ``analyse`` and ``addresses``
    do."""
    known = parameters(scop, fields)
    for accessed in analyse(scop).accesses:
        found = addresses(accessed, known, contents)
        yield AccessedElements(accessed.tensor, found, accessed.writes, accessed.number)


def parameters(scop: Scop, fields: Mapping[str, int]) -> dict[str, int]:
    """``fields`` with the parameters derived from them."""
    known = dict(fields)
    for name, value in scop.derived:
        known[name] = int(evaluate(value, known))
    return known


# ---- once for the semantics ----------------------------------------------------------------------


def analyse(scop: Scop) -> Analysed:
    """Raises ``CompileError`` (WEFT-E1031) if addresses depend on more than fields, loops and
    memory contents, or loops are unbounded."""
    memories = {t.name for t in scop.tensors if t.role != "temp"}
    found: list[tuple[int, Nest, Access, bool]] = []
    contents: dict[str, None] = {}
    occurring: Counter[str] = Counter()
    added: Counter[str] = Counter()
    for constraint in scop.context:
        occurring += _variables(constraint.expr)
    for number, statement in enumerate(scop.statements):
        nest = _nest(statement)
        _check_bounds(nest)
        for constraint in statement.domain:
            occurring += _variables(constraint.expr)
        reads = [(each, False) for each in statement.reads]
        olds = [(each, False) for each in statement.writes if statement.update is not None]
        for access, writes in (*reads, *olds, *((each, True) for each in statement.writes)):
            if access.tensor not in memories:
                continue
            found.append((number, nest, access, writes))
            for source in _sources(statement, access):
                _check_source(statement, source, memories)
                contents[source.tensor] = None
                occurring += _variables(source.indices[0])  # no base: it selects the word
            for each in (_address(access), *(c.expr for c in access.guard)):
                _check_variables(statement, each, scop)
                occurring += _variables(each)
            added += Counter(_addends(_address(access)))
    moves = {name for name, count in added.items() if count == occurring[name]} & {
        *scop.parameters
    } - dict(scop.derived).keys()
    accesses = [
        MemoryAccess(a.tensor, writes, number, nest, a, _bases(a, moves), _moving(nest, a))
        for number, nest, a, writes in found
    ]
    accesses.sort(key=lambda r: (r.number, r.writes, r.tensor not in contents))
    distinct = {_identity(accessed): accessed for accessed in reversed(accesses)}
    accesses = [accessed for accessed in accesses if distinct[_identity(accessed)] is accessed]
    shape = tuple(p for p in scop.parameters if p not in moves and p not in dict(scop.derived))
    return Analysed(scop, tuple(accesses), shape, tuple(contents))


def _identity(accessed: MemoryAccess) -> tuple[object, ...]:
    """A key for the set of accessed elements: loops within elements do not matter."""
    statement = accessed.nest.statement
    inner = {*statement.dims} - {*accessed.dims}
    sums = [each for each in accessed.nest.sums if not each[0].variables() <= inner]
    address, guard = _address(accessed.access), accessed.access.guard
    sources = tuple(_sources(statement, accessed.access))
    return (
        accessed.tensor,
        accessed.writes,
        address,
        sources,
        guard,
        tuple(sums),
        accessed.nest.masks,
    )


def _bases(access: Access, moves: set[str]) -> tuple[str, ...]:
    return tuple(name for name in _addends(_address(access)) if name in moves)


def _variables(expr: Expr) -> Counter[str]:
    return Counter(node.name for node in walk(expr) if isinstance(node, Var))


def _addends(expr: Expr) -> list[str]:
    """Variables that are terms of the sum ``expr``, with coefficient 1."""
    match expr:
        case Var():
            return [expr.name]
        case Apply("add", (left, right)):
            return _addends(left) + _addends(right)
        case Apply("sub", (left, _)):
            return _addends(left)
    return []


def _sources(statement: Statement, access: Access) -> list[Access]:
    """The reads that the address depends on."""
    loads = (node for node in walk(_address(access)) if isinstance(node, Load))
    return [statement.reads[_number(node.source)] for node in loads]


def _check_source(statement: Statement, source: Access, memories: set[str]) -> None:
    if source.may or source.guard or source.tensor not in memories or len(source.indices) != 1:
        raise _not_understood(
            statement,
            f"an address depends on {source.tensor!r} in a way that is not understood",
            "addresses are made of fields, loops and what a memory of numbers holds at a place"
            " that fields and loops give",
        )


def _check_variables(statement: Statement, expr: Expr, scop: Scop) -> None:
    known = {*statement.dims, *scop.parameters, *dict(scop.derived)}
    if other := sorted(_variables(expr).keys() - known):
        raise _not_understood(
            statement, f"an address depends on {other[0]!r}", "which is computed from data"
        )


def _nest(statement: Statement) -> Nest:
    sums, masks = [], []
    for constraint in statement.domain:
        form = to_affine(constraint.expr)
        floors = form is None or any(not isinstance(term, str) for term, _ in form.terms)
        dims = set(statement.dims) & _variables(constraint.expr).keys()
        if form is not None and not floors:
            sums.append((form, constraint.equality))
        if floors or len(dims) > 1 or (constraint.equality and dims):
            masks.append(constraint)
    return Nest(statement, tuple(sums), tuple(masks))


def _check_bounds(nest: Nest) -> None:
    """Every loop is bounded by fields and outer loops."""
    dims = nest.statement.dims
    for place, dim in enumerate(dims):
        signs = set()
        for form, equality in nest.sums:
            if not form.variables() & {*dims[place + 1 :]}:
                sign = form.coefficient(dim)
                signs |= {1, -1} if equality and sign else {(sign > 0) - (sign < 0)}
        if not {1, -1} <= signs:
            raise _not_understood(
                nest.statement,
                f"the loop over {dim} has no bounds",
                "bounds are sums of fields, and of multiples of loops around it",
            )


def _moving(nest: Nest, access: Access) -> tuple[str, ...]:
    exprs = [_address(access), *(c.expr for c in (*access.guard, *nest.masks))]
    exprs += [index for each in _sources(nest.statement, access) for index in each.indices]
    found = {name for expr in exprs for name in _variables(expr)}
    return tuple(dim for dim in nest.statement.dims if dim in found)


def _not_understood(statement: Statement, what: str, why: str) -> CompileError:
    where = statement.origin.source if statement.origin is not None else statement.name
    return CompileError("WEFT-E1031", what, where=where, why=why)


# ---- for one instruction -------------------------------------------------------------------------


def addresses(accessed: MemoryAccess, known: Mapping[str, int], contents: Contents) -> Array:
    """The addresses in iteration order, for parameters ``known``.

    Raises ``StreamError`` (WEFT-E1040) for too many iterations, too large numbers, and
    micro-operations out of bounds.
    """
    nest, dims = accessed.nest, accessed.dims
    statement = nest.statement
    if large := [f"{name} = {v}" for name, v in known.items() if abs(v) > MAX_NUMBER]:
        raise StreamError("WEFT-E1040", large[0], why=f"addresses are made of up to {MAX_NUMBER:,}")
    ranges = _ranges(nest, known)
    if ranges is None:
        return np.zeros(0, np.int64)
    iterations = 1
    for dim in dims:
        iterations *= ranges[dim][1] - ranges[dim][0] + 1
    if iterations > MAX_ITERATIONS:
        raise StreamError(
            "WEFT-E1040",
            f"{iterations:,} turns",
            why=f"an instruction has {MAX_ITERATIONS:,} at most",
        )
    values: dict[str, Array] = {name: np.asarray(value, np.int64) for name, value in known.items()}
    for dim in statement.dims:
        low, high = ranges[dim]
        shape = [-1 if d == dim else 1 for d in dims]
        values[dim] = np.arange(low, high + 1).reshape(shape) if dim in dims else np.asarray(low)

    def load(source: Hashable, _: tuple[Array, ...]) -> Array:
        read = statement.reads[_number(source)]
        place, held = evaluate(read.indices[0], values), contents[read.tensor]
        if place.size and not 0 <= place.min() <= place.max() < len(held):
            raise StreamError(
                "WEFT-E1040",
                f"{read.tensor}[{place.min()}] to {read.tensor}[{place.max()}] is read",
                why=f"it has {len(held)} elements",
            )
        return held[place]

    found = evaluate(_address(accessed.access), values, load)
    full = np.broadcast_shapes(*(v.shape for v in values.values()))
    held = np.broadcast_to(_holds((*nest.masks, *accessed.access.guard), values), full)
    every: Array = np.broadcast_to(found, full)[held]
    return every


def _ranges(nest: Nest, known: Mapping[str, int]) -> dict[str, tuple[int, int]] | None:
    """The least and the greatest value of each dim; None if there is no instance."""
    found: dict[str, tuple[int, int]] = {}
    for dim in nest.statement.dims:
        low, high = _limits(dim, nest.sums, known, found)
        if low > high:
            return None
        found[dim] = low, high
    for form, equality in nest.sums:
        if not form.variables() & found.keys():
            value, _ = _sum(form, "", known, {})
            if value < 0 or (equality and value):
                return None
    return found


def _limits(
    dim: str,
    forms: tuple[tuple[Affine, bool], ...],
    known: Mapping[str, int],
    outer: Mapping[str, tuple[int, int]],
) -> tuple[int, int]:
    """Of ``dim``, whose loop is inside of those over ``outer``."""
    lows: list[int] = []
    highs: list[int] = []
    for form, equality in forms:
        c = form.coefficient(dim)
        if not c or form.variables() - known.keys() - outer.keys() - {dim}:
            continue
        least, most = _sum(form, dim, known, outer)
        if c > 0:  # c dim + rest >= 0
            lows.append(-(most // c))
            highs += [-least // c] if equality else []
        else:
            highs.append(most // -c)
            lows += [-(-least // -c)] if equality else []
    return max(lows), min(highs)


def _sum(
    form: Affine, without: str, known: Mapping[str, int], ranges: Mapping[str, tuple[int, int]]
) -> tuple[int, int]:
    """The least and the greatest value of ``form`` except for one of its terms."""
    least = most = form.constant
    for term, c in form.terms:
        if term != without:
            assert isinstance(term, str)
            ends = ranges.get(term) or (known[term], known[term])
            least += min(c * end for end in ends)
            most += max(c * end for end in ends)
    return least, most


def _address(access: Access) -> Expr:
    return access.body_indices[0] if access.may else access.indices[0]


def _number(source: Hashable) -> int:
    assert isinstance(source, int), "a body loads reads by number"
    return source


def _holds(guard: tuple[Constraint, ...], values: Mapping[str, Array]) -> Array:
    held = np.asarray(True)
    for each in guard:
        value = evaluate(each.expr, values)
        held = held & (value == 0 if each.equality else value >= 0)
    return held
