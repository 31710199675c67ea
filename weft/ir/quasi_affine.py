"""The quasi-affine normal form (``scalar_affine``) of what has to have one."""

from __future__ import annotations

from weft.ir.errors import CompileError
from weft.ir.scalar_affine import Affine, to_affine, to_expr
from weft.ir.scalar_condition import Conjunction
from weft.ir.scalar_expr import Expr, walk
from weft.ir.scalar_printer import scalar_text
from weft.ir.scop import Access, Constraint, Scop, Statement


def affine(expr: Expr) -> Affine:
    """The normal form of a quasi-affine ``expr``.

    Raises CompileError (WEFT-E0401) if it is none: products of variables, division by a variable,
    loads, selects.
    """
    form = to_affine(expr)
    if form is not None:
        return form
    culprit = next(node for node in walk(expr) if to_affine(node) is None)
    raise CompileError(
        "WEFT-E0401",
        f"the index expression {scalar_text(culprit)} is not quasi-affine",
        why="only sums, multiples by constants, and // and % by constants are analysed",
        hint="use a data-dependent (may) access, whose element is computed at run time",
    )


def as_constraints(known: Conjunction) -> tuple[Constraint, ...]:
    """``known`` as a Scop has it."""
    return (
        *(Constraint(to_expr(form)) for form in known.at_least),
        *(Constraint(to_expr(form), equality=True) for form in known.equal),
    )


def subscripts(scop: Scop, statement: Statement, access: Access) -> list[Affine | None]:
    """The forms of the subscripts of ``access``; None where one is data (of a may access)."""
    if not access.may:
        return [affine(index) for index in access.indices]
    if not access.body_indices:
        return [None for _ in scop.tensor(access.tensor).shape]
    names = {*statement.dims, *scop.parameters}
    forms = [to_affine(index) for index in access.body_indices]
    return [form if form is not None and form.variables() <= names else None for form in forms]
