"""Hoist constants: what depends on constants alone is computed once, into a tensor of its own.

    for n, k, p: Y[n, k, p] = X[n, k, p] * (g[k] / sqrt(v[k] + eps))
    →   for k: S[k] = g[k] / sqrt(v[k] + eps)
        for n, k, p: Y[n, k, p] = X[n, k, p] * S[k]

Nests that read constants only run at compile time. Also known as loop-invariant code motion.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.scalar_expr import Apply, Expr, Load, Var, rewrite, substitute, walk
from weft.ir.scop import Access, Body, Scop, Statement, Tensor
from weft.polyhedral.analysis.linear import between, box, operands, renumber
from weft.polyhedral.transform.edit import (
    first_of,
    insert_nest,
    loads,
    nest_position,
    with_nest,
    with_reads,
)
from weft.polyhedral.transform.scheduled import Scheduled, fresh, path_to, transformation


@transformation
def hoist(scheduled: Scheduled, statement: str) -> Scheduled:
    """The constant subexpressions of ``statement`` over fewer dims than its own in nests before all
    others. Raises ``IllegalScheduleError`` (WEFT-E0451) where there is no such statement."""
    path_to(scheduled.tree, statement)
    scop = hoist_constants(scheduled.scop, statement)
    if scop == scheduled.scop:
        return scheduled
    known = {s.name for s in scheduled.scop.statements}
    for s in reversed(scop.statements):
        if s.name not in known:
            scheduled = with_nest(scheduled, scop, s.name, first_of(scheduled))
    return replace(scheduled, scop=scop)


def hoist_constants(scop: Scop, statement: str) -> Scop:
    """``scop`` with the constant subexpressions of ``statement`` in nests before all others."""
    scop = scop.with_statement(_expand_constant_lets(scop, scop.statement(statement)))
    while True:
        s = scop.statement(statement)
        target = _largest_constant(scop, s)
        if target is None:
            return scop
        scop = _hoist(scop, s, target)


def _expand_constant_lets(scop: Scop, s: Statement) -> Statement:
    """``s`` with lets that hold constants pasted where they are used."""
    constant = {k for k, a in enumerate(s.reads) if _is_constant(scop, s, a)}
    values: dict[str, Expr] = {}
    lets = []
    for name, expr in s.body.lets:
        pasted = substitute(expr, values)
        verdict: dict[int, bool] = {}
        for node in walk(pasted):
            verdict[id(node)] = _constant_node(node, constant, verdict)
        if verdict[id(pasted)]:
            values[name] = pasted
        else:
            lets.append((name, pasted))
    body = Body(tuple(lets), tuple(substitute(e, values) for e in s.body.results))
    return replace(s, body=body)


def _largest_constant(scop: Scop, s: Statement) -> Expr | None:
    """The first maximal subexpression worth hoisting: arithmetic on constants over fewer dims."""
    constant = {k for k, a in enumerate(s.reads) if _is_constant(scop, s, a)}
    if not constant:
        return None
    for expr in s.body.expressions:
        verdict: dict[int, bool] = {}
        best: Expr | None = None
        for node in walk(expr):
            verdict[id(node)] = _constant_node(node, constant, verdict)
            if verdict[id(node)] and isinstance(node, Apply) and operands(node):
                best = node  # operands come before users: the last one is not part of a larger one
        if best is not None and len(_dims(s, best)) < len(s.dims):
            return best
    return None


def _is_constant(scop: Scop, s: Statement, access: Access) -> bool:
    plain = all(isinstance(i, Var) for i in access.indices) and not access.guard and not access.may
    whole = set(map(str, s.dims)) & {i.name for i in access.indices if isinstance(i, Var)}
    return plain and scop.tensor(access.tensor).role == "constant" and whole <= set(box(s))


def _constant_node(node: Expr, constant: set[int], verdict: dict[int, bool]) -> bool:
    match node:
        case Load(int(operand), _, _):
            return operand in constant
        case Var():
            return False
    return all(verdict[id(child)] for child in node.children)


def _dims(s: Statement, expr: Expr) -> tuple[str, ...]:
    """The dims of ``s`` that the operands of ``expr`` are indexed by."""
    used = {i.name for k in operands(expr) for i in s.reads[k].indices if isinstance(i, Var)}
    return tuple(d for d in s.dims if d in used)


def _hoist(scop: Scop, s: Statement, target: Expr) -> Scop:
    taken = {t.name for t in scop.tensors} | {x.name for x in scop.statements}
    bounds, dims, numbers = box(s), _dims(s, target), operands(target)
    name = fresh(f"{s.name}_constant", taken)
    tensor = Tensor(name, tuple(bounds[d][1] for d in dims), target.dtype)
    index = tuple(Var(d) for d in dims)
    computing = Statement(
        fresh(f"compute_{name}", taken),
        dims,
        between(bounds, dims),
        nest_position(dims),
        writes=(Access(name, index),),
        reads=tuple(s.reads[k] for k in numbers),
        body=Body((), (renumber(target, numbers),)),
    )
    loaded = Load(len(s.reads), (), target.dtype)

    def change(node: Expr) -> Expr | None:
        return loaded if node == target else None

    body = s.body.map(lambda expr: rewrite(expr, change))
    whole = replace(s, reads=(*s.reads, Access(name, index)), body=body)
    reading = with_reads(whole, _kept(whole, numbers))
    scop = replace(scop.with_statement(reading), tensors=(*scop.tensors, tensor))
    return insert_nest(scop, computing, after=None)


def _kept(s: Statement, replaced: list[int]) -> list[int]:
    """The numbers of the reads of ``s`` that stay, in order: the last one stands for ``replaced``,
    and takes the place of the first of them that is no longer loaded."""
    used = loads(s)
    gone = [k for k in replaced if k not in used]
    *rest, new = range(len(s.reads))
    if not gone:
        return [*rest, new]
    return [new if k == gone[0] else k for k in rest if k not in gone[1:]]
