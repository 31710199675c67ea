"""Winograd convolution: correlations by fewer multiplications, where a cost model says that it
pays.

    Y = conv(X, W)     →     V = windows(X);  U = weights(W);  P = V · U;  Y = result(P)

``correlation`` finds them, whatever they are called; ``derive`` has the algebra,
``minimal_filtering`` the matrices and their proof. The choice for each is in its node's attribute
"winograd", for ``explain``.

What a user may want to know: rounding errors grow, for random data by no more than
``MAX_AMPLIFICATION``; an infinity or NaN reaches all outputs of its tile, as NaN; transformed
windows and products need memory, which ``Effort.memory`` bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from weft.graph.access_pattern import extent
from weft.graph.correlation import Correlation, correlation_of, variables
from weft.graph.derive import Steps, derive, transpose_back, transpose_operand
from weft.graph.minimal_filtering import (
    Filter,
    amplification,
    error_bound,
    minimal_filter,
)
from weft.graph.rebuild import rebuild
from weft.graph.split_node import split_node
from weft.ir.machine import TYPICAL, Moves
from weft.ir.operator_graph import Graph, Node
from weft.ir.plan import Choose, Option, by_default
from weft.ir.tensor_expr import (
    Operation,
    Program,
    Tensor,
    constant_size,
    operations,
    tensors_read,
)

MAX_POINTS = 8  # of a filter: more points amplify rounding more than they save
MAX_AMPLIFICATION = 8.0  # of rounding errors: three bits
ALIKE = 1.05  # a more accurate form may cost up to 5% more than the cheapest
ENOUGH = 1.15  # use a derived form only if it is estimated 1.15 times as fast as the direct sum
SMALL = 1 << 20  # multiply-adds; smaller sums are not worth two more kernels
OPEN = (1, 4, 16)  # what an open size is taken to be, in turn: a form is to pay at all of them


@dataclass(frozen=True, slots=True)
class Effort:
    """``memory``: the most bytes that the intermediates of one sum may take; ``moves``: what
    transforms take on the processor."""

    memory: int | None = None
    moves: Moves = TYPICAL.moves


@dataclass(frozen=True, slots=True)
class Form:
    """A correlation by ``steps``, one after the other; with none, the direct sum.

    ``cost`` in vectorised multiply-adds; ``products``: multiplications of the sums alone, both in
    geometric mean where sizes are open; ``bytes`` of all intermediates, if none is fused, at the
    largest; ``amplification`` of rounding errors; ``bound`` on the error, for |x| and |w| of at
    most 1.
    """

    steps: Steps
    cost: float
    products: float
    bytes: int = 0
    amplification: float = 1.0
    bound: float = 0.0

    def __str__(self) -> str:
        """``F(4, 3) along h and F(4, 3) along w``"""
        along = (f"F({f.m}, {f.r}) along {s.axis.name}" for s, f in self.steps)
        return " and ".join(along) or "direct"


def winograd(graph: Graph, effort: Effort | None = None, choose: Choose = by_default) -> Graph:
    """``graph`` with those correlations in derived form that are faster so, or that ``choose``
    says.

    Constant weights are transformed when compiling, others in each call. Linear in the graph.
    """
    constant = set(graph.constants)
    values = [*graph.inputs, *(v for node in graph.nodes for v in node.outputs)]
    taken = constant | {v.name for v in values}
    nodes: list[Node] = []
    for node in graph.nodes:
        known = [v.name in constant for v in node.inputs]
        if all(known):  # computed once, when compiling
            constant |= {v.name for v in node.outputs}
            nodes.append(node)
        else:
            nodes += _rewritten(node, known, effort or Effort(), taken, choose)
    return replace(graph, nodes=tuple(nodes))


def _rewritten(
    node: Node, known: Sequence[bool], effort: Effort, taken: set[str], choose: Choose
) -> tuple[Node, ...]:
    """The nodes that compute ``node``; ``known``: which of its inputs are constant."""
    found = [o for o in operations(node.program) if correlation_of(o)]
    if not found:
        return (node,)
    constant = {t for t, k in zip(node.program.inputs, known, strict=True) if k}
    notes: list[str] = []
    derived: list[Operation] = []

    def change(operation: Operation) -> Operation:
        c = correlation_of(operation)
        if c is None:
            return operation
        name = node.name if len(found) == 1 else f"{node.name}.{operation.name}"
        form, note = _chosen(name, c, effort, choose, fixed=constant >= set(_sources(c)))
        notes.append(note)
        if not form.steps:
            return operation
        derived.append(_derived(c, form.steps))
        return derived[-1]

    _, outputs = rebuild(node.program, node.program.inputs, change=change)
    new = replace(node, attributes={**node.attributes, "winograd": "; ".join(notes)})
    if not derived:
        return (new,)
    program = Program(node.program.name, node.program.inputs, outputs)
    return split_node(replace(new, program=program), taken)


def _derived(c: Correlation, steps: Steps) -> Operation:
    """What computes ``c.operation``; via a transposed copy of x where slides are contiguous."""
    if not transposes_x(steps):
        return derive(c, steps)
    sums = transpose_operand(c)
    assert sums.operation is not None
    turned = correlation_of(sums.operation)
    assert turned is not None, "it slides as before"
    return transpose_back(c, replace(sums, operation=derive(turned, steps)))


def transposes_x(steps: Steps) -> bool:
    """Whether a slide gathers from, or scatters to, contiguous memory: x is transposed first."""
    return any(slide.inner for slide, _ in steps)


def _sources(c: Correlation) -> Iterator[Tensor]:
    """The inputs that the weights of ``c`` are computed from."""
    stack = list(tensors_read([c.w]))
    seen = set()
    while stack:
        tensor = stack.pop()
        if tensor in seen:
            continue
        seen.add(tensor)
        if tensor.operation is None:
            yield tensor
        else:
            stack.extend(tensor.operation.reads)


def _chosen(
    name: str, c: Correlation, effort: Effort, choose: Choose, *, fixed: bool
) -> tuple[Form, str]:
    """The form of ``c``, of which ``name`` says where it is, and why."""
    best, note, fitting = best_form(c, effort, fixed=fixed)
    known = {str(form): form for form in fitting}
    if len(known) < 2:
        return best, note
    options = [Option(text, form.cost) for text, form in known.items()]
    found = known[str(choose(f"{name}.winograd", options, str(best)))]
    if found != best:
        note = f"{c.operation.name}: {_said(found, fitting[0])}, by plan"
    return found, note


def best_form(
    c: Correlation, effort: Effort, *, fixed: bool = True
) -> tuple[Form, str, tuple[Form, ...]]:
    """The most accurate of the forms of ``c`` that are about as cheap as the cheapest, why, and all
    that are accurate enough and fit into memory, the direct sum first.

    ``fixed``: the weights are constant.
    """
    direct = estimate(c, (), fixed=fixed, moves=effort.moves)
    if direct.products < SMALL:
        return direct, f"{c.operation.name}: direct, it is small", (direct,)
    forms = [estimate(c, steps, fixed=fixed, moves=effort.moves) for steps in steps_for(c)]
    accurate = [f for f in forms if f.amplification <= MAX_AMPLIFICATION]
    fitting = [f for f in accurate if effort.memory is None or f.bytes <= effort.memory]
    every = (direct, *fitting)
    if not fitting:
        why = f"no form fits in {effort.memory} bytes" if accurate else "every form rounds too much"
        return direct, f"{c.operation.name}: direct, {why}", every
    best = min(fitting, key=lambda f: f.cost)
    if best.cost * ENOUGH > direct.cost:
        return direct, f"{c.operation.name}: direct, not {_said(best, direct)}", every
    enough = min(ALIKE * best.cost, direct.cost / ENOUGH)
    best = min((f for f in fitting if f.cost <= enough), key=lambda f: (f.amplification, f.cost))
    return best, f"{c.operation.name}: {_said(best, direct)}", every


def _said(form: Form, direct: Form) -> str:
    """``form`` beside ``direct``, for people."""
    return (
        f"{form}: {direct.products / form.products:.3g} times fewer multiplications, an estimated "
        f"{direct.cost / form.cost:.3g} times as fast, rounding errors {form.amplification:.2g} "
        f"times as large and at most {form.bound:.2g} for |x|, |w| <= 1, no more than {form.bytes} "
        "bytes of intermediates"
    )


def steps_for(c: Correlation) -> Iterator[Steps]:
    """Filters along each slide of ``c``, and along each two of them."""
    options = {s: [(s, f) for f in _filters(s.taps)] for s in c.slides}
    for slide, steps in options.items():
        yield from ((step,) for step in steps)
        for other in c.slides:
            if other.axis != slide.axis and other.tap != slide.tap:
                yield from ((one, two) for one in steps for two in options[other])


def _filters(taps: int) -> list[Filter]:
    """Filters at 0, infinity and pairs of opposite points, which have the smallest coefficients."""
    return [minimal_filter(m, taps) for m in range(2, MAX_POINTS + 2 - taps) if (m + taps) % 2]


def estimate(c: Correlation, steps: Steps, *, fixed: bool, moves: Moves = TYPICAL.moves) -> Form:
    """``c`` by ``steps``: its cost with such ``moves``, memory and accuracy."""
    axes = (*c.operation.axes, *c.fold.axes)
    sizes = OPEN if any(constant_size(a.extent) is None for a in axes) else OPEN[-1:]
    *_, last = forms = [_estimate_at(size, c, steps, fixed, moves) for size in sizes]
    cost = prod(f.cost for f in forms) ** (1 / len(sizes))
    products = prod(f.products for f in forms) ** (1 / len(sizes))
    return replace(last, cost=cost, products=products)


def _estimate_at(symbol: int, c: Correlation, steps: Steps, fixed: bool, moves: Moves) -> Form:
    """The same where each open size is ``symbol``."""
    axes = (*c.operation.axes, *c.fold.axes)
    loops = {a.name: extent(a.extent, symbol) for a in axes}
    places = {s.axis.name: s.outputs + s.taps - 1 for s in c.windows}
    inside = {s.tap.name for s in c.windows}  # of a window, which has places instead
    read = {n: places.get(n, loops[n]) for n in variables(c.x) if n in loops and n not in inside}
    windows = float(prod(read.values()))
    weights = float(prod(loops[n] for n in variables(c.w) if n in loops))
    results = float(prod(loops[a.name] for a in c.operation.axes))
    products = float(prod(loops.values()))
    size = c.fold.dtype.itemsize / 4
    stored = (windows + results) * transposes_x(steps)
    cost, amplified = stored * moves.turn * size, 1.0
    for slide, f in steps:
        padded = f.n * -(-slide.outputs // f.m)
        products *= padded / (slide.outputs * slide.taps)
        windows *= padded / (slide.outputs + slide.taps - 1)
        results *= padded / slide.outputs
        weights *= f.n / f.r
        stored += windows + results
        cost += (windows + results) * moves.transform * size
        cost += 0.0 if fixed else weights * f.r * moves.transform
        amplified *= amplification(f)
    cost += products + weights * moves.weight * size
    filters = [f for _, f in steps]
    others = prod(loops[a.name] for a in c.fold.axes) // prod(f.r for f in filters)
    bound = error_bound(filters, others) * 2.0 ** (-24 if c.fold.dtype.bits == 32 else -53)
    stored_bytes = int(stored) * c.fold.dtype.itemsize
    return Form(steps, cost, products, stored_bytes, amplified, bound)
