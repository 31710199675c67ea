"""The loop that a kernel's launch spreads over threads, where the kernel is nothing else."""

from __future__ import annotations

from weft.codegen.loop_ir import Block, Comment, For, Kernel, Let, Stmt
from weft.codegen.uneven import is_uneven
from weft.frontend.scalar_expr import Expr, Load, walk


def spread_loop(kernel: Kernel) -> tuple[list[tuple[str, Expr]], For | None]:
    """(lets around it, the parallel loop that is all of ``kernel``), or ([], None).

    Its bounds and the lets depend on parameters alone, so the trip count is known before it starts;
    its turns cost about the same, so equal shares of them do.
    """
    lets: list[tuple[str, Expr]] = []
    stmt: Stmt = kernel.body
    while not kernel.region:
        match stmt:
            case Let(name, value, body) if not _loads(value):
                lets.append((name, value))
                stmt = body
            case Block(parts):
                real = [part for part in parts if not isinstance(part, Comment)]
                if len(real) != 1:
                    break
                stmt = real[0]
            case For(kind="parallel") if not (_loads(stmt.lower) or _loads(stmt.upper)):
                return ([], None) if is_uneven(stmt) else (lets, stmt)
            case _:
                break
    return [], None


def _loads(expr: Expr) -> bool:
    return any(isinstance(node, Load) for node in walk(expr))
