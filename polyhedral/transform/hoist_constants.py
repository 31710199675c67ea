"""Hoist constants: what depends on constants alone is computed once, into a tensor of its own.

    for n, k, p: Y[n, k, p] = X[n, k, p] * (g[k] / sqrt(v[k] + eps))
    →   for k: S[k] = g[k] / sqrt(v[k] + eps)
        for n, k, p: Y[n, k, p] = X[n, k, p] * S[k]

Nests that read constants only run at compile time. Also known as loop-invariant code motion.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.scalar_expr import Apply, Expr, Load, Var, rewrite, substitute, walk
from weft.ir.scop import Access, Body, Constraint, Scop, Statement, Tensor
from weft.polyhedral.analysis.linear import box
from weft.polyhedral.transform.edit import insert_nest, nest_position
from weft.polyhedral.transform.scheduled import fresh


def hoist_constants(scop: Scop, statement: str) -> Scop:
    """``scop`` with the constant subexpressions of ``statement`` in nests before all others."""
    scop = _with_statement(scop, _expand_constant_lets(scop, scop.statement(statement)))
    while True:
        s = scop.statement(statement)
        target = _largest_constant(scop, s)
        if target is None:
            return scop
        scop = _hoist(scop, s, target)


def _with_statement(scop: Scop, s: Statement) -> Scop:
    return replace(scop, statements=tuple(s if x.name == s.name else x for x in scop.statements))


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
    for expr in (*(e for _, e in s.body.lets), *s.body.results):
        verdict: dict[int, bool] = {}
        best: Expr | None = None
        for node in walk(expr):
            verdict[id(node)] = _constant_node(node, constant, verdict)
            if verdict[id(node)] and isinstance(node, Apply) and _loads(node):
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


def _loads(expr: Expr) -> list[int]:
    """Operand numbers in ``expr``, each once, in order."""
    found = [n.source for n in walk(expr) if isinstance(n, Load) and isinstance(n.source, int)]
    return list(dict.fromkeys(found))


def _dims(s: Statement, expr: Expr) -> tuple[str, ...]:
    """The dims of ``s`` that the operands of ``expr`` are indexed by."""
    used = {i.name for k in _loads(expr) for i in s.reads[k].indices if isinstance(i, Var)}
    return tuple(d for d in s.dims if d in used)


def _hoist(scop: Scop, s: Statement, target: Expr) -> Scop:
    taken = {t.name for t in scop.tensors} | {x.name for x in scop.statements}
    bounds, dims, operands = box(s), _dims(s, target), _loads(target)
    name = fresh(f"{s.name}_constant", taken)
    tensor = Tensor(name, tuple(bounds[d][1] for d in dims), target.dtype)
    index = tuple(Var(d) for d in dims)
    number = {old: new for new, old in enumerate(operands)}
    value = rewrite(
        target,
        lambda n: (
            Load(number[n.source], (), n.dtype)
            if isinstance(n, Load) and isinstance(n.source, int)
            else None
        ),
    )
    computing = Statement(
        fresh(f"compute_{name}", taken),
        dims,
        tuple(
            Constraint(e) for d in dims for e in (Var(d) - bounds[d][0], bounds[d][1] - 1 - Var(d))
        ),
        nest_position(dims),
        writes=(Access(name, index),),
        reads=tuple(s.reads[k] for k in operands),
        body=Body((), (value,)),
    )
    loaded = Load(len(s.reads), (), target.dtype)

    def change(node: Expr) -> Expr | None:
        return loaded if node == target else None

    body = Body(
        tuple((n, rewrite(e, change)) for n, e in s.body.lets),
        tuple(rewrite(e, change) for e in s.body.results),
    )
    whole = replace(s, reads=(*s.reads, Access(name, index)), body=body)
    reading = _with_reads(whole, _kept(whole, operands))
    scop = replace(_with_statement(scop, reading), tensors=(*scop.tensors, tensor))
    return insert_nest(scop, computing, after=None)


def _kept(s: Statement, operands: list[int]) -> list[int]:
    """The numbers of the reads of ``s`` that stay, in order: the last one stands for ``operands``,
    and takes the place of the first of them that is no longer loaded."""
    bodies = [*(e for _, e in s.body.lets), *s.body.results]
    bodies += [e for a in (*s.reads, *s.writes) for e in a.body_indices]
    used = {k for e in bodies for k in _loads(e)}
    gone = [k for k in operands if k not in used]
    *rest, new = range(len(s.reads))
    if not gone:
        return [*rest, new]
    return [new if k == gone[0] else k for k in rest if k not in gone[1:]]


def _with_reads(s: Statement, numbers: list[int]) -> Statement:
    """``s`` with its reads ``numbers`` only, in that order."""
    number = {old: new for new, old in enumerate(numbers)}

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Load) and isinstance(node.source, int):
            return Load(number[node.source], (), node.dtype)
        return None

    def renumber(access: Access) -> Access:
        return replace(access, body_indices=tuple(rewrite(e, change) for e in access.body_indices))

    body = Body(
        tuple((n, rewrite(e, change)) for n, e in s.body.lets),
        tuple(rewrite(e, change) for e in s.body.results),
    )
    return replace(
        s,
        reads=tuple(renumber(s.reads[k]) for k in numbers),
        writes=tuple(map(renumber, s.writes)),
        body=body,
    )
