"""Affine statements as text.

scop matmul(m, k, n) where m >= 0 and k >= 0 and n >= 0
  input a: float32[m, k]
  output c: float32[m, n]
  c_add[i, j, r] at (1, i, 0, j, 0, r, 0)
    where i >= 0 and m - i - 1 >= 0 and …
    r0 = a[i, r]
    c[i, j] add= r0
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.ir.scalar_expr import Expr, Load, Var, rewrite
from weft.ir.scalar_printer import scalar_text
from weft.ir.scop import Access, Constraint, Scop, Statement, Tensor


def scop_text(scop: Scop) -> str:
    """``scop`` as readable, deterministic text."""
    where = f" where {constraints_text(scop.context)}" if scop.context else ""
    lines = [f"scop {scop.name}({', '.join(scop.parameters)}){where}"]
    lines += [f"  {name} = {scalar_text(value)}" for name, value in scop.derived]
    lines += [f"  {tensor_text(tensor)}" for tensor in scop.tensors]
    for statement in scop.statements:
        lines += [f"  {line}" for line in statement_text(statement).split("\n")]
    return "\n".join(lines) + "\n"


def tensor_text(tensor: Tensor) -> str:
    scope = "" if tensor.scope == "global" else f" {tensor.scope}"
    contracted = f", contracted {tensor.contracted}" if tensor.contracted else ""
    return f"{tensor.role} {tensor.name}: {tensor.dtype}[{_list(tensor.shape)}]{scope}{contracted}"


def statement_text(statement: Statement) -> str:
    """``statement`` on several lines, operands as ``r0``, ``r1``, … in the order of the reads."""
    position = ", ".join(map(str, statement.position))
    lines = [f"{statement.name}[{', '.join(statement.dims)}] at ({position})"]
    if statement.domain:
        lines.append(f"  where {constraints_text(statement.domain)}")
    for number, access in enumerate(statement.reads):
        lines.append(f"  r{number} = {access_text(access)}")
    lines += [f"  let {name} = {_body(value)}" for name, value in statement.body.lets]
    how = "="
    if statement.update is not None:
        how = f"{statement.update.monoid.name}="
        lines.append(f"  along {', '.join(statement.update.dims) or 'nothing'}")
    for access, result in zip(statement.writes, statement.body.results, strict=True):
        lines.append(f"  {access_text(access)} {how} {_body(result)}")
    origin = statement.origin
    if origin is not None and origin.statement != statement.name:
        lines.append(f"  from {origin.statement}[{_list(origin.instance)}]")
    if origin is not None and origin.source:
        lines.append(f"  for {origin.source!r}")
    return "\n".join(lines)


def access_text(access: Access) -> str:
    """``a[i, j] if i >= 0``; of a may access the indices that it computes."""
    guard = f" if {constraints_text(access.guard)}" if access.guard else ""
    if access.may:
        return f"may {access.tensor}[{', '.join(map(_body, access.body_indices))}]{guard}"
    return f"{access.tensor}[{_list(access.indices)}]{guard}"


def constraints_text(constraints: Sequence[Constraint]) -> str:
    return " and ".join(
        f"{scalar_text(c.expr)} {'==' if c.equality else '>='} 0" for c in constraints
    )


def _list(exprs: Sequence[Expr]) -> str:
    return ", ".join(scalar_text(expr) for expr in exprs)


def _body(expr: Expr) -> str:
    def operand(node: Expr) -> Expr | None:
        is_operand = isinstance(node, Load) and not node.indices
        return Var(f"r{node.source}", node.dtype) if is_operand else None  # type: ignore[attr-defined]

    return scalar_text(rewrite(expr, operand))
