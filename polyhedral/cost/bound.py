"""What no schedule of a program on a machine can avoid: seconds that hold by construction.

Arithmetic: multiplications, and additions, that each instance has to do itself, at the greatest
rate of all threads. Bytes: each element of an argument that is certainly touched passes once; what
is more than a cache holds comes from beyond it. Counted is what is certain alone: numbers of
instances that are exact, operands that move along all dims of their statement, nothing in a branch
of a ``Select``, nothing that depends on constants alone. What is not known counts as 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from weft.ir.dtypes import DType
from weft.ir.errors import CompileError
from weft.ir.instruction import Instruction
from weft.ir.machine import Machine
from weft.ir.quasi_affine import affine
from weft.ir.scalar_expr import Apply, Cast, Expr, Load, Select, Var, literal, rewrite, walk
from weft.ir.scop import Access, Constraint, Origin, Scop, Statement
from weft.polyhedral.analysis.counting import Counter, Region, Unbounded, region
from weft.polyhedral.analysis.linear import operand_number
from weft.polyhedral.analysis.polynomials import of_affine
from weft.polyhedral.transform.scheduled import Scheduled

Sizes = Mapping[str, int]


def bound_of(
    scheduled: Scheduled, machine: Machine, threads: int, sizes: Sizes
) -> Mapping[str, float]:
    """Seconds that each resource is busy at least; the longest is the bound."""
    scop, peaks = scheduled.scop, machine.peaks
    rate = peaks.frequency * threads
    products = sums = 0.0
    seen: set[object] = set()
    kinds = _kinds(scheduled.original)
    before = before_running(scop)
    statements = [s for s, names in whole_statements(scheduled) if not before & {*names}]
    for s in statements:
        points = instances(s.dims, s.domain, sizes)
        for kind, dtype in _certain(s, seen) if points else ():
            if dtype.is_float:
                lanes = machine.lanes(dtype) * (peaks.fma if kind == "mul" else peaks.arithmetic)
            else:
                lanes = machine.vector_bytes * peaks.arithmetic
            own = [prod(x.extents.values()) / x.cycles for x in _able(machine, dtype, kinds)]
            seconds = (points or 0) / (max([lanes, *own]) * rate)
            products += seconds if kind == "mul" else 0.0
            sums += seconds if kind == "add" else 0.0
    read, written = (_touched(scop, statements, sizes, writes=w) for w in (False, True))
    bytes_ = max(read, written)
    parts = {"arithmetic": max(products, sums)}
    parts["loads and stores"] = (read + written) / (machine.vector_bytes * peaks.accesses * rate)
    names = [*(f"L{k}" for k in range(2, len(machine.caches) + 1)), "memory"]
    for name, cache, speed in zip(names, machine.caches, peaks.bandwidths, strict=False):
        parts[name] = max(0.0, bytes_ - cache.size * threads) / (speed * threads)
    return parts


# ---- statements ---------------------------------------------------------------------------------


def whole_statements(scheduled: Scheduled) -> list[tuple[Statement, list[str]]]:
    """The statements that run, with their names; the parts of one that was taken apart, instance
    for instance, as the one that they were (``validation`` has it that these are all of its
    instances)."""
    original = {s.name: s for s in scheduled.original.statements}
    parts: dict[str, list[Statement]] = {}
    for s in scheduled.scop.statements:
        origin = s.origin or Origin("", ())
        whole = original.get(origin.statement)
        itself = None if whole is None else (whole.dims, tuple(Var(dim) for dim in whole.dims))
        apart = (s.dims, origin.instance) == itself
        parts.setdefault(origin.statement if apart else f"{s.name} itself", []).append(s)
    found = []
    for name, several in parts.items():
        whole = several[-1]
        if name in original:
            whole = replace(whole, name=name, domain=original[name].domain)
        found.append((whole, [s.name for s in several]))
    return found


def before_running(scop: Scop) -> frozenset[str]:
    """Statements whose results depend on constants alone: they run when the program is compiled."""
    known = {t.name for t in scop.tensors if t.role == "constant"}
    found: set[str] = set()
    for s in scop.statements if known else ():
        written = {w.tensor for w in s.writes}
        temporary = all(scop.tensor(name).role == "temp" for name in written)
        if temporary and {r.tensor for r in s.reads} <= known | written:
            known |= written
            found.add(s.name)
    return frozenset(found)


def instances(dims: Sequence[str], domain: Sequence[Constraint], sizes: Sizes) -> int | None:
    """How many points ``domain`` has; None where that is not known exactly."""
    return _exactly(dims, region(_at(domain, sizes)))


def _at(domain: Sequence[Constraint], sizes: Sizes) -> list[Constraint]:
    def value(node: Expr) -> Expr | None:
        known = isinstance(node, Var) and node.name in sizes
        return literal(sizes[node.name]) if known else None  # type: ignore[attr-defined]

    return [replace(c, expr=rewrite(c.expr, value)) for c in domain]


def _exactly(dims: Sequence[str], points: Region) -> int | None:
    counter = Counter()
    try:
        total = counter.total(dims, points)
    except (Unbounded, CompileError, ArithmeticError, RecursionError):
        return None
    if not counter.exact or total.variables():
        return None
    return max(0, int(total.constant()))


# ---- arithmetic ---------------------------------------------------------------------------------


def _kinds(scop: Scop) -> frozenset[DType]:
    """The dtypes that anything of ``scop`` has."""
    bodies = (e for s in scop.statements for e in s.body.expressions)
    cast = (node.dtype for e in bodies for node in walk(e) if isinstance(node, Cast))
    return frozenset([*(t.dtype for t in scop.tensors), *cast])


def _able(machine: Machine, dtype: DType, kinds: frozenset[DType]) -> list[Instruction]:
    """Instructions that may compute on ``dtype`` where there are values of ``kinds``; any of
    integers on any integers."""
    if not dtype.is_float:
        return [x for x in machine.extensions if not x.dtype.is_float]
    own = (x for x in machine.extensions if x.dtype == dtype)
    return [x for x in own if {n.dtype for n in walk(x.value) if isinstance(n, Load)} <= kinds]


def _certain(s: Statement, seen: set[object]) -> Iterator[tuple[str, DType]]:
    """("mul" or "add", dtype) of each operation that every instance does on elements of its own, of
    which no other statement does the same: ``seen`` are those of statements before."""
    every, place = frozenset(s.dims), {d: Var(str(n)) for n, d in enumerate(s.dims)}
    lets: dict[str, tuple[object, frozenset[str]]] = {}

    def named(node: Expr) -> Expr | None:
        return place.get(node.name) if isinstance(node, Var) else None

    for name, value in (*s.body.lets, *(("", result) for result in s.body.results)):
        sure = {id(node) for node in _sure(value)}
        known: dict[int, tuple[object, frozenset[str]]] = {}  # what a node is, and moves along
        for node in walk(value):
            below = [known[id(child)] for child in node.children]
            moved = frozenset[str]().union(*(dims for _, dims in below))
            what: object = (type(node), getattr(node, "op", ""), *(x for x, _ in below))
            match node:
                case Load():
                    access = s.reads[operand_number(node)]
                    moved = frozenset() if access.may else _dims(access, s.dims)
                    what = access.tensor, *(rewrite(index, named) for index in access.indices)
                case Var(let) if let in lets:
                    what, moved = lets[let]
                case Apply(("mul" | "add" | "sub") as op):
                    if id(node) in sure and moved == every and what not in seen:
                        seen.add(what)
                        yield "mul" if op == "mul" else "add", node.dtype
                case _ if not node.children:
                    what = rewrite(node, named)
            known[id(node)] = what, moved
        if name:
            lets[name] = known[id(value)]
        elif s.update and s.update.monoid.name in ("add", "sum") and known[id(value)][1] == every:
            yield "add", value.dtype


def _sure(value: Expr) -> Iterator[Expr]:
    """What is computed whatever the data: nothing in a branch of a ``Select``."""
    stack = [value]
    while stack:
        node = stack.pop()
        yield node
        stack += node.children[:1] if isinstance(node, Select) else node.children


def _dims(access: Access, dims: Sequence[str]) -> frozenset[str]:
    found = frozenset().union(*(affine(index).variables() for index in access.indices))
    return found & frozenset(dims)


# ---- bytes --------------------------------------------------------------------------------------


def _touched(scop: Scop, statements: Sequence[Statement], sizes: Sizes, *, writes: bool) -> float:
    """Bytes that are certainly read, of inputs (what the program itself wrote may be in registers),
    or written, of results."""
    most: dict[str, int] = {}
    roles = ("output", "inout") if writes else ("input",)
    arguments = {t.name: t for t in scop.tensors if t.role in roles}
    for s in statements:
        for access in s.writes if writes else [s.reads[n] for n in sorted(_sure_reads(s))]:
            plain = access.tensor in arguments and not access.may and not access.guard
            if plain and arguments[access.tensor].scope == "global":
                elements = _elements(s, access, sizes)
                most[access.tensor] = max(most.get(access.tensor, 0), elements)
    return float(sum(n * arguments[name].dtype.itemsize for name, n in most.items()))


def _sure_reads(s: Statement) -> set[int]:
    """The reads that each instance performs, whatever the data."""
    every = (*(value for _, value in s.body.lets), *s.body.results)
    nodes = (node for value in every for node in _sure(value))
    return {operand_number(node) for node in nodes if isinstance(node, Load)}


def _elements(s: Statement, access: Access, sizes: Sizes) -> int:
    """A number of different elements that ``access`` touches: those that dims tell apart which
    have, one after the other, an index of their own."""
    forms = [affine(index) for index in access.indices]
    kept: list[str] = []
    for form in forms:
        plain = [t for t, _ in form.terms if isinstance(t, str) and t in s.dims and t not in kept]
        if plain and not any(not isinstance(t, str) for t, _ in form.terms):
            kept.append(max(plain, key=lambda d: _extent(s, d, sizes)))
    points = _projected(s, kept, sizes)
    return 0 if points is None else points


def _extent(s: Statement, dim: str, sizes: Sizes) -> int:
    return _projected(s, [dim], sizes) or 0


def _projected(s: Statement, kept: Sequence[str], sizes: Sizes) -> int | None:
    """Points of the domain that differ in ``kept``; other dims are eliminated where that is exact:
    where one of each two coefficients is 1 (Fourier-Motzkin over integers)."""
    domain = _at(s.domain, sizes)
    forms = [affine(c.expr) for c in domain]
    forms += [form.scaled(-1) for form, c in zip(list(forms), domain, strict=True) if c.equality]
    if any(not isinstance(t, str) for form in forms for t, _ in form.terms):
        return instances(s.dims, s.domain, sizes) if set(kept) == set(s.dims) else None
    for dim in s.dims:
        if dim in kept:
            continue
        lows = [f for f in forms if f.coefficient(dim) > 0]
        highs = [f for f in forms if f.coefficient(dim) < 0]
        forms = [f for f in forms if not f.coefficient(dim)]
        for low in lows:
            for high in highs:
                a, b = low.coefficient(dim), -high.coefficient(dim)
                if min(a, b) != 1:
                    return None
                forms.append(low.scaled(b) + high.scaled(a))
    if any(form.is_constant and form.constant < 0 for form in forms):
        return 0
    limits = [of_affine(form)[0] for form in dict.fromkeys(forms)]
    return _exactly(list(kept), Region(limits))
