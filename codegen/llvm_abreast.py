"""Vectors abreast: where turns are long chains, two vectors take the steps of one together.

    for v: y[v … v+W] = exp(x[v … v+W])   →   for v: y[v … v+2W] = exp(x[v … v+2W])

Each operation of an exponential waits for the last one, for some forty cycles. A processor begins
with the next vectors meanwhile, but no more of them than it can look ahead over and have waiting.
Written as vectors of twice as many lanes, which LLVM takes apart again, two chains alternate: what
is looked ahead over has twice as much to do in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.codegen.llvm_frame import Frame
from weft.codegen.loop_ir import (
    Block,
    Comment,
    For,
    Prefetch,
    Stmt,
    Store,
    Update,
    expressions,
    walk,
)
from weft.frontend.scalar_affine import to_affine
from weft.frontend.scalar_expr import Apply, Expr, Load
from weft.frontend.scalar_expr import walk as walk_expr

ABREAST = 2  # more of them need more registers than there are
_CHAINS = {("exp", "float32"), ("exp2", "float32"), ("log", "float32"), ("tanh", "float32"),
           ("erf", "float32"), ("exp", "float64")}  # fmt: skip


def vectors_abreast(frame: Frame, loop: For, folded: Sequence[Update]) -> int:
    """How many vectors of ``loop`` take each step together: several where there is a long chain and
    all that is loaded and stored lies side by side. ``folded``: what accumulates in registers."""
    inside = list(walk(loop.body))
    nodes = [n for s in inside for e in expressions(s) for n in walk_expr(e)]
    if not any(isinstance(n, Apply) and (n.op, n.dtype.name) in _CHAINS for n in nodes):
        return 1
    known = {id(update) for update in folded}
    if not all(isinstance(s, Block | Comment | Prefetch | Store) or id(s) in known for s in inside):
        return 1
    beside = all(_beside(frame, loop.var, *access) for access in _accesses(inside))
    return ABREAST if beside and loop.step == 1 else 1


def _accesses(inside: Sequence[Stmt]) -> Iterator[tuple[str, Sequence[Expr]]]:
    for stmt in inside:
        if isinstance(stmt, Store):
            yield stmt.buffer, stmt.indices
        for node in (n for e in expressions(stmt) for n in walk_expr(e)):
            if isinstance(node, Load):
                yield str(node.source), node.indices


def _beside(frame: Frame, var: str, name: str, indices: Sequence[Expr]) -> bool:
    """Whether neighbouring turns access one element, or neighbours."""
    buffer = frame.bindings[name]
    forms = [to_affine(index) for index in indices]
    known = [form for form in forms if form is not None]
    moves = [form.coefficient(var) for form in known]
    hidden = any(var in f.variables() and not m for f, m in zip(known, moves, strict=True))
    if hidden or len(known) < len(forms) or buffer.private:
        return False
    along = moves[-1:] == [1] and not any(moves[:-1]) and buffer.strides[-1].const == 1
    return along or not any(moves)
