"""A scheduled program as Python-like loops, as it will run, before the compiler splits off tails.

for i_t in range((N + 31) // 32):  # parallel
    for j in range(N):
        for i_p in range(min(32, N - 32 * i_t)):  # vector
            C[32 * i_t + i_p, j] += A[32 * i_t + i_p] * B[j]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from weft.codegen.from_schedule import build_kernel
from weft.codegen.simplify import simplify_kernel
from weft.ir.loop_ir import (
    Allocate,
    Block,
    Check,
    Comment,
    For,
    If,
    Let,
    Stmt,
    Store,
    Update,
)
from weft.ir.loop_printer import print_stmt
from weft.ir.scalar_expr import Apply, Expr, Literal, Var, substitute
from weft.ir.scalar_printer import python_text, scalar_text
from weft.ir.schedule_tree import Band, Mark, RegisterTile, Tree
from weft.polyhedral.transform.scheduled import Scheduled, rewrite

_MADE_UP = re.compile(r"\b([A-Za-z_]\w*)\.(\d+)")  # names that the compiler gave
_FOLDS = {"add": "+=", "mul": "*=", "and": "&=", "or": "|=", "xor": "^="}


def schedule_text(scheduled: Scheduled) -> str:
    """The loops and statements of ``scheduled``, one a line.

    Raises ``BudgetError`` if isl needs too long to find the loops' bounds.
    """
    marks: dict[str, str] = {}
    tree = _unmarked(scheduled.tree, marks)
    kernel = build_kernel(scheduled.scop, tree, scheduled.scop.name)
    marks |= {f"{b.name}[…]": "past the caches" for b in kernel.buffers if b.streams is not None}
    text = "\n".join(_lines(simplify_kernel(kernel).body, "", marks))
    return _MADE_UP.sub(r"\1_\2", text)


def _unmarked(tree: Tree, marks: dict[str, str]) -> Tree:
    """``tree`` as plain loops; what was said of them goes to ``marks``, by the outermost one."""

    def change(node: Tree) -> Tree | None:
        match node:
            case Mark(RegisterTile(rows, lanes), Band(loops) as band):
                marks[loops[0].name] = f"register tile {' x '.join(map(str, (*rows, lanes)))}"
                return band
        return None

    return rewrite(tree, change)


def _lines(stmt: Stmt, pad: str, marks: Mapping[str, str]) -> Iterator[str]:
    """``marks``: what is said of a loop beside its kind, by name, and of stores to ``x[…]``."""
    while isinstance(stmt, Let):
        yield f"{pad}{stmt.name} = {scalar_text(stmt.value)}"
        stmt = stmt.body
    deeper = pad + "    "
    match stmt:
        case Block(stmts):
            for each in stmts:
                yield from _lines(each, pad, marks)
        case For():
            said = marks.get(stmt.var, "" if stmt.kind == "serial" else stmt.kind)
            yield f"{pad}for {stmt.var} in range({_range(stmt)}):" + (f"  # {said}" if said else "")
            yield from _lines(stmt.body, deeper, marks)
        case If():
            yield f"{pad}if {python_text(stmt.condition)}:"
            yield from _lines(stmt.then, deeper, marks)
            if stmt.otherwise != Block(()):
                yield f"{pad}else:"
                yield from _lines(stmt.otherwise, deeper, marks)
        case Allocate(buffer, body):
            shape = ", ".join(python_text(size) for size in buffer.shape)
            yield f"{pad}{buffer.name} = {buffer.dtype}[{shape}]  # {buffer.scope}"
            yield from _lines(body, pad, marks)
        case Store(buffer, indices, value):
            told = marks.get(f"{buffer}[…]", "")
            text = f"{pad}{_element(buffer, indices)} = {python_text(value)}"
            yield text + (f"  # {told}" if told else "")
        case Update():
            yield from (pad + line for line in _update(stmt))
        case Check(condition):
            yield f"{pad}assert {python_text(condition)}"
        case Comment(text):
            yield f"{pad}# {text}"
        case _:
            yield from (pad + line for line in print_stmt(stmt).splitlines())


def _range(loop: For) -> str:
    low, high = python_text(loop.lower), python_text(loop.upper)
    if loop.step != 1:
        return f"{low}, {high}, {loop.step}"
    return high if isinstance(loop.lower, Literal) and loop.lower.value == 0 else f"{low}, {high}"


def _update(stmt: Update) -> Iterator[str]:
    """``x += v`` where Python has such an operator, else the combination in full."""
    monoid = stmt.monoid
    elements = [_element(*target) for target in stmt.targets]
    combined = monoid.combined
    match combined:
        case (Apply(op, (Var(left), Var(right))),) if op in _FOLDS and (left, right) == (
            monoid.left[0].name,
            monoid.right[0].name,
        ):
            yield f"{elements[0]} {_folded(op, stmt.values[0])}"
            return
    sides: dict[str, Expr] = {
        v.name: Var(text, v.dtype) for v, text in zip(monoid.left, elements, strict=True)
    }
    sides |= {v.name: value for v, value in zip(monoid.right, stmt.values, strict=True)}
    values = [python_text(substitute(part, sides)) for part in combined]
    yield f"{', '.join(elements)} = {', '.join(values)}"


def _folded(op: str, value: Expr) -> str:
    match op, value:
        case "add", Apply("neg", (negated,)):
            return f"-= {python_text(negated)}"
    return f"{_FOLDS[op]} {python_text(value)}"


def _element(buffer: str, indices: tuple[Expr, ...]) -> str:
    return f"{buffer}[{', '.join(map(python_text, indices))}]" if indices else buffer
