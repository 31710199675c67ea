"""Schedule tree → loop IR: isl scans the instances, each becomes loads, stores and updates.

Global tensors are the kernel's buffers, row-major. A local or register tensor is allocated inside
the innermost loop that indexes one of its contracted dimensions, around all its uses.

What marks say of accesses to a tensor is said of its buffer (``_claimed``).

Register tiles are written in closed form (``scanned_tiles``, ``register_tile``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from weft.codegen.fragment_loops import fragment_loops, no_fragment
from weft.codegen.held_fragments import HeldFactor, HeldSums, held_factor, held_sums
from weft.codegen.isl_ast import scan
from weft.codegen.register_tile import emit_register_tile
from weft.codegen.statement_instance import Instances
from weft.codegen.warp_tile import emit_warp_tile
from weft.ir.errors import CompileError
from weft.ir.loop_ir import (
    CONCURRENT,
    Allocate,
    Buffer,
    For,
    Kernel,
    Stmt,
    buffers_touched,
    children,
    walk,
    with_children,
)
from weft.ir.machine import TYPICAL, Machine
from weft.ir.program import ALIGNMENT
from weft.ir.scalar_affine import Range, bounds, to_expr
from weft.ir.scalar_expr import Expr, Var, literal, substitute, variable_names
from weft.ir.scalar_simplify import simplify
from weft.ir.schedule_tree import (
    Band,
    Claim,
    Leaf,
    Loop,
    Mark,
    MarkedTile,
    Prefetched,
    RegisterTile,
    Streamed,
    Tree,
    marked_tiles,
    payloads,
)
from weft.ir.schedule_tree import children as tree_children
from weft.ir.schedule_tree import with_children as with_tree_children
from weft.ir.scop import Body, Scop, Statement, Tensor
from weft.polyhedral.analysis.tile_domain import TileDomain, tile_domain

_Storageless = dict[str, dict[int, list[Expr]]]  # tensor → contracted dimension → its indices


def build_kernel(
    scop: Scop, tree: Tree, name: str, machine: Machine = TYPICAL, *, quick: bool = False
) -> Kernel:
    """The kernel that runs all instances of ``scop`` in the order of ``tree`` on ``machine``.

    Its buffers are the global tensors that are accessed, in the Scop's order; its parameters are
    the Scop's. ``quick``: one tile at each edge, fewer steps unrolled.

    Raises ``BudgetError`` if scanning the loops takes too long, ``CompileError`` (WEFT-E0506) where
    a tensor in scope 'fragment' cannot stay there.
    """
    instances = Instances(scop)
    statements = {s.name: s for s in scop.statements}
    storageless: _Storageless = {t.name: {} for t in scop.tensors if t.contracted}

    tiles = scanned_tiles(scop, tree, instances, machine, quick=quick)

    def instance(statement: str, values: tuple[Expr, ...]) -> Stmt:
        found = statements[statement]
        if storageless:
            _note(instances, found, tiles.dims(found, values), storageless)
        if statement in tiles.marked:
            return tiles.emit(statement, values)
        return instances.make(found, values)

    body = scan(*tiles.stand_ins(scop, tree), instance)
    factors, held = tiles.factors(), tiles.held()
    for fragment, sums in held.items():
        body = fragment_loops(body, fragment, sums, factors)
    fragments = {name: factor.buffer for name, factor in factors.items()}
    fragments |= {name: sums.buffer for name, sums in held.items()}
    used = {a.tensor for s in scop.statements for a in (*s.reads, *s.writes)}
    written = {w.tensor for s in scop.statements for w in s.writes}
    ranges = _ranges(body)
    for tensor in scop.tensors:
        if tensor.scope != "global" and tensor.name in used:
            variables = _followed(storageless.get(tensor.name, {}), ranges)
            found = fragments.get(tensor.name) or _buffer(tensor, True)
            body = _allocate(body, found, variables)
    touched = {name for stmt in walk(body) for name in buffers_touched(stmt)}
    buffers = tuple(
        _buffer(t, t.name in written)
        for t in scop.tensors
        if t.scope == "global" and t.name in (touched if t.role == "temp" else used)
    )
    buffers = _claimed(buffers, tree)
    return Kernel(name, scop.parameters, buffers, body, tuple(instances.messages))


def _buffer(tensor: Tensor, writable: bool) -> Buffer:
    """Row-major storage of the dimensions that are stored."""
    shape = tensor.shape[tensor.contracted :]
    strides: list[Expr] = []
    step: Expr = literal(1)
    for size in reversed(shape):
        strides.append(step)
        step = step * size
    strides.reverse()
    # Arrays of callers have any alignment; Weft's own memory is always aligned.
    alignment = tensor.dtype.itemsize if tensor.scope == "global" else ALIGNMENT
    return Buffer(
        tensor.name, tensor.dtype, shape, tuple(strides), tensor.scope, alignment, writable
    )


def _claimed(buffers: tuple[Buffer, ...], tree: Tree) -> tuple[Buffer, ...]:
    """``buffers`` with what the marks in ``tree`` say of them."""
    claims = {(type(p), p.tensor): p for p in payloads(tree) if isinstance(p, Claim)}
    sizes = {b.name: _bytes(b) for b in buffers}
    nest = sum(sizes.values(), start=literal(0))
    found = []
    for buffer in buffers:
        match claims.get((Streamed, buffer.name)):
            case Streamed(_, least, own):
                large = (nest > least) & (sizes[buffer.name] > own)
                buffer = replace(buffer, streams=large)
        match claims.get((Prefetched, buffer.name)):
            case Prefetched(_, ahead):
                buffer = replace(buffer, ahead=ahead)
        found.append(buffer)
    return tuple(found)


def _bytes(buffer: Buffer) -> Expr:
    size: Expr = literal(buffer.dtype.itemsize)
    for extent in buffer.shape:
        size = size * extent
    return size


# ---- allocation of local tensors ----------------------------------------------------------------


def _note(
    instances: Instances,
    statement: Statement,
    values: tuple[Expr, ...],
    storageless: _Storageless,
) -> None:
    """Collect the indices of contracted dimensions in one instance."""
    names = dict(zip(statement.dims, values, strict=True))
    for access in (*statement.reads, *statement.writes):
        if access.tensor in storageless:
            tensor = instances.tensor(access.tensor)
            for k in range(tensor.contracted):
                if tensor.shape[k] != literal(1):
                    found = storageless[access.tensor].setdefault(k, [])
                    found.append(substitute(access.indices[k], names))


def _followed(indices: Mapping[int, Sequence[Expr]], ranges: Mapping[str, Range]) -> set[str]:
    """The loop variables that contracted dimensions depend on. All accesses to an element have the
    same index, so a variable that one of the indices does without cancels in the others: with t the
    tile of p, (3*t + p) // 4 is t."""
    followed = set[str]()
    for of_one in indices.values():
        followed |= set[str].intersection(*(variable_names(simplify(i, ranges)) for i in of_one))
    return followed


def _ranges(body: Stmt) -> dict[str, Range]:
    """The values of each loop variable, over all loops of that name."""
    found: dict[str, Range] = {}
    for stmt in walk(body):
        if isinstance(stmt, For):
            low, high = bounds(stmt.lower, found)[0], bounds(stmt.upper - 1, found)[1]
            if stmt.var in found:
                old = found[stmt.var]
                low = None if low is None or old[0] is None else min(low, old[0])
                high = None if high is None or old[1] is None else max(high, old[1])
            found[stmt.var] = (low, high)
    return found


def _allocate(body: Stmt, buffer: Buffer, variables: set[str]) -> Stmt:
    """``body`` with ``buffer`` allocated in the innermost loop around all its uses that bounds its
    lifetime: a loop over one of ``variables``, or a concurrent one directly inside such loops. A
    serial loop in between may carry values in the buffer from turn to turn."""
    path = _common_path(body, buffer.name)
    loops = [(k, stmt) for k, stmt in enumerate(path) if isinstance(stmt, For)]
    last = max((k for k, loop in loops if loop.var in variables), default=-1)
    inside = ((k, loop.kind) for k, loop in loops if k > last)
    free = takewhile(lambda found: found[1] in (*CONCURRENT, "vector"), inside)
    depth = max((k for k, _ in free), default=last)
    if depth < 0:
        return Allocate(buffer, body)
    loop = path[depth]
    assert isinstance(loop, For)
    changed: Stmt = with_children(loop, (Allocate(buffer, loop.body),))
    for above, below in zip(reversed(path[:depth]), reversed(path[1 : depth + 1]), strict=True):
        parts = tuple(changed if part is below else part for part in children(above))
        changed = with_children(above, parts)
    return changed


def _common_path(body: Stmt, name: str) -> list[Stmt]:
    """From ``body`` down to the innermost statement that contains every use of the buffer."""
    uses: dict[int, bool] = {}
    for stmt in reversed(list(walk(body))):
        uses[id(stmt)] = name in buffers_touched(stmt) or any(
            uses[id(part)] for part in children(stmt)
        )
    path = [body]
    while name not in buffers_touched(path[-1]):
        inner = [part for part in children(path[-1]) if uses[id(part)]]
        if len(inner) != 1:
            break
        path.append(inner[0])
    return path


# ---- Register tiles of a schedule tree: for isl, one instance for each iteration of the loops
# outside.
#
# Below the mark of a register tile isl scans nothing. A stand-in with the outer loops for dims,
# over the projection of the statement's domain, takes the statement's place; where isl puts an
# instance of it, ``register_tile`` writes the tile.


@dataclass(frozen=True, slots=True)
class ScannedTiles:
    """The register tiles of a tree, by statement, with the names of their loops in loop IR."""

    instances: Instances
    marked: Mapping[str, MarkedTile]
    domains: Mapping[str, TileDomain]
    machine: Machine
    quick: bool = False

    def stand_ins(self, scop: Scop, tree: Tree) -> tuple[Scop, Tree]:
        """``scop`` and ``tree`` with a stand-in for each tile's statement."""
        if not self.marked:
            return scop, tree
        statements = tuple(self._stand_in(s) for s in scop.statements)
        return replace(scop, statements=statements), self._above(tree)

    def _stand_in(self, s: Statement) -> Statement:
        domain = self.domains.get(s.name)
        if domain is None:
            return s
        return Statement(s.name, domain.outer, domain.above, (), (), (), Body((), ()))

    def _above(self, tree: Tree) -> Tree:
        match tree:
            case Mark(RegisterTile(), Band(_, Leaf(name))):
                return Leaf(name)
            case Band(loops, child):
                return Band(tuple(map(self._renamed, loops)), self._above(child))
        return with_tree_children(tree, tuple(map(self._above, tree_children(tree))))

    def _renamed(self, loop: Loop) -> Loop:
        at = dict(loop.at)
        for statement, tile in self.marked.items():
            for outer, name in zip(tile.outer, self.domains[statement].outer, strict=True):
                if outer.name == loop.name:
                    at[statement] = Var(name)
        return replace(loop, at=at)

    def dims(self, statement: Statement, values: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The dims of the statement, or of its stand-in, at the ``values`` that isl gives."""
        domain = self.domains.get(statement.name)
        if domain is None:
            return values
        names = dict(zip(domain.outer, values, strict=True))
        return tuple(substitute(to_expr(domain.inverse.dims[d]), names) for d in statement.dims)

    def emit(self, statement: str, values: tuple[Expr, ...]) -> Stmt:
        """The tile at the ``values`` of the loops outside."""
        tile, domain = self.marked[statement], self.domains[statement]
        own = tile.payload.instruction
        if own is not None and own.warp:
            return emit_warp_tile(self.instances, tile, domain, values)
        return emit_register_tile(
            self.instances, tile, domain, values, self.machine, quick=self.quick
        )

    def held(self) -> dict[str, HeldSums]:
        """The sums of warps that are tensors in scope 'fragment', by these; ``CompileError``
        (WEFT-E0506) for such a tensor that is none."""
        found: dict[str, HeldSums] = {}
        for statement, tile in self.marked.items():
            (target, *_) = self.instances.scop.statement(statement).writes
            warps = tile.payload.instruction is not None and tile.payload.instruction.warp
            if warps and self.instances.tensor(target.tensor).scope == "fragment":
                sums = held_sums(self.instances, tile, self.domains[statement])
                found[target.tensor] = sums
        factors = self.factors()
        for tensor in self.instances.scop.tensors:
            if tensor.scope == "fragment" and tensor.name not in {*found, *factors}:
                raise no_fragment(tensor.name, "no register tile of warps updates it")
        return found

    def factors(self) -> dict[str, HeldFactor]:
        """The first factors of tiles of warps that are tensors in scope 'fragment', by these."""
        found: dict[str, HeldFactor] = {}
        for statement, tile in self.marked.items():
            if tile.payload.instruction is not None and tile.payload.instruction.warp:
                held = held_factor(self.instances, tile, self.domains[statement])
                found |= dict([held] if held is not None else [])
        return found


def scanned_tiles(
    scop: Scop, tree: Tree, instances: Instances, machine: Machine, *, quick: bool = False
) -> ScannedTiles:
    """The register tiles of ``tree``; ``quick``: in less code.

    Raises ``CompileError`` (WEFT-E0503) where one has no closed form.
    """
    marked = marked_tiles(tree)
    domains: dict[str, TileDomain] = {}
    for statement, tile in marked.items():
        names = [instances.fresh(loop.name) for loop in (*tile.outer, *tile.loops)]
        found = tile_domain(scop, tile, names)
        if found is None:
            raise CompileError(
                "WEFT-E0503",
                f"the register tile of {statement} has no closed form",
                why="its instances do not follow linearly from the loops around it, or leave holes",
                hint="leave the tile unmarked; its loops are ordinary loops then",
            )
        domains[statement] = found
    return ScannedTiles(instances, marked, domains, machine, quick)
