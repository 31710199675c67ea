"""Row tiles: products that hand results on run a tile of rows at a time, which stays in L2.

    for i: for j: for d: S[i, j] += A[i, d] * B[d, j]         for i_t:
    for i: for j: T[i, j] = f(S[i, …])                    →     S, T, Y of the rows of i_t
    for i: for d: for j: Y[i, d] += T[i, j] * C[j, d]

Inside, each nest has the loops that it would have alone; ``contract`` then leaves memory for the
rows of one tile. Done where all statements share the rows, no dependence crosses them, L2 does not
hold S, and closed forms say that fewer bytes move (``analysis/work``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import lcm, prod

import networkx as nx

from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Expr, Literal, Var
from weft.ir.scop import Access, Scop, Statement, Tensor
from weft.polyhedral.analysis.hyperplanes import Hyperplane
from weft.polyhedral.analysis.linear import hull_extent, mentions, moves
from weft.polyhedral.analysis.work import rows_in_cache
from weft.polyhedral.policy.lanes import from_lower_bound, known_range
from weft.polyhedral.policy.loop_orders import streamed_operand
from weft.polyhedral.policy.planner import Group, Planner
from weft.polyhedral.policy.product import Product, products_of, shape, sums_of
from weft.polyhedral.policy.tile_ends import fusable_epilogue
from weft.polyhedral.transform.edit import accesses_of, serves

UNEVEN = 4  # iterations per thread of which one more does not matter


def row_tiles(planner: Planner, group: Group) -> tuple[Group, Hyperplane] | None:
    """The statements of ``group`` around intermediates of products that L2 does not hold, and the
    row tiles in which they run; None if there are none."""
    if group.strips:
        return _next_blocks(planner, group)
    if group.in_tile:
        return None
    near = planner.machine.l2
    large = [t for t in _temporaries(planner, group) if 2 * _bytes(planner, group, t) > near]
    products = {p.statement: p for p in products_of(planner, group)} if large else {}
    own = list(products.values())
    if not own or _is_mixed_precision(planner, group, own) or _streams(planner, group, own):
        return None
    found: tuple[Group, Hyperplane] | None = None
    known: dict[str, Expr] = {}
    for tensor in large:
        if products.keys().isdisjoint(s.name for s, _, _ in accesses_of(planner.scop, tensor)):
            continue
        for place in range(len(planner.scop.tensor(tensor).shape)):
            rows = rows_of(planner, group, tensor, place)
            wider = _along(planner, group, known | rows) if rows else None
            if wider is None:
                continue
            inside, plane = wider
            own = [p for name, p in products.items() if name in inside.names]
            if all(plane.at[p.statement] in [Var(d) for d in p.outer] for p in own):
                return None  # a loop around all of it comes first
            if all(plane.at[p.statement] in [Var(d) for d in (*p.rows, p.lanes)] for p in own):
                known, found = known | rows, wider
                break
    return None if found is None else _cut(planner, *_all_of_it(planner, group, *found), products)


def _is_mixed_precision(planner: Planner, group: Group, products: Sequence[Product]) -> bool:
    """Whether ``group`` is one product of converted operands with its epilogue. It is not tiled by
    rows: its sums stay in registers, and a loop around would convert operands once per tile."""
    if len(products) != 1 or products[0].instruction is not None:
        return False
    s, tensor = planner.scop.statement(products[0].statement), planner.scop.tensor
    kinds = {tensor(access.tensor).dtype for access in s.accesses}
    return len(kinds) > 1 and fusable_epilogue(planner, group) is not None


def _streams(planner: Planner, group: Group, products: Sequence[Product]) -> bool:
    """Whether ``group`` is one product with a streamed operand, and its epilogue."""
    if (
        len(products) != 1
        or streamed_operand(planner, products[0], shape(planner, products[0])) is None
    ):
        return False
    return fusable_epilogue(planner, group) is not None


def _temporaries(planner: Planner, group: Group) -> list[str]:
    """The temporaries of known size that only ``group`` uses."""
    found = []
    for tensor in planner.scop.tensors:
        if tensor.role == "temp" and tensor.shape and not tensor.contracted:
            users = {s.name for s, _, _ in accesses_of(planner.scop, tensor.name)}
            if users and users <= {*group.names} and _known(tensor.shape):
                found.append(tensor.name)
    return found


def _known(shape: tuple[Expr, ...]) -> bool:
    return all(isinstance(size, Literal) for size in shape)


def _bytes(planner: Planner, group: Group, tensor: str) -> int:
    """Bytes of ``tensor`` that one iteration of the loops around ``group`` touches."""
    s, access, _ = accesses_of(planner.scop, tensor)[0]
    return _touched(planner, group, s, access)


def _touched(planner: Planner, group: Group, s: Statement, access: Access) -> int:
    """Bytes that ``access`` of ``s`` touches in one iteration of the loops around."""
    tensor, dims = planner.scop.tensor(access.tensor), planner.free(group, s.name)
    sizes = {d: hull_extent(s, d) for d in dims}
    touched = tensor.dtype.itemsize
    for size, index in zip(tensor.shape, access.indices, strict=True):
        if isinstance(size, Literal) and mentions(index, dims):
            turns = [n for d, n in sizes.items() if mentions(index, (d,))]
            values = prod(n for n in turns if n) if None not in turns else int(size.value)
            touched *= min(int(size.value), values)
    return touched


def _along(
    planner: Planner, group: Group, rows: Mapping[str, Expr]
) -> tuple[Group, Hyperplane] | None:
    """The statements of ``rows`` and those between them in the dependence graph, and their common
    loop."""
    inside = group.part(between(group, list(rows)))
    plane = _shared(planner, inside, rows)
    return None if plane is None else (inside, plane)


def _shared(planner: Planner, inside: Group, rows: Mapping[str, Expr]) -> Hyperplane | None:
    """The loop with values ``rows`` for some statements; None if a dependence crosses it or a
    statement reduces along it."""
    own = {n: _candidates(planner, inside, n, rows) for n in inside.names}
    plane = inside.search().complete(rows, own)
    if plane is None or not plane.coincident:
        return None
    updates = ((plane.at[s.name], s.update) for s in planner.statements(inside))
    return None if any(u is not None and mentions(at, u.dims) for at, u in updates) else plane


def _candidates(
    planner: Planner, inside: Group, name: str, rows: Mapping[str, Expr]
) -> tuple[Expr, ...]:
    """The open dims of statement ``name``; first those that index a tensor where ``rows`` do in
    another statement."""
    met = {
        (access.tensor, k)
        for n, at in rows.items()
        for access in planner.scop.statement(n).accesses
        for k, index in enumerate(access.indices)
        if index == at
    }
    accesses = planner.scop.statement(name).accesses
    first = {i for a in accesses for k, i in enumerate(a.indices) if (a.tensor, k) in met}
    free = tuple(map(Var, planner.free(inside, name)))
    return (*(v for v in free if v in first), *(v for v in free if v not in first))


def _all_of_it(
    planner: Planner, group: Group, inside: Group, plane: Hyperplane
) -> tuple[Group, Hyperplane]:
    """``inside`` with the statements that initialise its sums and those of its elementwise
    epilogue."""
    changed = True
    while changed:
        changed = False
        used = {w.tensor for s in planner.statements(inside) for w in s.writes}
        for s in planner.statements(group):
            if s.name in inside.names or used.isdisjoint(a.tensor for a in s.accesses):
                continue
            names = between(group, [*inside.names, s.name])
            wider = group.part([n for n in group.names if n in names])
            found = _shared(planner, wider, plane.at)
            if found is not None:
                inside, plane, changed = wider, found, True
                break
    return inside, plane


def _cut(
    planner: Planner, inside: Group, plane: Hyperplane, products: Mapping[str, Product]
) -> tuple[Group, Hyperplane] | None:
    """The rows of ``plane`` in tiles of whole register tiles; None if one tile has them all, or
    tiles do not pay."""
    own = {n: p for n, p in products.items() if n in inside.names}
    dims = {n: e.name for n, e in plane.at.items() if isinstance(e, Var)}
    sizes = {hull_extent(planner.scop.statement(n), dims[n]) for n in own if n in dims}
    (total,) = sizes if len(sizes) == 1 else (None,)
    if total is None or len(dims) < len(inside.names):
        return None
    step = lcm(*(_step(planner, p, dims[n]) for n, p in own.items()))
    most, blocks = _most(planner, inside, own, dims, total) // step * step, None
    if not most:
        blocks = _blocks(planner, inside, plane, own)
        if blocks is not None:
            within = blocks[0].inside(blocks[1].at)
            most = _most(planner, within, own, dims, total) // step * step
    if not 0 < most < total:
        return None
    if blocks is not None:
        planner.row_blocks.append(blocks[1])
    tiles = -(-total // most)
    spread = not _threads_busy(planner, inside)
    if spread:  # equal shares
        tiles = -(-tiles // planner.threads) * planner.threads
    size = -(-total // tiles // step) * step
    planner.row_tiles |= dict.fromkeys(inside.names, spread)
    planner.notes.append(f"{size} rows at a time, which stay in L2 between products")
    at = {n: from_lower_bound(planner.scop.statement(n), dims[n]) // size for n in inside.names}
    return inside, Hyperplane(at, plane.carries, True)


def _most(
    planner: Planner,
    inside: Group,
    products: Mapping[str, Product],
    dims: Mapping[str, str],
    total: int,
) -> int:
    """How many of ``total`` rows, along ``dims``, of the intermediates of ``products`` stay
    in L2."""
    own = {n: p for n, p in products.items() if n in inside.names}
    held = sum(
        _touched(planner, inside, s, r)
        for s in map(planner.scop.statement, own)
        for r in s.reads
        if not moves(r, dims[s.name])
    )
    return rows_in_cache(planner.machine.l2, total, _row(planner, inside, own) // total, held)


def _blocks(
    planner: Planner, inside: Group, rows: Hyperplane, products: Mapping[str, Product]
) -> tuple[Group, Hyperplane] | None:
    """The statements from product to product, and a loop across ``rows`` that they share as well
    and no dependence crosses: each block is used where it is computed."""
    tensors = [
        tensor
        for tensor in _temporaries(planner, inside)
        if not products.keys().isdisjoint(s.name for s, _, _ in accesses_of(planner.scop, tensor))
    ]
    for start, tensor in enumerate(tensors):
        for place in range(len(planner.scop.tensor(tensor).shape)):
            found = _across(planner, inside, rows, {}, tensor, place)
            if found is None:
                continue
            for other in tensors[start + 1 :]:
                for k in range(len(planner.scop.tensor(other).shape)):
                    found = _across(planner, inside, rows, found[1].at, other, k) or found
            if len(products.keys() & {*found[0].names}) > 1:
                return _all_of_it(planner, inside, *found)
    return None


def _across(
    planner: Planner,
    inside: Group,
    rows: Hyperplane,
    known: Mapping[str, Expr],
    tensor: str,
    place: int,
) -> tuple[Group, Hyperplane] | None:
    """The statements that share a loop across ``rows`` along ``place`` of ``tensor``, which agrees
    with ``known``."""
    at = rows_of(planner, inside, tensor, place)
    if not at or any(v == rows.at[n] or known.get(n, v) != v for n, v in at.items()):
        return None
    return _along(planner, inside, {**known, **at})


def _next_blocks(planner: Planner, group: Group) -> tuple[Group, Hyperplane] | None:
    """The statements of ``group`` that run block by block in the row tile around it."""
    for plane in planner.row_blocks:
        names = [n for n in group.names if n in plane.at]
        open_ = all(mentions(plane.at[n], planner.free(group, n)) for n in names)
        if len(names) == len(plane.at) and open_:
            return group.part(names), plane
    return None


def _threads_busy(planner: Planner, group: Group) -> bool:
    """Whether the loops around ``group`` have iterations enough for all threads. Row tiles are then
    serial inside each, and reuse the same panels."""
    name = group.names[0]
    around = [known_range(planner.scop.statement(name), at[name]) for at in group.above]
    turns = prod(size for _, size in filter(None, around))
    even = turns % planner.threads == 0 or turns >= UNEVEN * planner.threads
    return bool(around) and None not in around and even


def _step(planner: Planner, p: Product, dim: str) -> int:
    """Rows of a register tile of ``p`` along ``dim``."""
    rows, lanes = shape(planner, p)
    return dict(zip((*p.rows, p.lanes), (*rows, lanes), strict=True)).get(dim, 1)


def _row(planner: Planner, inside: Group, products: Mapping[str, Product]) -> int:
    """Bytes of the temporaries that products write or read."""
    return sum(
        _bytes(planner, inside, tensor)
        for tensor in _temporaries(planner, inside)
        if any(s.name in products for s, _, _ in accesses_of(planner.scop, tensor))
    )


# ---- Strip-mined temporaries: a loop is strip-mined so that large temporaries need one strip only.
#
#     for i: for j: s[i, j] = …     all i, then all i again: s is N x N, the arguments N x D
#     for i: for j: … = s[i, j]
#     →
#     parallel i_t: { for i, j: s[i, j] = …; for i, j: … = s[i, j] }
#
# Expansion gave each iteration elements of its own; strip-mining takes some of that back, so that
# ``contract`` finds a loop around all uses. A strip has as much reuse as cache tiles.


STRIP = 192  # iterations; a multiple of the sizes of register tiles


def strip_mined_temporaries(planner: Planner, group: Group) -> tuple[Group, Hyperplane] | None:
    """The statements of ``group`` around temporaries that outgrow all arguments, and the strips in
    which they may run; None if there are none, or dependences cross the strips."""
    found: tuple[Group, Hyperplane] | None = None
    known: dict[str, Expr] = {}
    for tensor in planner.scop.tensors:
        if tensor.role != "temp" or not _unusual(planner.scop, tensor):
            continue
        rows = known | rows_of(planner, group, tensor.name)
        if rows == known:
            continue
        inside = group.part(between(group, list(rows)))
        plane = planner.common(inside, rows)
        if plane is not None and plane.coincident:
            known, found = rows, (inside, plane)
    if found is None:
        return None
    inside, plane = found
    strips = {name: value // STRIP for name, value in plane.at.items()}
    return inside, Hyperplane(strips, plane.carries, True)


def split_node_strips(planner: Planner, group: Group) -> tuple[Group, Hyperplane] | None:
    """The statements of a loop some of whose reads are statements of their own (``split_node``),
    and the strips of it through which they run one after the other: what is read beforehand stays
    in L1 until it is used.

        for i: x[i] = u[i + 1]                for i_t: for i in a strip: x[i] = u[i + 1]
        for i: u[i] = f(u[i], x[i])      →             for i in a strip: u[i] = f(u[i], x[i])
    """
    made = [s for s in planner.statements(group) if serves(s)]
    if not made or group.in_tile or group.strips:
        return None
    *around, _ = made[0].position
    last, body = (
        str(around[-1]),
        [s for s in planner.scop.statements if [*s.position[:-1]] == around],
    )
    if any(s.name not in group.names or planner.free(group, s.name) != (last,) for s in body):
        return None
    inside = group.part([s.name for s in body])
    held = sum(planner.scop.tensor(s.writes[0].tensor).dtype.itemsize for s in (*made, *body))
    size = planner.machine.caches[0].size // held // STRIP * STRIP
    plane = inside.search().valid({s.name: Var(last) // size for s in body}) if size else None
    return None if plane is None else (inside, plane)


def _unusual(scop: Scop, tensor: Tensor) -> bool:
    """Whether ``tensor`` grows faster with the sizes than any argument."""
    own = _sizes(tensor)
    others = [_sizes(t) for t in scop.tensors if t.role != "temp"]
    return len(own) > 1 and not any(_within(own, other) for other in others)


def _sizes(tensor: Tensor) -> list[frozenset[str]]:
    """The parameters of each size that has any."""
    found: list[frozenset[str]] = []
    for size in tensor.shape[tensor.contracted :]:
        form = to_affine(size)
        found.append(frozenset() if form is None else frozenset(form.variables()))
    return [names for names in found if names]


def _within(small: Sequence[frozenset[str]], large: Sequence[frozenset[str]]) -> bool:
    """Whether each size of ``small`` can be matched with one of ``large`` that has at least its
    parameters."""
    graph: nx.Graph[tuple[str, int]] = nx.Graph()
    left = [("small", k) for k in range(len(small))]
    graph.add_nodes_from(left)
    for k, names in enumerate(small):
        graph.add_edges_from(
            (("small", k), ("large", m)) for m, others in enumerate(large) if names <= others
        )
    matching = nx.bipartite.maximum_matching(graph, top_nodes=left)
    return all(node in matching for node in left)


def rows_of(planner: Planner, group: Group, tensor: str, place: int = 0) -> dict[str, Expr]:
    """The loop along dimension ``place`` of ``tensor``, by statement; none where it is no loop."""
    found: dict[str, Expr] = {}
    for s in planner.statements(group):
        values = {a.indices[place] for a in s.accesses if a.tensor == tensor}
        if len(values) > 1:
            return {}
        for value in values:
            if not isinstance(value, Var) or value.name not in planner.free(group, s.name):
                return {}
            found[s.name] = value
    return found


def between(group: Group, names: Sequence[str]) -> list[str]:
    """``names``, and what lies on a dependence path between two of them."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(group.names)
    graph.add_edges_from((a.dependence.source.name, a.dependence.sink.name) for a in group.active)
    after = set(names).union(*(nx.descendants(graph, n) for n in names))
    before = set(names).union(*(nx.ancestors(graph, n) for n in names))
    return [n for n in group.names if n in after & before]


# ---- Column reductions: all passes over the rows run through one strip of columns first.
#
#     for k: for i vector: s[i] += x[k, i]                 parallel i_t:
#     for k: for i vector: y[k, i] = x[k, i] / s[i]    →     for k: for i in i_t vector: s[i] += …
#                                                            for k: for i in i_t vector: y[k, i] = …
#
# The sums of a strip stay in registers, and what one pass has read is in cache for the next, just
# as row reductions keep their row in cache.


VECTORS = 4  # of a strip, at least: enough independent chains of sums to hide the latency
SHARE, STRIPS = 4, 4  # a strip row takes this part of the registers, if there are that many strips


def column_reduction(planner: Planner, group: Group) -> tuple[Group, Hyperplane] | None:
    """``group`` and the strips of columns in which all of it may run. None unless columns are
    reduced that another pass reads again and no dependence crosses them, or if register tiles do
    better."""
    if group.above:
        return None
    fixed: dict[str, Expr] = {}
    passes: list[Statement] = []
    for s in planner.statements(group):
        dims = planner.free(group, s.name)
        if len(dims) > 1:
            lanes = planner.lanes(s, dims)
            if lanes is None or not _own(s, lanes.dim):
                return None
            passes.append(s)
            fixed[s.name] = Var(lanes.dim)
    if not any(s.update for s in passes) or not _again(passes) or sums_of(planner, group):
        return None
    plane = planner.common(group, fixed)
    if plane is None or not plane.coincident:
        return None
    width = _width(planner, passes, plane)
    if width is None:
        return None
    return group, Hyperplane({n: e // width for n, e in plane.at.items()}, plane.carries, True)


def _width(planner: Planner, passes: list[Statement], plane: Hyperplane) -> int | None:
    """The columns of a strip: wide if there are several wide ones, None if there are too few."""
    machine = planner.machine
    lanes = max(
        machine.lanes(planner.scop.tensor(w.tensor).dtype) for s in passes for w in s.writes
    )
    found = [known_range(planner.scop.statement(name), at) for name, at in plane.at.items()]
    turns = [t[1] for t in found if t is not None and not t[0]]
    if len(turns) < len(found):
        return None
    wide, narrow = lanes * (machine.vector_registers // SHARE), lanes * VECTORS
    if wide > narrow and min(turns) >= STRIPS * wide:
        return wide
    return narrow if min(turns) >= 2 * narrow else None


def _own(s: Statement, dim: str) -> bool:
    """Whether iterations along ``dim`` write different elements."""
    return all(moves(w, dim) for w in s.writes)


def _again(passes: list[Statement]) -> bool:
    """Whether two passes use one tensor of rank two or more."""
    used = [{a.tensor for a in s.accesses if len(a.indices) > 1} for s in passes]
    return any(one & two for k, one in enumerate(used) for two in used[:k])
