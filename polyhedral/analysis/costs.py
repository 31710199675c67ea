"""What a schedule costs before it runs: operations, bytes per memory level, parallelism, roofline.

Everything is a formula in the symbolic sizes where the domains are boxes, triangles or anything
else with linear bounds; which of two sizes is larger, and what fits into a cache, is decided at
``sizes``, and where these are not known, for large ones. ``exact`` tells whether the numbers of
instances and operations hold for every size that is large enough, or are estimates.

See Williams, Waterman and Patterson, "Roofline" (2009).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from math import ceil, gcd, prod

import islpy as isl

from weft.ir.errors import BudgetError, CompileError, WeftError
from weft.ir.isl_context import bounded
from weft.ir.machine import Machine
from weft.ir.named_isl import access_map, constraints_of, tensor_box
from weft.ir.quasi_affine import affine
from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Apply, Expr, Literal, Var, walk
from weft.ir.schedule_times import paths
from weft.ir.schedule_tree import Loop, Tree, marked_tiles, statements_below
from weft.ir.schedule_tree import Sequence as TreeSequence
from weft.ir.scop import Origin, Scop, Statement, Tensor
from weft.polyhedral.analysis.counting import LARGE, Counter, Unbounded, region
from weft.polyhedral.analysis.nest_coordinates import NestCoordinates
from weft.polyhedral.analysis.operation_counts import KINDS, flops, operation_counts
from weft.polyhedral.analysis.polynomials import Polynomial, number, of_affine, symbol
from weft.polyhedral.analysis.traffic import Bytes, Traffic
from weft.polyhedral.transform.scheduled import Scheduled

CYCLES = {"div": 8.0, "sqrt": 12.0, "function": 12.0}  # of one vector; others are pipelined


@dataclass(frozen=True, slots=True)
class Level:
    """What passes between a cache of ``capacity`` bytes and the next larger memory."""

    name: str
    capacity: int
    moved: Bytes
    bandwidth: float  # bytes per second

    @property
    def total(self) -> Polynomial:
        return sum(self.moved.values(), Polynomial())


@dataclass(frozen=True, slots=True)
class Roofline:
    """Seconds that each resource needs at least: ``parts`` by name; the longest decides."""

    sizes: Mapping[str, int]
    flops: float
    parts: Mapping[str, float]

    @property
    def bound(self) -> str:
        return max(self.parts, key=lambda name: self.parts[name])

    @property
    def seconds(self) -> float:
        return self.parts[self.bound]


@dataclass(frozen=True, slots=True)
class Costs:
    """``instances`` by statement, ``operations`` by kind, ``touched`` bytes by tensor, ``tiles``:
    bytes that one iteration of a loop touches on average, ``parallel``: iterations that may run at
    the same time, on average, by the parallel loop; ``spared``: instances that an instruction of
    the target does several of at once, and the cycles that each needs less than by vectors.
    ``missing`` says why there is nothing."""

    machine: Machine
    instances: Mapping[str, Polynomial] = field(default_factory=dict)
    operations: Mapping[str, Polynomial] = field(default_factory=dict)
    touched: Bytes = field(default_factory=dict)
    tiles: Mapping[str, float] = field(default_factory=dict)
    levels: tuple[Level, ...] = ()
    parallel: Mapping[str, Parallelism] = field(default_factory=dict)
    lanes: int = 1
    spared: tuple[tuple[Polynomial, float], ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    exact: bool = True
    missing: str = ""

    @property
    def flops(self) -> Polynomial:
        """Two for a fused multiplication and addition, one for any other operation."""
        weights = ((total, flops({kind: 1})) for kind, total in self.operations.items())
        return sum((total * weight for total, weight in weights), Polynomial())

    @property
    def parallelism(self) -> float:
        """Iterations that may run at the same time in the most parallel nest, at ``sizes``."""
        every = (self._at(p.iterations) / self._at(p.starts) for p in self.parallel.values())
        return max(every, default=1.0)

    def roofline(self, sizes: Mapping[str, int] | None = None, threads: int = 1) -> Roofline:
        """The least time for ``sizes`` (default: those of the costs, and large ones otherwise).

        Arithmetic at the machine's peak, caches and memory at their bandwidths, all overlapped.
        """
        known = {**self.sizes, **(sizes or {})}
        machine, names = self.machine, self._names()
        values = {name: known.get(name, LARGE) for name in sorted(names)}
        cycles = 0.0
        for kind, total in self.operations.items():
            cycles += float(total.value(values)) * _cycles(kind, machine) / self.lanes
        cycles -= sum(float(total.value(values)) * each for total, each in self.spared)
        share = max(1.0, min(float(threads), self.parallelism))
        parts = {"arithmetic": cycles / machine.frequency / share}
        for level in self.levels:
            outer = level.name == self.levels[-1].name
            moved = float(level.total.value(values)) / level.bandwidth
            parts[f"into {level.name}"] = moved if outer else moved / share
        return Roofline(values, float(self.flops.value(values)), parts)

    def rounded(self, form: Polynomial) -> Polynomial:
        """``form`` to about 1% at ``sizes``: without small terms, with simple coefficients."""
        values = {n: self.sizes.get(n, LARGE) for n in form.variables()}
        return form.rounded(values)

    def matters(self, amount: Polynomial, level: Level) -> bool:
        """Whether ``amount`` is more than 1% of what passes into ``level``."""
        return self._at(amount) * 100 > self._at(level.total)

    def _names(self) -> frozenset[str]:
        found = [*self.instances.values(), *(level.total for level in self.levels)]
        return frozenset().union(*(p.variables() for p in found))

    def _at(self, form: Polynomial) -> float:
        return form.about({n: self.sizes.get(n, LARGE) for n in form.variables()})

    def text(self) -> str:
        """Some lines for ``explain``."""
        return "\n".join(_lines(self))


def costs(scheduled: Scheduled, machine: Machine, sizes: Mapping[str, int] | None = None) -> Costs:
    """What ``scheduled`` costs on ``machine``. Never raises: see ``Costs.missing``."""
    known = dict(sizes or {})
    try:
        return _costs(scheduled, machine, known)
    except (Unbounded, WeftError, ArithmeticError, RecursionError) as error:
        return Costs(machine, sizes=known, missing=f"{type(error).__name__}: {error}")


def _costs(scheduled: Scheduled, machine: Machine, sizes: dict[str, int]) -> Costs:
    scheduled = _at_run_time(scheduled)
    scop, tree = scheduled.scop, scheduled.tree
    counter = Counter(_with_derived(scop, sizes))
    equations = {name: _of_expr(value) for name, value in scop.derived}

    def shown(form: Polynomial) -> Polynomial:
        for name, value in reversed(equations.items()):
            form = form.replaced(name, value)
        return form

    counted = _whole_statements(scheduled)
    instances = {s.name: counter.total(s.dims, region(s.domain)) for s in counted}
    operations: dict[str, Polynomial] = {}
    for s in counted:
        for kind, each in operation_counts(s).items():
            operations[kind] = operations.get(kind, Polynomial()) + instances[s.name] * each
    exact = counter.exact
    traffic = Traffic(scop, tree, counter, machine.caches[0].line if machine.caches else 64)
    sizes_of = {t.name: t.dtype.itemsize for t in scop.tensors}
    touched = {name: n * sizes_of[name] for name, n in _touched(scheduled, counter).items()}
    levels = []
    for number_, (cache, speed) in enumerate(
        zip(machine.caches, machine.bandwidths(), strict=True), start=1
    ):
        moved = {name: shown(total) for name, total in traffic.into(cache.size).items()}
        levels.append(Level(f"L{number_}", cache.size, moved, speed))
    lanes = min(
        (machine.lanes(scop.tensor(w.tensor).dtype) for s in scop.statements for w in s.writes),
        default=1,
    )
    return Costs(
        machine,
        {name: shown(total) for name, total in instances.items()},
        {kind: shown(operations[kind]) for kind in KINDS if kind in operations},
        {name: shown(total) for name, total in touched.items()},
        _tiles(scop, tree, traffic),
        tuple(levels),
        {
            name: reduced(shown(p.iterations), shown(p.starts))
            for name, p in _parallel(tree, traffic, counter).items()
        },
        lanes,
        tuple(
            (shown(instances[s.name]), each)
            for s, each in _spared(scheduled, counted, machine, lanes)
        ),
        sizes,
        exact,
    )  # fmt: skip


def _cycles(kind: str, machine: Machine) -> float:
    """Of a vector of such operations."""
    return CYCLES.get(kind, 1.0 / machine.fma_per_cycle)


def _spared(
    scheduled: Scheduled, counted: Sequence[Statement], machine: Machine, lanes: int
) -> Iterator[tuple[Statement, float]]:
    """Those of ``counted`` in tiles of the target's instructions, and the cycles that these need
    less for an instance than vectors do."""
    tiles = marked_tiles(scheduled.tree)
    for s in counted:
        own = tiles[s.name].payload.instruction if s.name in tiles else None
        if own is not None:
            counts = operation_counts(s).items()
            cycles = sum(n * _cycles(kind, machine) for kind, n in counts) / lanes
            yield s, cycles - own.cycles / prod(own.extents.values())


def _at_run_time(scheduled: Scheduled) -> Scheduled:
    """Without what depends on constants alone, which runs when the program is compiled."""
    if not isinstance(scheduled.tree, TreeSequence):
        return scheduled
    scop = scheduled.scop
    constant = {t.name for t in scop.tensors if t.role == "constant"}
    before: set[str] = set()
    parts: list[Tree] = []
    for part in scheduled.tree.children:
        statements = [scop.statement(name) for name in statements_below(part)]
        written = {w.tensor for s in statements for w in s.writes}
        results = {name for name in written if scop.tensor(name).role == "temp"}
        read = {r.tensor for s in statements for r in s.reads}
        if constant and results == written and read <= constant | written:
            constant |= written
            before |= {s.name for s in statements}
        else:
            parts.append(part)
    kept = tuple(s for s in scop.statements if s.name not in before)
    tree = TreeSequence(tuple(parts))
    return (
        replace(scheduled, scop=replace(scop, statements=kept), tree=tree) if before else scheduled
    )


def _touched(scheduled: Scheduled, counter: Counter) -> dict[str, Polynomial]:
    """Tensor → elements that are read or written; those of arguments as the program itself says:
    the parts that a schedule takes it into, and copies that some of them read, touch no others."""
    elements = touched_elements(scheduled.scop, counter)
    own = [t for t in scheduled.original.tensors if t.role != "temp" and t.name in elements]
    arguments = replace(scheduled.original, tensors=tuple(own))
    return {**elements, **touched_elements(arguments, counter)}


def _whole_statements(scheduled: Scheduled) -> list[Statement]:
    """The statements that run; the parts of one that was taken apart, instance for instance, as
    the one that they were (``validation`` has it that these are all of its instances)."""
    original = {s.name: s for s in scheduled.original.statements}
    parts: dict[str, list[Statement]] = {}
    for s in scheduled.scop.statements:
        origin = s.origin or Origin("", ())
        whole = original.get(origin.statement)
        apart = whole is not None and (s.dims, origin.instance) == (whole.dims, _itself(whole))
        parts.setdefault(origin.statement if apart else f"{s.name} itself", []).append(s)
    found: list[Statement] = []
    for name, several in parts.items():
        if name not in original:
            found += several
        else:
            found.append(replace(several[-1], name=name, domain=original[name].domain))
    return found


def _itself(statement: Statement) -> tuple[Expr, ...]:
    return tuple(Var(dim) for dim in statement.dims)


def _of_expr(expr: Expr) -> Polynomial:
    """The polynomial of a derived size."""
    found: dict[int, Polynomial] = {}
    for node in walk(expr):
        match node, [found[id(child)] for child in node.children]:
            case Literal(value), _:
                found[id(node)] = number(int(value))
            case Var(name), _:
                found[id(node)] = symbol(name)
            case Apply("add"), [a, b]:
                found[id(node)] = a + b
            case Apply("sub"), [a, b]:
                found[id(node)] = a - b
            case Apply("mul"), [a, b]:
                found[id(node)] = a * b
            case _:
                form = to_affine(node)
                found[id(node)] = number(LARGE) if form is None else of_affine(form)[0]
    return found[id(expr)]


def _with_derived(scop: Scop, sizes: Mapping[str, int]) -> dict[str, int]:
    known = dict(sizes)
    for name, value in scop.derived:
        form = _of_expr(value)
        if form.variables() <= set(known):
            known[name] = int(form.value(known))
    return known


def _tiles(scop: Scop, tree: Tree, traffic: Traffic) -> dict[str, float]:
    """Loop → bytes that one of its iterations touches on average."""
    below: dict[str, tuple[int, list[str]]] = {}
    for name, path in paths(tree).items():
        loops = [entry for entry in path if isinstance(entry, Loop)]
        for depth, loop in enumerate(loops, start=1):
            below.setdefault(loop.name, (depth, []))[1].append(name)
    return {loop: traffic.mean(tuple(names), depth) for loop, (depth, names) in below.items()}


def _parallel(tree: Tree, traffic: Traffic, counter: Counter) -> dict[str, Parallelism]:
    """Parallel loop → iterations at once, where there are most."""
    found: dict[str, Parallelism] = {}
    for name, path in paths(tree).items():
        loops = [entry for entry in path if isinstance(entry, Loop)]
        for loop, here in parallelism(traffic.nests[name], loops, counter).items():
            if loop not in found or _nominal(here, counter) > _nominal(found[loop], counter):
                found[loop] = here
    return found


def _nominal(here: Parallelism, counter: Counter) -> float:
    starts = counter.nominal(here.starts)
    return counter.nominal(here.iterations) / starts if starts > 0 else 0.0


def _lines(costs: Costs) -> Sequence[str]:
    if costs.missing:
        return [f"no estimate: {costs.missing}"]
    kinds = ", ".join(f"{kind} {total}" for kind, total in costs.operations.items())
    about = "" if costs.exact else "about "
    lines = [f"operations: {about}{costs.flops}" + (f"  ({kinds})" if kinds else "")]
    counts = costs.instances.items()
    each = ((s, n if costs.exact else costs.rounded(n)) for s, n in counts)
    lines += [f"instances: {about}{', '.join(f'{s} {n}' for s, n in each)}"]
    lines += [f"bytes touched: {_by_tensor(costs.touched)}"]
    roof = costs.roofline()
    at = ", ".join(f"{name} = {value}" for name, value in roof.sizes.items())
    when = f" for {at}" if at else ""
    near = f", for sizes like {at}" if at and costs.levels else ""
    for level in costs.levels:
        shown = {t: costs.rounded(n) for t, n in level.moved.items() if costs.matters(n, level)}
        total = f"{costs.rounded(level.total)} bytes  ({_by_tensor(shown)})"
        lines.append(f"into {level.name} ({_amount(level.capacity)}): about {total}{near}")
        near = ""
    inner = {loop: size for loop, size in costs.tiles.items() if _interesting(costs, size)}
    if inner:
        sizes = ", ".join(f"{loop} {_amount(float(size))}" for loop, size in inner.items())
        lines.append(f"memory that one iteration touches: {sizes}")
    if costs.parallel:
        extents = (f"{loop} {at.shown(costs.rounded)}" for loop, at in costs.parallel.items())
        lines.append(f"iterations that may run in parallel: {', '.join(extents)}")
    needs = ", ".join(f"{name} {_time(seconds)}" for name, seconds in roof.parts.items())
    what = roof.bound.replace("into", "traffic into")
    lines.append(f"at least {_time(roof.seconds)}{when}, bound by {what}  ({needs})")
    return lines


def _interesting(costs: Costs, size: float) -> bool:
    """Whether the footprint is that of a tile: between a register file and the last cache."""
    least = costs.machine.vector_bytes * costs.machine.vector_registers
    return bool(costs.levels) and least <= size <= costs.levels[-1].capacity


def _by_tensor(amounts: Bytes) -> str:
    return ", ".join(f"{tensor} {total}" for tensor, total in amounts.items())


def _amount(size: float) -> str:
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size:.3g} B"


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


# ---- How many iterations of a loop may run at the same time: all of them over how often it starts.
#
#     for w in range(T + N - 1):                        wavefronts of a skewed loop
#       parallel for t in range(max(0, w - N + 1), min(T, w + 1)): …
#
# runs T * N iterations in T + N - 1 wavefronts: T * N / (T + N - 1) at a time, on average. This
# is Brent's W / S of the loop; the longest wavefront has min(T, N).


@dataclass(frozen=True, slots=True)
class Parallelism:
    """``iterations`` over all ``starts``."""

    iterations: Polynomial
    starts: Polynomial

    def about(self, values: Mapping[str, float]) -> float:
        starts = self.starts.about(values)
        return self.iterations.about(values) / starts if starts > 0 else 1.0

    def __mul__(self, other: Parallelism) -> Parallelism:
        return reduced(self.iterations * other.iterations, self.starts * other.starts)

    def shown(self, rounded: Callable[[Polynomial], Polynomial]) -> str:
        """In the sizes; a number of its own to the next integer."""
        if not self.starts.variables():
            alone = self.iterations / self.starts.constant()
            return str(alone) if alone.variables() else str(ceil(alone.constant()))
        short = reduced(rounded(self.iterations), rounded(self.starts))
        if not short.starts.variables():
            return short.shown(rounded)
        return f"{_factor(short.iterations)} / {_factor(short.starts)}"

    def __str__(self) -> str:
        return self.shown(lambda form: form)


ONE = Parallelism(number(1), number(1))


def parallelism(
    nest: NestCoordinates, loops: list[Loop], counter: Counter
) -> dict[str, Parallelism]:
    """Parallel loop → what of it and of the parallel loops around it may run at once."""
    found: dict[str, Parallelism] = {}
    total = ONE
    for depth, loop in enumerate(loops):
        if loop.kind == "parallel":
            total = total * _turns(nest, depth, counter)
            found[loop.name] = total
    return found


def reduced(iterations: Polynomial, starts: Polynomial) -> Parallelism:
    """Without what both have in common: powers, and a factor that leaves ``starts`` integers."""
    if not starts.terms:
        return Parallelism(iterations, number(1))
    for name in sorted(starts.variables() & iterations.variables()):
        while _divides(name, starts) and _divides(name, iterations):
            starts, iterations = _without(name, starts), _without(name, iterations)
    content = Fraction(reduce(gcd, (c for _, c in starts.terms)), starts.divisor)
    return Parallelism(iterations / content, starts / content)


def _turns(nest: NestCoordinates, depth: int, counter: Counter) -> Parallelism:
    """Of the loop at ``depth``; in closed form also where it is one number each time."""
    before, after = nest.summed(depth), nest.summed(depth + 1)
    fixed = nest.fixed[depth]
    if fixed is not None and fixed.coordinate not in nest.known(depth):
        each = nest.span(fixed.coordinate, depth) / fixed.step
        exact = counter.nominal(before) * counter.nominal(each)
        if not each.variables() & set(nest.names) and counter.nominal(after) >= 0.99 * exact:
            return Parallelism(each, number(1))
    return reduced(after, before)


def _divides(name: str, form: Polynomial) -> bool:
    return 0 not in form.coefficients(name)


def _without(name: str, form: Polynomial) -> Polynomial:
    """``form`` divided by the variable ``name``."""
    total = Polynomial()
    for power, factor in form.coefficients(name).items():
        rest = factor
        for _ in range(power - 1):
            rest = rest * symbol(name)
        total = total + rest
    return total


def _factor(form: Polynomial) -> str:
    return f"({form})" if len(form.terms) > 1 else str(form)


# ---- How many elements of each tensor a Scop touches at all, in the symbolic sizes.


_PARTS = 6  # into which what is touched may fall; more are counted as the whole tensor


def touched_elements(scop: Scop, counter: Counter) -> dict[str, Polynomial]:
    """Tensor → elements that are read or written, of those that outlive one tile.

    What does not come in a few pieces with linear bounds counts as the whole tensor; ``counter``
    then is no longer exact.
    """
    found = {}
    for tensor in scop.tensors:
        if not tensor.contracted and tensor.scope == "global":
            parts = _parts(scop, tensor)
            total = None if parts is None else _counted(parts, len(tensor.shape), counter)
            if total is None:
                counter.exact = False
                total = number(1)
                for size in tensor.shape:
                    total = total * of_affine(affine(size))[0]
            if total.terms:
                found[tensor.name] = total
    return found


def _parts(scop: Scop, tensor: Tensor) -> list[isl.BasicSet] | None:
    """What is touched, in pieces that have nothing in common; None where it is not so simple."""
    touched = isl.Set.empty(tensor_box(scop, tensor.name).get_space())
    try:
        with bounded(200_000, what="the count of elements"):
            for statement in scop.statements:
                for access in statement.accesses:
                    if access.tensor == tensor.name:
                        if access.may:
                            return None
                        touched = touched.union(access_map(scop, statement, access).range())
            touched = touched.coalesce()
            if touched.n_basic_set() > 1:
                touched = touched.make_disjoint().coalesce()
            pieces = touched.get_basic_sets()
            return pieces if len(pieces) <= _PARTS else None
    except BudgetError:
        return None


def _counted(parts: list[isl.BasicSet], rank: int, counter: Counter) -> Polynomial | None:
    axes = [f"axis {k}" for k in range(rank)]
    total = Polynomial()
    for part in parts:
        try:
            total = total + counter.total(axes, region(constraints_of(part, axes)))
        except (Unbounded, CompileError, ValueError):
            return None
    return total
