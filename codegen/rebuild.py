"""Loop IR with its children changed: the one way in which passes walk statements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from weft.codegen.loop_ir import Allocate, Block, For, If, Let, Stmt, While


def map_children(stmt: Stmt, change: Callable[[Stmt], Stmt]) -> Stmt:
    """``stmt`` with ``change`` applied to the statements directly inside it."""
    match stmt:
        case Block(stmts):
            return Block(tuple(map(change, stmts)))
        case For() | While() | Let() | Allocate():
            return replace(stmt, body=change(stmt.body))
        case If():
            return replace(stmt, then=change(stmt.then), otherwise=change(stmt.otherwise))
    return stmt
