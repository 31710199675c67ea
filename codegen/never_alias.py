"""Aliasing of an invariant element with those that a loop reads.

    for j in 0 … min(i, 8):  x[i] += a[i, j] * x[j]          never: j < i

From the bounds of the loop alone: the dependences of the program are no longer known here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from weft.ir.loop_ir import For
from weft.ir.scalar_affine import Affine, FloorDiv, to_affine
from weft.ir.scalar_expr import Apply, Expr


def never_alias(
    fixed: Sequence[Expr], read: Sequence[Expr], loop: For, bound: Collection[str]
) -> bool:
    """Whether no iteration of ``loop`` reads at ``read`` the element at ``fixed`` of the same
    buffer.

    ``bound``: names whose values vary between iterations, the loop's own among them.
    """
    return any(
        _never_zero(difference, loop)
        for one, two in zip(fixed, read, strict=True)
        if (difference := _difference(one, two)) is not None
        and difference.variables() & set(bound) <= {loop.var}
    )


def _difference(one: Expr, two: Expr) -> Affine | None:
    first, second = to_affine(one), to_affine(two)
    return None if first is None or second is None else first - second


def _never_zero(form: Affine, loop: For) -> bool:
    """Whether ``form`` has the same sign in every iteration."""
    step = form.coefficient(loop.var)
    if any(isinstance(t, FloorDiv) and loop.var in t.numerator.variables() for t, _ in form.terms):
        return False
    if step == 0:
        return form.is_constant and form.constant != 0
    first = [form.replaced({loop.var: least}) for least in _sides(loop.lower, "max", 0)]
    last = [form.replaced({loop.var: most}) for most in _sides(loop.upper, "min", -1)]
    below, above = (first, last) if step > 0 else (last, first)
    return any(f.is_constant and f.constant > 0 for f in below) or any(
        f.is_constant and f.constant < 0 for f in above
    )


def _sides(end: Expr, op: str, offset: int) -> Iterator[Affine]:
    """Forms that bound the variable, one for each operand of ``op``."""
    if isinstance(end, Apply) and end.op == op:
        for arg in end.args:
            yield from _sides(arg, op, offset)
    elif (form := to_affine(end)) is not None:
        yield form.plus(offset)
