"""Addresses in semantics: sums of fields, loop variables and bits of a micro-operation.

Other forms are refused, with what would be understood; ``read_semantics`` adds the place in the
source.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod

from weft.accel.capabilities import Address, Bits, Step
from weft.ir.accelerator import Accelerator, Operation
from weft.ir.scalar_expr import Apply, Cast, Expr, Literal, Load, Var, has_loads
from weft.ir.scalar_polynomial import Polynomial, polynomial
from weft.ir.scop import Access, Scop, Statement
from weft.polyhedral.analysis.linear import box

Bounds = Mapping[str, tuple[Expr, Expr]]


class NotUnderstood(Exception):
    """Why the compiler cannot use the semantics: a sentence without a capital and a full stop."""


class Reader:
    """The semantics of one operation."""

    def __init__(self, machine: Accelerator, operation: Operation, scop: Scop) -> None:
        self.machine, self.operation, self.scop = machine, operation, scop
        self.fields = {each.name for each in operation.encoding.fields}

    def memory(self, tensor: str) -> str:
        return self.operation.memories.get(tensor, tensor)

    def bounds(self, statement: Statement) -> tuple[dict[str, int], dict[str, tuple[Expr, Expr]]]:
        """Extents of the dims inside the instruction, bounds of its hardware loops."""
        inside: dict[str, int] = {}
        loops: dict[str, tuple[Expr, Expr]] = {}
        ranges = box(statement)
        for dim in statement.dims:
            if dim not in ranges:
                raise NotUnderstood(f"the bounds of {dim} depend on other loops")
            match ranges[dim]:
                case Literal(value=0), Literal(value=end):
                    inside[dim] = int(end)
                case bounds:
                    loops[dim] = bounds
        return inside, loops

    def field(self, value: Polynomial, what: str) -> tuple[str, int]:
        """(the field in ``value``, the constant added to it)."""
        rest = dict(value)
        offset = rest.pop((), 0)
        match list(rest.items()):
            case [((Var(name),), 1)] if name in self.fields:
                return name, offset
        raise NotUnderstood(f"{what} is no field, nor one and a number")

    def only_field(self, value: Polynomial, what: str) -> str:
        name, offset = self.field(value, what)
        if offset:
            raise NotUnderstood(f"{what} is not just a field")
        return name

    def address(
        self, access: Access, loops: Collection[str], inside: Mapping[str, int], words: str | None
    ) -> Address:
        """``loops``: dims that the address moves along by steps; ``words``: the one over
        micro-operations; the addresses of one element are along those ``inside``."""
        base: list[tuple[str, int]] = []
        steps: dict[str, Step] = {}
        constant, bits = 0, None
        for monomial, factor in polynomial(indices(access)[0]).items():
            names = [each.name if isinstance(each, Var) else "" for each in monomial]
            match names:
                case []:
                    constant = factor
                case [name] if name in loops and name != words:
                    steps[name] = factor
                case [name] if name in inside:
                    pass
                case [name] if name in self.fields:
                    base.append((name, factor))
                case [one, other] if factor == 1 and {one, other} & set(loops):
                    dim, field = (one, other) if one in loops else (other, one)
                    if field not in self.fields or dim in steps:
                        raise NotUnderstood(
                            f"{access.tensor} moves by {one} * {other}: the step along a loop is "
                            "one field or a number"
                        )
                    steps[dim] = field
                case [""] if factor == 1 and bits is None and has_loads(monomial[0]):
                    bits = _bits(monomial[0])
                case _:
                    raise NotUnderstood(
                        f"the address in {access.tensor} is no sum of fields, numbers, and loops "
                        "times a field or a number, like bank * 64 + row + k * step"
                    )
        base.sort(key=lambda each: -each[1])
        group = prod(inside[d] for d in self.grouped(access, inside))
        memory = self.memory(access.tensor)
        return Address(memory, tuple(base), constant, bits, steps, group)

    def grouped(self, access: Access, inside: Mapping[str, int]) -> tuple[str, ...]:
        """The dims inside the instruction that the address moves along, from outer to inner."""
        found: list[tuple[int, str]] = []
        for monomial, factor in polynomial(indices(access)[0]).items():
            names = [
                each.name for each in monomial if isinstance(each, Var) and each.name in inside
            ]
            if names and len(monomial) > 1:
                raise NotUnderstood(
                    f"the elements of {access.tensor} along {names[0]} do not lie side by side"
                )
            found += [(factor, name) for name in names]
        dims = [name for _, name in sorted(found, reverse=True)]
        stride = 1
        for factor, name in sorted(found):
            if factor != stride:
                raise NotUnderstood(
                    f"the elements of {access.tensor} along {name} do not lie side by side"
                )
            stride *= inside[name]
        return tuple(dims)

    def element(self, access: Access, inside: Mapping[str, int]) -> tuple[Expr, ...]:
        """The indices within an element: of its addresses, then of each."""
        own = indices(access)[1:]
        for index in own:
            if not (isinstance(index, Var) and index.name in inside) and index != Literal(
                0, index.dtype
            ):
                raise NotUnderstood(
                    f"{access.tensor} has an index other than its first that is no loop of a "
                    "constant number of turns: give the memory more elements of fewer scalars, and "
                    "add the index, times what it moves by, to the address"
                )
        return (*(Var(dim) for dim in self.grouped(access, inside)), *own)


def indices(access: Access) -> tuple[Expr, ...]:
    return access.body_indices if access.may else access.indices


def _bits(expr: Expr) -> Bits:
    """``int64(word >> place & mask)``."""
    while isinstance(expr, Cast):
        expr = expr.arg
    match expr:
        case Apply("and", (inner, Literal(value=mask))) if (int(mask) & (int(mask) + 1)) == 0:
            width = int(mask).bit_length()
        case inner:
            width = inner.dtype.bits
    place = 0
    match inner:
        case Apply("shr", (word, Literal(value=by))):
            inner, place = word, int(by)
    if not isinstance(inner, Load):
        raise NotUnderstood("an operand's place is not some bits of a micro-operation")
    return Bits(place, min(width, inner.dtype.bits - place))
