"""Integer sums of products of differences: products of the elements alone, the rest apart.

    S[i, j] = Σ_k (x[i, k] - p[i]) * (y[k, j] - q[j])
    →
    X[i] = Σ_k x[i, k];  Y[j] = Σ_k y[k, j]
    S[i, j] = Σ_k x[i, k] * y[k, j] - q[j] * X[i] - p[i] * Y[j] + n * p[i] * q[j]

The same polynomial, so the same integers: they wrap, and modulo 2**bits all of its laws hold. What
is gained is that small elements (x, y: converted from narrower integers) are multiplied as they are
stored, as dot-product instructions do, and what is subtracted (zero points, say) is worked with n
times less often; sums over constants are made when compiling, and a constant 0 is no work at all.

That is asked of expressions, read through the operations that only subtract and convert; names of
operators and tensors, the order of dimensions and what x is besides do not matter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod

import numpy as np

from weft.graph.access_pattern import extent
from weft.graph.axes import tensor_of
from weft.graph.correlation import at_most, variables
from weft.graph.rebuild import rebuild
from weft.graph.split_node import split_node, with_makers
from weft.ir.operator_graph import Graph, Node
from weft.ir.scalar_expr import (
    Apply,
    Cast,
    Expr,
    Literal,
    Load,
    cast,
    literal,
    rewrite,
    substitute,
    walk,
)
from weft.ir.scalar_simplify import simplify
from weft.ir.tensor_expr import (
    Axis,
    Compute,
    Operation,
    Program,
    Reduce,
    Tensor,
    operations,
)

MAX_NODES = 256  # of a body that is looked at
SMALL = 1 << 16  # elements of a constant that is asked whether it is 0
SHARE = 0.25  # of the products that sums apart may cost
MAX_MAKERS = 8  # operations that are read through: their terms double with each, in the worst case


def differences(graph: Graph) -> Graph:
    """``graph`` with products of the elements that differences are of; linear in the graph."""
    zero = {n for n, a in graph.constants.items() if a.size <= SMALL and not np.any(a)}
    constant, taken = set(graph.constants), graph.names
    makers: dict[str, Node] = {}  # of values that are sums of others
    nodes: list[Node] = []
    for node in graph.nodes:
        if all(v.name in constant for v in node.inputs):  # computed once, when compiling
            constant |= {v.name for v in node.outputs}
            nodes.append(node)
        elif _adds(node):
            whole = with_makers(node, makers)
            few = len(operations(whole.program)) <= MAX_MAKERS
            makers[node.outputs[0].name] = whole if few else node
            nodes.append(node)
        else:
            nodes += _rewritten(node, makers, zero, constant, taken)
    return replace(graph, nodes=tuple(nodes))


def _rewritten(
    node: Node,
    makers: Mapping[str, Node],
    zero: Collection[str],
    constant: Collection[str],
    taken: set[str],
) -> tuple[Node, ...]:
    if not any(_folds_integers(operation) for operation in operations(node.program)):
        return (node,)
    whole = with_makers(node, makers)
    given = list(zip(whole.program.inputs, whole.inputs, strict=True))
    nothing = {t for t, value in given if value.name in zero}
    known = {t for t, value in given if value.name in constant}
    changed: list[Operation] = []

    def change(operation: Operation) -> Operation:
        found = product_of(operation, nothing)
        if found is None or not _pays(found, known):
            return operation
        changed.append(_apart(found))
        return changed[-1]

    _, outputs = rebuild(whole.program, whole.program.inputs, change=change)
    if not changed:
        return (node,)
    program = Program(node.program.name, whole.program.inputs, outputs)
    return split_node(replace(whole, program=program), taken)


def _adds(node: Node) -> bool:
    """Whether ``node`` only converts, adds and subtracts, after a few others that do."""
    match operations(node.program):
        case (Compute() as only,):
            one = len(only.values) == len(node.outputs) == 1
            return one and not only.scan and _only_adds(only.values[0])
    return False


# ---- what it is ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Factor:
    """``element`` + ``rest``: what moves along the sum, converted from something narrower, and what
    does not (None: nothing)."""

    element: Expr
    rest: Expr | None


@dataclass(frozen=True, slots=True)
class DifferenceProduct:
    """The one sum of ``operation``, of ``left`` * ``right`` over ``fold.axes``."""

    operation: Compute
    fold: Reduce
    left: Factor
    right: Factor


def _folds_integers(operation: Operation) -> bool:
    return isinstance(operation, Compute) and any(
        isinstance(n, Reduce) and n.dtype.is_integer for v in operation.values for n in walk(v)
    )


def product_of(operation: Operation, zero: Collection[Tensor]) -> DifferenceProduct | None:
    """``operation`` as a sum of products of which one at least is of a difference; None if it is
    none. All elements of the placeholders ``zero`` are 0."""
    if not isinstance(operation, Compute) or operation.scan or len(operation.values) != 1:
        return None
    folds = [n for n in at_most(operation.values[0], MAX_NODES) if isinstance(n, Reduce)]
    if len(folds) != 1:
        return None
    (fold,) = folds
    if not fold.dtype.is_integer or fold.condition is not None or not fold.monoid.is_sum:
        return None
    loops = {axis.name for axis in (*operation.axes, *fold.axes)}
    if any(not loops.isdisjoint(variables(b)) for a in fold.axes for b in (a.lower, a.upper)):
        return None
    match fold.values[0]:
        case Apply("mul", (left, right)):
            factors = [_factor(e, fold, zero) for e in (left, right)]
            if None not in factors and any(_subtracts(e) for e in (left, right)):
                one, two = (f for f in factors if f is not None)
                return DifferenceProduct(operation, fold, one, two)
    return None


def _subtracts(expr: Expr) -> bool:
    return isinstance(_seen_through(expr), Apply)


def _factor(expr: Expr, fold: Reduce, zero: Collection[Tensor]) -> Factor | None:
    """``expr`` as an element and what is added to it; None where there is not one element."""
    along = {axis.name for axis in fold.axes}
    terms = list(_terms(expr, zero))
    moving = [t for t in terms if not along.isdisjoint(variables(t))]
    fixed = [t for t in terms if along.isdisjoint(variables(t))]
    if len(moving) != 1 or any(isinstance(n, Reduce) for t in terms for n in walk(t)):
        return None
    (element,) = moving
    if not isinstance(element, Cast) or not _is_narrow(element):
        return None
    return Factor(element, reduce(lambda a, b: a + b, fixed) if fixed else None)


def _is_narrow(element: Cast) -> bool:
    return element.arg.dtype.is_integer and element.arg.dtype.bits < element.dtype.bits


def _terms(expr: Expr, zero: Collection[Tensor]) -> Iterator[Expr]:
    """What ``expr`` is the sum of, but for elements of ``zero``."""
    expr = _seen_through(expr)
    match expr:
        case Apply("add", (left, right)):
            yield from _terms(left, zero)
            yield from _terms(right, zero)
        case Apply("sub", (left, right)):
            yield from _terms(left, zero)
            yield from (-term for term in _terms(right, zero))
        case Cast(Load(source)) | Load(source) if source in zero:
            pass
        case Literal(value) if value == 0:
            pass
        case _:
            yield expr


def _seen_through(expr: Expr) -> Expr:
    """``expr``, or what computes it where that only converts, adds and subtracts."""
    if isinstance(expr, Load) and isinstance(expr.source, Tensor):
        operation = expr.source.operation
        if isinstance(operation, Compute) and not operation.scan and len(operation.values) == 1:
            value = operation.values[0]
            if _only_adds(value):
                at = zip(operation.axes, expr.indices, strict=True)
                return substitute(value, {axis.name: index for axis, index in at})
    return expr


def _only_adds(value: Expr) -> bool:
    match value:
        case Apply("add" | "sub", args):
            return value.dtype.is_integer and all(map(_only_adds, args))
        case Cast(arg):
            return arg.dtype.is_integer and isinstance(arg, Load) and value.dtype.is_integer
    return isinstance(value, Load | Literal) and value.dtype.is_integer


# ---- what becomes of it -------------------------------------------------------------------------


def _pays(p: DifferenceProduct, known: Collection[Tensor]) -> bool:
    """Whether the sums apart are few beside the products; those of ``known`` tensors are none."""
    loops = {a.name: extent(a.extent) for a in (*p.operation.axes, *p.fold.axes)}
    products, apart = prod(loops.values()), 0
    for factor, other in ((p.left, p.right), (p.right, p.left)):
        if other.rest is not None and not set(_sources(factor.element)) <= set(known):
            apart += prod(loops[n] for n in variables(factor.element) if n in loops)
    return apart <= SHARE * products


def _sources(expr: Expr) -> Iterator[Tensor]:
    """The placeholders that ``expr`` is computed from."""
    stack = [n.source for n in walk(expr) if isinstance(n, Load)]
    seen = set()
    while stack:
        tensor = stack.pop()
        if isinstance(tensor, Tensor) and tensor not in seen:
            seen.add(tensor)
            if tensor.operation is None:
                yield tensor
            else:
                stack.extend(tensor.operation.reads)


def _apart(p: DifferenceProduct) -> Compute:
    """What computes ``p.operation``, with the rests of its factors apart from the products."""
    total: Expr = replace(p.fold, values=(p.left.element * p.right.element,))
    rests = p.left.rest, p.right.rest
    for number, (factor, rest) in enumerate(zip((p.left, p.right), reversed(rests), strict=True)):
        if rest is not None:
            total = total + rest * _sum_of(p, factor.element, f"{p.operation.name}_sums{number}")
    if rests[0] is not None and rests[1] is not None:
        total = total + _count(p.fold.axes, p.fold) * rests[0] * rests[1]

    def change(node: Expr) -> Expr | None:
        return total if node == p.fold else None

    return replace(p.operation, values=(rewrite(p.operation.values[0], change),))


def _sum_of(p: DifferenceProduct, element: Expr, name: str) -> Expr:
    """The sum of ``element`` alone, from a tensor over the loops of the result that it moves in."""
    moving = variables(element)
    summed = tuple(a for a in p.fold.axes if a.name in moving)
    loops = tuple(a for a in p.operation.axes if a.name in moving)
    value = replace(p.fold, axes=summed, values=(element,))
    tensor = tensor_of(name, [replace(axis) for axis in loops], value)
    others = [a for a in p.fold.axes if a.name not in moving]
    found = tensor[tuple(simplify(axis - axis.lower) for axis in loops)]
    return found * _count(others, p.fold) if others else found


def _count(axes: Sequence[Axis], fold: Reduce) -> Expr:
    """How many points ``axes`` have."""
    count: Expr = literal(1)
    for axis in axes:
        count = count * axis.extent
    return cast(simplify(count), fold.dtype)
