"""Sums of products of dequantised integers, as sums of the integers; what scales them comes after.

    y[k] = Σ_c (float(x[c]) * s) * (float(w[k, c]) * t[k])
    →
    a[k] = Σ_c int32(x[c]) * int32(w[k, c]);  y[k] = float(a[k]) * (s * t[k])

The same number but for the rounding of float sums, of which a has none: it is exact, since its
bound is proved to fit int32. So models that say what is quantised (DequantizeLinear before Conv or
MatMul) have their sums where integers are multiplied. A scale goes out of the sum where it does not
move along it; what pads in between pads the integers. Names of operators do not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from weft.graph.axes import tensor_of
from weft.graph.correlation import at_most, variables
from weft.graph.factors import MAX_NODES, times
from weft.graph.known import elements
from weft.graph.rebuild import rebuild
from weft.graph.split_node import split_node, with_makers
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.operator_graph import Graph, Node
from weft.ir.scalar_expr import (
    Apply,
    Cast,
    Expr,
    Literal,
    Load,
    Select,
    cast,
    literal,
    rewrite,
    select,
    substitute,
)
from weft.ir.tensor_expr import (
    Compute,
    Operation,
    Program,
    Reduce,
    Tensor,
    operations,
    tensors_read,
)

INT32 = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Scaled:
    """float(int32(``element``) - int32(``zero``)) * ``factor``; None: nothing is subtracted, 1."""

    element: Expr  # of 8 bits at most
    zero: Expr | None = None
    factor: Expr | None = None

    @property
    def value(self) -> Expr:
        element = cast(self.element, dtypes.int32)
        return element if self.zero is None else element - cast(self.zero, dtypes.int32)

    @property
    def peak(self) -> int:
        """The greatest magnitude of the value."""
        kinds = [e.dtype for e in (self.element, self.zero) if e is not None]
        return sum(max(abs(int(d.lowest)), int(d.highest)) for d in kinds)


def integer_sums(graph: Graph, depth: int = 1) -> Graph:
    """``graph`` with sums of products of dequantised integers in int32, each a node of its own, as
    sums of integers are that come with what scales them. ``depth``: sums without a dimension as
    long, that of a dot product, stay in floating point.

    Before constants are folded: dequantised weights are the integers that they were.
    """
    taken = graph.names
    makers: dict[str, Node] = {}  # of dequantised values
    nodes: list[Node] = []
    for node in graph.nodes:
        if _dequantises(node, makers):
            makers[node.outputs[0].name] = with_makers(node, makers)
            nodes.append(node)
        else:
            nodes += _rewritten(node, makers, taken, depth)
    return replace(graph, nodes=tuple(nodes))


def _dequantises(node: Node, makers: Mapping[str, Node]) -> bool:
    """Whether ``node`` computes integers times a factor, or moves what does."""
    match operations(node.program):
        case (Compute(_, _, (value,), 0) as only,):
            if len(node.outputs) != 1 or not value.dtype.is_float or not at_most(value, MAX_NODES):
                return False
            if isinstance(value, Load):
                return any(v.name in makers for v in node.inputs)
            found = scaled(value)
            return found is not None and len(only.reads) <= 3
    return False


def _rewritten(
    node: Node, makers: Mapping[str, Node], taken: set[str], depth: int
) -> tuple[Node, ...]:
    order = operations(node.program)
    values = (v for o in order if isinstance(o, Compute) for v in o.values)
    folds = [n for v in values for n in at_most(v, MAX_NODES) if isinstance(n, Reduce)]
    if any(fold.dtype.is_integer for fold in folds) and len(order) > 1:
        _, outputs = rebuild(node.program, node.program.inputs, change=_on_elements)
        program = replace(node.program, outputs=outputs)
        return split_node(_with_used_inputs(replace(node, program=program)), taken)
    if not folds or not any(v.name in makers for v in node.inputs):
        return (node,)
    whole = with_makers(node, makers)
    changed: list[Operation] = []

    def change(operation: Operation) -> Operation:
        new = _in_integers(operation, depth)
        if new is not operation:
            changed.append(new)
        return new

    _, outputs = rebuild(whole.program, whole.program.inputs, change=change)
    if not changed:
        return (node,)
    program = Program(node.program.name, whole.program.inputs, outputs)
    return split_node(_with_used_inputs(replace(whole, program=program)), taken)


def _on_elements(operation: Operation) -> Operation:
    """``operation`` on the integers of few bits that are widened, and less others, before it."""

    def change(node: Expr) -> Expr | None:
        match node:
            case Load(Tensor(operation=Compute(_, axes, (value,), 0)), indices):
                if value.dtype == dtypes.int32 and _difference(value) is not None:
                    return substitute(
                        value, {a.name: i for a, i in zip(axes, indices, strict=True)}
                    )
        return None

    if not isinstance(operation, Compute):
        return operation
    return replace(operation, values=tuple(rewrite(v, change) for v in operation.values))


def _with_used_inputs(node: Node) -> Node:
    read = {t for o in operations(node.program) for t in o.reads} | set(node.program.outputs)
    pairs = [(t, v) for t, v in zip(node.program.inputs, node.inputs, strict=True) if t in read]
    program = replace(node.program, inputs=tuple(t for t, _ in pairs))
    return replace(node, inputs=tuple(v for _, v in pairs), program=program)


def _in_integers(operation: Operation, depth: int) -> Operation:
    """``operation`` with its sum of products in int32, if it is one and deep enough."""
    if not isinstance(operation, Compute) or operation.scan or len(operation.values) != 1:
        return operation
    (value,) = operation.values
    folds = [n for n in at_most(value, MAX_NODES) if isinstance(n, Reduce)]
    if len(folds) != 1 or not folds[0].dtype.is_float or not folds[0].monoid.is_sum:
        return operation
    (fold,) = folds
    found = _product(fold)
    longest = max((elements([axis.extent]) or 0 for axis in fold.axes), default=0)
    if found is None or longest < depth:
        return operation
    product, factor = found
    total = Reduce(monoid("add", dtypes.int32), fold.axes, (product,))
    own = [replace(axis) for axis in operation.axes]
    sums = tensor_of(f"{operation.name}_integers", own, total)
    at = tuple(axis - axis.lower for axis in operation.axes)
    number = cast(Load(sums, at, dtypes.int32), fold.dtype)
    new = number if factor is None else number * cast(factor, fold.dtype)
    done = rewrite(value, lambda node: new if node == fold else None)
    return replace(operation, values=(done,))


def _product(fold: Reduce) -> tuple[Expr, Expr | None] | None:
    """What ``fold`` sums, in int32, and the factor of the whole sum."""
    match fold.values[0]:
        case Apply("mul", (left, right)) if fold.condition is None:
            one, two = scaled(left), scaled(right)
        case _:
            return None
    count = elements([axis.extent for axis in fold.axes])
    if one is None or two is None or count is None or one.peak * two.peak * count > INT32:
        return None
    factors = [s.factor for s in (one, two) if s.factor is not None]
    along = {axis.name for axis in fold.axes}
    if any(not along.isdisjoint(variables(factor)) for factor in factors):
        return None
    return one.value * two.value, times(factors) if factors else None


def scaled(expr: Expr) -> Scaled | None:
    """``expr`` as integers of 8 bits, less others, times a factor; None if it is none."""
    match expr:
        case Load(Tensor(operation=Compute(name, axes, (value,), 0)), indices):
            found = scaled(value) if at_most(value, MAX_NODES) else None
            if found is None:
                return None
            at = zip(axes, indices, strict=True)
            places: dict[str, Expr] = {axis.name: index for axis, index in at}
            if isinstance(found.element, Select):  # a tensor of its own
                if any(variables(e) for e in (found.zero, found.factor) if e is not None):
                    return None
                own = tensor_of(name, [replace(axis) for axis in axes], found.element)
                moved = tuple(places[a.name] - a.lower for a in axes)
                return replace(found, element=Load(own, moved, own.dtype))
            parts = (found.element, found.zero, found.factor)
            element, zero, factor = (None if e is None else substitute(e, places) for e in parts)
            return None if element is None else Scaled(element, zero, factor)
        case Cast(arg, dtype) if dtype.is_float and arg.dtype.is_integer:
            return _difference(arg)
        case Cast(arg, dtype) if dtype.is_float and dtype.bits >= 32:
            return scaled(arg)
        case Apply("mul", (left, right)):
            found = scaled(left)
            if found is None or any(t.operation is not None for t in tensors_read([right])):
                return None
            return replace(found, factor=right if found.factor is None else found.factor * right)
        case Select(condition, inside, Literal(outside)) if outside == 0:
            found = scaled(inside)
            if found is None:
                return None
            edge = literal(0, found.element.dtype)
            zero = edge if found.zero is None else cast(found.zero, found.element.dtype)
            return replace(found, element=select(condition, found.element, zero))
    return None


def _difference(expr: Expr) -> Scaled | None:
    """``expr``, integers, as an element of 8 bits less another."""
    match expr:
        case Apply("sub", (left, right)):
            element, zero = _uncast(left), _uncast(right)
            alike = element.dtype == zero.dtype
            return Scaled(element, zero) if alike and element.dtype.bits <= 8 else None
    element = _uncast(expr)
    return Scaled(element) if element.dtype.bits <= 8 else None


def _uncast(expr: Expr) -> Expr:
    """What ``expr`` was before it was made wider."""
    match expr:
        case Cast(arg, dtype) if arg.dtype.is_integer and arg.dtype.bits < dtype.bits:
            return arg
    return expr
