"""Barriers that no access needs are left out.

``form_launches`` places barriers by the names of buffers: between any two block loops that touch
one, be it that each thread touches its own elements. What knows elements and threads says which of
them may go (``polyhedral/launches/idle_barriers.py``).

    for c in 0 .. 256 block: p[c] = 0                 for c in 0 .. 256 block: p[c] = 0
    barrier                                    →      for c in 0 .. 256 block: p[c] += x[c]
    for c in 0 .. 256 block: p[c] += x[c]
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import count

from weft.codegen.rebuild import map_children
from weft.codegen.simplify import block
from weft.ir.loop_ir import Barrier, Block, Kernel, Stmt


def without_idle_barriers(kernel: Kernel, idle: Collection[int]) -> Kernel:
    """``kernel`` without the barriers of these numbers, in textual order."""
    numbers = count()

    def change(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Barrier):
            return Block(()) if next(numbers) in idle else stmt
        if isinstance(stmt, Block):
            return block([change(part) for part in stmt.stmts])
        return map_children(stmt, change)

    return replace(kernel, body=change(kernel.body)) if idle else kernel
