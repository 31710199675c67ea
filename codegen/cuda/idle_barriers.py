"""Barriers that no access needs are left out.

``form_launches`` places barriers by the names of buffers: between any two block loops that touch
one, be it that each thread touches its own elements. A proof that knows elements and threads says
which of them may go.

    for c in 0 .. 256 block: p[c] = 0                 for c in 0 .. 256 block: p[c] = 0
    barrier                                    →      for c in 0 .. 256 block: p[c] += x[c]
    for c in 0 .. 256 block: p[c] += x[c]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from weft.codegen.rebuild import map_children
from weft.codegen.simplify import block
from weft.ir.loop_ir import Barrier, Block, Kernel, Stmt, walk

MOST = 32  # barriers of a kernel that are asked about


def without_idle_barriers(kernel: Kernel, is_free_of_races: Callable[[Kernel], bool]) -> Kernel:
    """``kernel`` with no barrier without which ``is_free_of_races`` still holds, each asked about
    once, in order."""
    number = 0
    for _ in range(min(MOST, _count(kernel.body))):
        less = replace(kernel, body=_without(kernel.body, number))
        if is_free_of_races(less):
            kernel = less
        else:
            number += 1
    return kernel


def _count(body: Stmt) -> int:
    return sum(isinstance(stmt, Barrier) for stmt in walk(body))


def _without(body: Stmt, number: int) -> Stmt:
    """``body`` without the barrier of that ``number``, in textual order."""
    left = number

    def change(stmt: Stmt) -> Stmt:
        nonlocal left
        if isinstance(stmt, Barrier):
            left -= 1
            return Block(()) if left == -1 else stmt
        if isinstance(stmt, Block):
            return block([change(part) for part in stmt.stmts])
        return map_children(stmt, change)

    return change(body)
