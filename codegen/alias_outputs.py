"""Alias temporaries with outputs: a temporary that becomes an output elementwise is stored there.

    for I in blocks of columns parallel:           for I in blocks of columns parallel:
      allocate e[k, i]                               for k: for i in I vector:
      for k: for i in I vector:                        y[k, i] = exp(x[k, i])
        e[k, i] = exp(x[k, i])                →        s[i] += y[k, i]
        s[i] += e[k, i]                              for k: for i in I vector:
      for k: for i in I vector:                        y[k, i] = y[k, i] / s[i]
        y[k, i] = e[k, i] / s[i]

A temporary larger than L1 is written to L2 and read from there, and the output is fetched into the
caches besides. Aliased, the output is fetched while the temporary is computed, when bandwidth is
free. Outputs that ``stream_stores`` writes past the caches are not aliased if L2 holds the
temporary.

Also known as: in-place updates, buffer aliasing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from weft.codegen.rebuild import map_all_expressions, map_children
from weft.ir.loop_ir import (
    Allocate,
    Block,
    Buffer,
    For,
    Kernel,
    Let,
    Prefetch,
    Stmt,
    Store,
    Update,
    buffers_touched,
    buffers_written,
    children,
    walk,
)
from weft.ir.scalar_affine import Affine, to_affine
from weft.ir.scalar_expr import Expr, Literal, Load, Var, rewrite, substitute, variable_names
from weft.ir.scalar_expr import walk as walk_expr


def alias_outputs(kernel: Kernel, first: int, second: int, last: int) -> Kernel:
    """``kernel`` with temporaries larger than ``first`` aliased with the outputs that they become.
    ``first``, ``second`` and ``last``: sizes of caches, in bytes."""
    sizes = [_bytes(buffer) for buffer in kernel.buffers]
    all_there = sum(size for size in sizes if size is not None)
    least = first if None not in sizes and all_there <= last else max(first, second)
    arguments = {b.name: b for b in kernel.buffers}
    shared = {name for b in kernel.buffers if b.aliases for name in (b.name, *b.aliases)}
    results = {name: b for name, b in arguments.items() if b.writable and name not in shared}

    def inside(stmt: Stmt) -> Stmt:
        stmt = map_children(stmt, inside)
        if isinstance(stmt, Allocate) and stmt.buffer.scope == "local":
            size = _bytes(stmt.buffer)
            if size is not None and size > least:
                return _aliased(stmt, results) or stmt
        return stmt

    return replace(kernel, body=inside(kernel.body))


def _bytes(buffer: Buffer) -> int | None:
    size = buffer.dtype.itemsize
    for extent in buffer.shape:
        if not isinstance(extent, Literal):
            return None
        size *= int(extent.value)
    return size


def _aliased(allocation: Allocate, results: Mapping[str, Buffer]) -> Stmt | None:
    """The body of ``allocation`` with its buffer aliased with the output that its last user
    computes from it elementwise; None if there is no such output."""
    name, parts = allocation.buffer.name, list(_parts(allocation.body))
    users = [part for part in parts if _touches(part, name)]
    found = _nest(users[-1]) if users else None
    if found is None or found[1].buffer not in results:
        return None
    loops, store = found
    place = _place(loops, store, name)
    if place is None or results[store.buffer].dtype != allocation.buffer.dtype:
        return None
    read = any(isinstance(n, Load) and n.source == store.buffer for n in walk_expr(store.value))
    if read or any(_touches(p, store.buffer) for p in parts if p is not users[-1]):
        return None
    inside = [stmt for part in parts for stmt in walk(part)]
    bound = {s.var if isinstance(s, For) else s.name for s in inside if isinstance(s, For | Let)}
    free = {v for index in store.indices for v in variable_names(index)} - {x.var for x in loops}
    whole = [(loop.lower, loop.upper) for loop in place]
    if bound & free or not all(_within(part, name, whole, {}) for part in users[:-1]):
        return None
    return _redirected(allocation.body, name, [loop.var for loop in place], store)


def _redirected(body: Stmt, name: str, dims: Sequence[str], store: Store) -> Stmt:
    """``body`` with the element at ``dims`` of the buffer ``name`` at the indices of ``store``."""

    def at(indices: Sequence[Expr]) -> tuple[Expr, ...]:
        values = dict(zip(dims, indices, strict=True))
        return tuple(substitute(index, values) for index in store.indices)

    def load(node: Expr) -> Expr | None:
        if isinstance(node, Load) and node.source == name:
            return Load(store.buffer, at(node.indices), node.dtype)
        return None

    def moved(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Store) and stmt.buffer == name:
            return replace(stmt, buffer=store.buffer, indices=at(stmt.indices))
        return map_children(stmt, moved)

    return moved(map_all_expressions(body, lambda e: rewrite(e, load)))


def _parts(body: Stmt) -> Iterator[Stmt]:
    """The statements that run once each, in order; of a let, its body follows the let."""
    stack = [body]
    while stack:
        match stack.pop():
            case Block(stmts):
                stack.extend(reversed(stmts))
            case Let(_, _, inner) as let:
                yield replace(let, body=Block(()))
                stack.append(inner)
            case Allocate(_, inner):
                stack.append(inner)
            case other:
                yield other


def _touches(part: Stmt, name: str) -> bool:
    return any(name in buffers_touched(stmt) for stmt in walk(part))


def _nest(stmt: Stmt) -> tuple[list[For], Store] | None:
    """(loops, store) where ``stmt`` is loops around one store."""
    loops: list[For] = []
    while not isinstance(stmt, Store):
        match stmt:
            case For(step=1):
                loops.append(stmt)
                stmt = stmt.body
            case Block((single,)):
                stmt = single
            case _:
                return None
    return loops, stmt


def _place(loops: Sequence[For], store: Store, name: str) -> list[For] | None:
    """The one of ``loops`` that runs along each dim of the buffer ``name``; None unless each
    iteration of the nest reads a different element and stores a different output."""
    own = {loop.var: loop for loop in loops}
    bounds = {v for loop in loops for e in (loop.lower, loop.upper) for v in variable_names(e)}
    reads = [n for n in walk_expr(store.value) if isinstance(n, Load) and n.source == name]
    along = reads[0].indices if reads else ()
    if any(read.indices != along for read in reads) or bounds & own.keys():
        return None
    dims = [index.name for index in along if isinstance(index, Var)]
    if len(dims) < len(along) or sorted(dims) != sorted(own):
        return None
    seen: list[str] = []
    for index in store.indices:
        form = to_affine(index)
        if form is None:
            return None
        moving = [v for v in dims if form.coefficient(v) == 1]
        rest = form.replaced({v: Affine() for v in moving})
        if len(moving) > 1 or rest.variables() & own.keys():
            return None
        seen += moving
    return [own[v] for v in dims] if sorted(seen) == sorted(dims) else None


def _within(
    stmt: Stmt, name: str, whole: Sequence[tuple[Expr, Expr]], bounds: Mapping[str, object]
) -> bool:
    """Whether all elements of the buffer ``name`` that ``stmt`` writes lie in the box ``whole``;
    ``bounds``: of the loops around."""
    match stmt:
        case For(step=1):
            bounds = {**bounds, stmt.var: (stmt.lower, stmt.upper)}
        case Store(buffer, indices) if buffer == name:
            found = [bounds.get(i.name) if isinstance(i, Var) else None for i in indices]
            return found == list(whole)
        case Update() | Prefetch() if name in buffers_written(stmt) | {getattr(stmt, "buffer", "")}:
            return False
    return all(_within(part, name, whole, bounds) for part in children(stmt))
