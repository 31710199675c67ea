"""Loop IR with its children changed: the one way in which passes walk statements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from weft.codegen.loop_ir import Allocate, Block, For, If, Let, Single, Stmt, While


def map_children(stmt: Stmt, change: Callable[[Stmt], Stmt]) -> Stmt:
    """``stmt`` with ``change`` applied to the statements directly inside it.

    A chain of lets counts as one statement, so that it costs no stack.
    """
    match stmt:
        case Block(stmts):
            return Block(tuple(map(change, stmts)))
        case For() | While() | Allocate() | Single():
            return replace(stmt, body=change(stmt.body))
        case If():
            return replace(stmt, then=change(stmt.then), otherwise=change(stmt.otherwise))
        case Let():
            chain = [stmt]
            while isinstance(chain[-1].body, Let):
                chain.append(chain[-1].body)
            body = change(chain[-1].body)
            for let in reversed(chain):
                body = replace(let, body=body)
            return body
    return stmt
