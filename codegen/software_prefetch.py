"""Software prefetch: vector loops through arrays beyond the caches prefetch what they load next.

    for k in 0 … n vector:             for k in 0 … n vector:
      y[k] = erf(x[k])           →       prefetch x[k + ahead]
                                         y[k] = erf(x[k])

A long computation fills the reorder buffer, so that only few loads are in flight, and hardware
prefetchers stop at the end of each page. Done where all arrays of a kernel together exceed the last
cache, for each large one that is only read, at its first contiguous read. Prefetched lines take an
eighth of L1 at most, so that they are still there when they are due, and are at most half a page
ahead, so that most are on a page that the TLB holds: at 6 KiB ahead, GELU took 1.6 times as long on
one processor, as long as without prefetches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from weft.codegen.rebuild import map_children
from weft.ir.loop_ir import (
    Block,
    Buffer,
    For,
    Kernel,
    Prefetch,
    Stmt,
    buffers_written,
    expressions,
    walk,
)
from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Expr, Literal, Load, Var, substitute
from weft.ir.scalar_expr import walk as walk_expr

_HELD = 8  # 1/8 of L1 for prefetched lines: rows come again
_NEAR = 2  # 1/2 of a page
_PART = 8  # arrays of less than 1/8 of all bytes do not count


def software_prefetch(kernel: Kernel, first_cache: int, last_cache: int, page: int) -> Kernel:
    """``kernel`` with prefetches, if it touches more than ``last_cache`` bytes and has none.
    All sizes in bytes."""
    large = _large(kernel, last_cache)
    if not large or any(isinstance(s, Prefetch) for s in walk(kernel.body)):
        return kernel
    ahead = min(page // _NEAR, first_cache // _HELD // len(large))
    known: set[tuple[str, tuple[Expr, ...]]] = set()

    def inside(stmt: Stmt) -> Stmt:
        if isinstance(stmt, For) and stmt.kind == "unrolled":
            return stmt  # a block in registers, which goes across rows
        if not isinstance(stmt, For) or stmt.kind != "vector":
            return map_children(stmt, inside)
        first = dict.fromkeys(_streamed(stmt, large))
        hints = []
        for load in first:
            place = tuple(substitute(i, {stmt.var: Var("")}) for i in load.indices)
            if (str(load.source), place) not in known:
                known.add((str(load.source), place))
                later = load.indices[-1] + ahead // load.dtype.itemsize
                hints.append(Prefetch(str(load.source), (*load.indices[:-1], later)))
        return replace(stmt, body=Block((*hints, stmt.body))) if hints else stmt

    return replace(kernel, body=inside(kernel.body))


def _large(kernel: Kernel, last_cache: int) -> frozenset[str]:
    """The arrays that are only read, and a large part of more than ``last_cache`` bytes."""
    sizes = {buffer.name: known_bytes(buffer) for buffer in kernel.buffers}
    total = sum(sizes.values())
    written = frozenset[str]().union(*map(buffers_written, walk(kernel.body)))
    if total <= last_cache:
        return frozenset()
    return frozenset(n for n, size in sizes.items() if n not in written and size * _PART > total)


def known_bytes(buffer: Buffer) -> int:
    """The size of ``buffer``; 0 if unknown."""
    total = buffer.dtype.itemsize
    for size in buffer.shape:
        total *= int(size.value) if isinstance(size, Literal) else 0
    return total


def _streamed(loop: For, large: frozenset[str]) -> Iterator[Load]:
    """The loads of ``large`` arrays that are contiguous along ``loop``."""
    stmts = list(walk(loop.body))
    if loop.step != 1 or any(isinstance(s, For) for s in stmts):
        return
    for node in (n for s in stmts for e in expressions(s) for n in walk_expr(e)):
        if isinstance(node, Load) and node.source in large and node.indices:
            *outer, last = map(to_affine, node.indices)
            moves = [form is None or loop.var in form.variables() for form in outer]
            if last is not None and last.coefficient(loop.var) == 1 and not any(moves):
                yield node
