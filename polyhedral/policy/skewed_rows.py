"""Strategy for recurrences along all loops: a few rows together, each behind the one before.

    for i: for j: S(i, j)   →   for i_t: for s: unrolled i_p < 8: S(8·i_t + i_p, s - f·i_p)

All loops carry dependences, but in one iteration of the skewed ``s = j + f·i`` rows are
independent: *unrolled and jammed*, their chains of dependent operations overlap in the processor.

Where rows depend on nothing but what the rows before them, and they themselves, have stored, they
are the *lanes* of a vector: values go from lane to lane in registers (``scalar_replacement``), and
to memory in transposed blocks (``transpose_strips``). Rows that fill no vector are apart.

Reference: wavefronts, Lamport, The parallel execution of DO loops, CACM 1974.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Apply, Expr, Literal, Var, literal, substitute, walk
from weft.ir.schedule_tree import Band, Tree
from weft.ir.schedule_tree import Sequence as TreeSequence
from weft.ir.scop import Access, Constraint, Statement
from weft.polyhedral.analysis.hyperplanes import Hyperplane, components
from weft.polyhedral.analysis.linear import hull, linear, mentions
from weft.polyhedral.analysis.work import operations
from weft.polyhedral.cost.operation_counts import computing, operation_counts
from weft.polyhedral.policy.lanes import FEW
from weft.polyhedral.policy.planner import At, Group, Planner

ROWS = 8  # unrolled
MAX_SKEW = 3  # the largest factor f


def skewed_unroll_and_jam(planner: Planner, group: Group) -> Tree | None:
    """``group``, all loops of which carry dependences, with its rows skewed: lanes of vectors, or
    unrolled and jammed; else None."""
    if group.in_tile or _quick(planner, group):
        planner.declines("no row carries more than an integer addition or the like")
        return None
    planner.declines("there are no rows each of whose steps waits for the one before, in two loops")
    return _rows_in_lanes(planner, group) or unroll_and_jam_strips(planner, group)


def _planes_in_lanes(planner: Planner, group: Group) -> Tree | None:
    """``group`` of three dims or more with the rows of each plane as lanes; None where they are
    not, or planes do not depend on each other."""
    planes = group.search().valid({n: Var(planner.free(group, n)[0]) for n in group.names})
    if planes is None or planes.coincident:
        return None
    inside = _rows_in_lanes(planner, group.inside(planes.at))
    if inside is None:
        return None
    return Band((planner.loop(planner.name(planes.at), planes.at),), inside)


def unroll_and_jam_strips(planner: Planner, group: Group) -> Tree | None:
    """The same, also within tiles."""
    if not all(len(planner.free(group, n)) == 2 for n in group.names):
        return None
    rows = group.search().valid({n: Var(planner.free(group, n)[0]) for n in group.names})
    if rows is None or rows.coincident or not waits(planner, group.inside(rows.at)):
        return None
    strips = {n: e // ROWS for n, e in rows.at.items()}
    inside = unroll_and_jam_rows(planner, group.inside(strips), rows.at)
    if inside is None:
        return None
    return Band((planner.loop(f"{planner.name(rows.at)}_t", strips),), inside)


def unroll_and_jam_rows(planner: Planner, group: Group, rows: At) -> Tree | None:
    """Within tiles of ``rows``: the skewed loop, and the unrolled rows of the tile inside it."""
    found = _least_skew(planner, group, rows)
    if found is None:
        return None
    points = planner.point(group, rows)
    if points == rows:
        return None
    name = planner.name(rows)
    loops = (planner.loop("s", found.at), planner.loop(f"{name}_p", points, "unrolled"))
    return Band(loops, planner.nest(group.inside(found.at, rows)))


def _least_skew(planner: Planner, group: Group, rows: At) -> Hyperplane | None:
    """The loop along the rows with the least skew inside which rows are independent; None if there
    is none."""
    free = {n: planner.free(group, n) for n in group.names}
    if not all(free.values()):
        return None
    for skew in range(1, MAX_SKEW + 1):
        at = {n: rows[n] * skew + Var(dims[-1]) for n, dims in free.items()}
        found = group.search().complete({}, {n: (e,) for n, e in at.items()})
        if found is not None and group.inside(found.at).independent(rows):
            return found
    return None


def waits(planner: Planner, row: Group) -> bool:
    """Whether the rows of a statement, or of a cycle of statements, carry dependences."""
    for names in row.components():
        part = row.part(names)
        free = [planner.free(part, n) for n in names]
        if not all(free):
            return False
        if not part.independent({n: Var(d[-1]) for n, d in zip(names, free, strict=True)}):
            return True
    return False


def _quick(planner: Planner, group: Group) -> bool:
    """Whether no row carries more than an integer addition or the like: that takes no longer than
    to load the next element, and one row after the other is easier to prefetch."""
    free = {n: planner.free(group, n) for n in group.names}
    if not all(free.values()):
        return False
    row = group.inside({n: Var(dims[0]) for n, dims in free.items()})
    flows = [a.dependence for a in row.active if a.dependence.kind == "flow"]
    tensors = {t.name: t for t in planner.scop.tensors}
    for names in components(row.names, flows):
        statements = [planner.scop.statement(n) for n in names]
        carried = len(names) > 1 or any(d.source.name == d.sink.name == names[0] for d in flows)
        if carried and (
            sum(map(operations, statements)) > 1
            or any(_chooses(s) for s in statements)
            or any(tensors[w.tensor].dtype.is_float for s in statements for w in s.writes)
        ):
            return False
    return True


def _chooses(s: Statement) -> bool:
    """Whether a statement takes a minimum or maximum."""
    own = s.body.expressions
    combined = s.update.monoid.combined if s.update is not None else ()
    nodes = (n for e in (*own, *combined) for n in walk(e))
    return any(isinstance(n, Apply) and n.op in ("min", "max") for n in nodes)


# ---- Rows as lanes.


REACH = 4  # iterations for which values stay in registers
SHIFT = 2  # lanes that they go
UNFOLLOWED = 2  # lines that no prefetcher fetches take so many times as long as others


def _rows_in_lanes(planner: Planner, group: Group) -> Tree | None:
    """``group`` in strips of as many rows as a vector has lanes, and the rest; unrolled where that
    is faster; None where values do not go from lane to lane."""
    loops = {n: planner.free(group, n) for n in group.names}
    many = {len(dims) for dims in loops.values()}
    if many != {2}:
        return _planes_in_lanes(planner, group) if len(many) == 1 and min(many) > 2 else None
    statements = planner.statements(group)
    first = _first_row(statements[0], loops[statements[0].name][0])
    rows: At = {n: Var(dims[0]) - first for n, dims in loops.items()}
    found = group.search().valid(rows)
    if found is None or found.coincident or not waits(planner, group.inside(rows)):
        return None
    lanes = _lanes(planner, statements, loops)
    if not lanes:
        return None
    strips = {n: e // lanes for n, e in rows.items()}
    skewed = _least_skew(planner, group.inside(strips), rows)
    if skewed is None or not _goes_by_lanes(statements, loops, skewed.at):
        return None
    best = "lanes" if _pays(planner, statements, loops, lanes) else "unrolled"
    way = f"{planner.title(group)}.skewed_rows"
    if planner.decisions.choose(way, ("lanes", "unrolled"), best) != "lanes":
        return unroll_and_jam_strips(planner, group)
    edges: list[str] = []
    for s in statements:
        last = first + strips[s.name] * lanes + (lanes - 1)
        edges += planner.isolate(s.name, _with_row(s, loops[s.name][0], last), group)
    planner.narrow |= dict.fromkeys(edges, lanes - 1)
    whole = planner.group(group.names, group.above)
    name = planner.name({n: Var(dims[0]) for n, dims in loops.items()})
    band = (
        planner.loop(f"{name}_t", strips),
        planner.loop("s", skewed.at),
        planner.loop(f"{name}_p", planner.point(whole.inside(strips), rows), "vector"),
    )
    tree = Band(band, planner.nest(whole.inside(strips, skewed.at, rows)))
    if not edges:
        return tree
    order = [s.name for s in planner.scop.statements if s.name in edges]
    return TreeSequence((tree, planner.nest(planner.group(order, group.above))))


def _lanes(
    planner: Planner, statements: Sequence[Statement], loops: Mapping[str, Sequence[str]]
) -> int:
    """Rows of a strip: two vectors, whose chains of operations overlap, if the registers hold a
    block for each access to rows of memory, else one; 0 where vectors are too short, or there may
    be fewer."""
    scop, machine = planner.scop, planner.machine
    one = min(machine.lanes(scop.tensor(a.tensor).dtype) for s in statements for a in s.accesses)
    writes = {w.tensor: w for s in statements for w in s.writes}
    blocks = {*writes.values()}
    for s in statements:
        row, column = loops[s.name]
        for read in s.reads:
            own = writes.get(read.tensor)
            apart = own is None or _in_another_plane(own, read, (row, column))
            if apart and _across_rows(read, row, column):
                blocks.add(read)
    two = 2 * one * len(blocks) <= machine.vector_registers
    most = min(planner.narrow.get(s.name, 2 * one) for s in statements)
    fit = (n for n in (2 * one if two else one, one) if n <= most and one >= FEW)
    return next(fit, 0)


def _pays(
    planner: Planner,
    statements: Sequence[Statement],
    loops: Mapping[str, Sequence[str]],
    lanes: int,
) -> bool:
    """Whether arithmetic in vectors saves more than it takes to read other tensors where there are
    more rows at a time than prefetchers follow."""
    machine = planner.machine
    written = {w.tensor for s in statements for w in s.writes}
    rows = {
        read.tensor
        for s in statements
        for read in s.reads
        if read.tensor not in written and _across_rows(read, *loops[s.name])
    }
    if lanes * (len(rows) + len(written)) <= machine.prefetchers.streams:
        return True
    lines = sum(lanes * planner.scop.tensor(t).dtype.itemsize for t in rows) / machine.line
    wait = UNFOLLOWED * machine.line * machine.frequency / machine.memory_bandwidth
    return lines * wait < lanes * sum(computing(operation_counts(s), machine) for s in statements)


def _first_row(s: Statement, row: str) -> Expr:
    """Where the rows of ``s`` begin, where that is a number; else 0."""
    lower, _ = hull(s).get(row, (literal(0), literal(0)))
    return lower if isinstance(lower, Literal) else literal(0)


def _with_row(s: Statement, row: str, last: Expr) -> list[Constraint]:
    """Where the rows up to ``last``, of the strip of a row, are in the domain too."""
    forms = [(c, linear(c.expr, s.dims)) for c in s.domain if not c.equality]
    return [
        Constraint(substitute(c.expr, {row: last}))
        for c, form in forms
        if form is not None and form.coefficients.keys() == {row} and form.coefficients[row] < 0
    ]


def _goes_by_lanes(
    statements: Sequence[Statement], loops: Mapping[str, Sequence[str]], skewed: At
) -> bool:
    """Whether all that ``statements``, of one domain, read of what they write comes from the same
    lane or one before it, not many iterations of the ``skewed`` loop ago."""
    one = statements[0]
    row, column = loops[one.name]
    alike = [_renamed(s, dict(zip(loops[s.name], (row, column), strict=True))) for s in statements]
    if any({*s.domain} != {*one.domain} or any(a.may for a in s.accesses) for s in alike):
        return False
    writes = {w.tensor: w for s in alike for w in s.writes}
    form = linear(skewed[one.name], (row,))
    skew = form.coefficients[row] if form is not None else 0
    return (
        len(writes) == sum(len(s.writes) for s in alike)
        and all(_across_rows(w, row, column) for w in writes.values())
        and all(
            _is_near(writes[read.tensor], read, (row, column), skew)
            for s in alike
            for read in s.reads
            if read.tensor in writes
        )
    )


def _renamed(s: Statement, names: Mapping[str, str]) -> Statement:
    values: dict[str, Expr] = {old: Var(new) for old, new in names.items()}

    def change(expr: Expr) -> Expr:
        return substitute(expr, values)

    domain = tuple(c.map(change) for c in s.domain)
    return replace(s, domain=domain).map_accesses(lambda access: access.map(change))


def _across_rows(write: Access, row: str, column: str) -> bool:
    """Whether a row of iterations writes along a row of memory, and the next one another row."""
    forms = [linear(index, (row, column)) for index in write.indices]
    steps = [form.coefficients if form is not None else {row: 0} for form in forms]
    *outer, last = steps or [{}]
    moving = [at for at in outer if at]
    return (
        not write.guard
        and last in ({column: 1}, {column: -1})
        and len(moving) == 1
        and moving[0] in ({row: 1}, {row: -1})
    )


def _in_another_plane(write: Access, read: Access, dims: Sequence[str]) -> bool:
    """Whether both are apart along a dim of the tensor in which ``dims`` move neither."""
    for one, other in zip(write.indices, read.indices, strict=True):
        away = to_affine(other - one)
        apart = away is not None and away.is_constant and away.constant != 0
        if apart and not mentions(one, dims):
            return True
    return False


def _is_near(write: Access, read: Access, dims: tuple[str, str], skew: int) -> bool:
    """Whether ``read`` is of what the same iteration writes, one that is within reach before, or
    one of another loop around them all."""
    if _in_another_plane(write, read, dims):
        return True
    back = dict.fromkeys(dims, 0)
    for one, other in zip(write.indices, read.indices, strict=True):
        form, away = linear(one, dims), to_affine(other - one)
        if form is None or away is None or not away.is_constant:
            return False
        for dim, step in form.coefficients.items():
            back[dim] = -away.constant // step
    lanes, columns = (back[dim] for dim in dims)
    here = lanes == columns == 0
    return not read.guard and (
        here or (0 <= lanes <= SHIFT and 1 <= columns + skew * lanes <= REACH)
    )
