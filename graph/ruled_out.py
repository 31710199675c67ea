"""What constants rule out by affine conditions is not summed.

    x[i, j] = s[i, j] + mask[i, j]        mask: -inf where j > i, a constant
    m[i] = max_j x[i, j]                  →  m[i] = max_(j <= i) x[i, j]
    p[i, j] = exp(x[i, j] - m[i])
    y[i] = Σ_j p[i, j] * v[j]             →  y[i] = Σ_(j <= i) p[i, j] * v[j]

A *fact* is an affine form with what all elements of a tensor are where it is negative. Those of
constants are found by looking (``octagon``), those of ``select`` and comparisons of indices by
reading; the others follow element by element: -inf + y is -inf, exp(-inf) is 0, 0 * y is 0. A fold
of which the terms are the identity where a form is negative leaves these out; what nothing reads
then is not computed either (``polyhedral/unread``). So masks are left out of products, of
softmax, of attention, whatever these are called.

y is taken for a finite number. That is wrong where the mask itself makes it infinite: the maximum
of a row that is ruled out altogether is -inf. So nothing follows from folds that may have no term
left. Where data are infinite or NaN at a place that is ruled out, they are left out as well. Masks
of -1e9 or of the least number that are added rule nothing out: y may be as large. ``strict``
programs do without this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf, isinf, prod

import numpy as np

from weft.graph.correlation import at_most
from weft.graph.octagon import MOST, octagon
from weft.graph.rebuild import rebuild
from weft.graph.whole_program import Key, key_of
from weft.ir import dtypes
from weft.ir.dtypes import as_dtype
from weft.ir.operator_graph import Graph, Node
from weft.ir.scalar_affine import Affine, Term, to_affine, to_expr
from weft.ir.scalar_condition import conjunction
from weft.ir.scalar_expr import (
    Apply,
    Cast,
    Expr,
    Literal,
    Load,
    Select,
    literal,
    rewrite,
    substitute,
    walk,
)
from weft.ir.scalar_interpreter import evaluate
from weft.ir.tensor_expr import Axis, Compute, Operation, Reduce, Tensor, constant_size

MAX_NODES = 256  # of an expression that is looked at
MAX_FORMS = 8  # that are tried on it
WORTH = 8  # a form leaves out one term of so many at least


@dataclass(frozen=True, slots=True)
class Fact:
    """Where ``form``, over the indices "0", "1", …, is negative, all elements are ``value``."""

    form: Affine
    value: Literal


@dataclass(frozen=True, slots=True)
class Known:
    """``facts`` about a tensor; ``unsure``: a fold without terms may have gone into it; ``value``:
    what all of its elements are, if that is known."""

    facts: tuple[Fact, ...] = ()
    unsure: bool = False
    value: Literal | None = None


NOTHING = Known()


def ruled_out(graph: Graph) -> Graph:
    """``graph`` whose folds leave out what constants rule out."""
    nodes = dict(enumerate(graph.nodes)) | _cut_nodes(graph)
    return replace(graph, nodes=tuple(nodes.values()))


def cuts(graph: Graph) -> frozenset[int]:
    """The numbers of the nodes of which ``ruled_out`` cuts folds."""
    return frozenset(_cut_nodes(graph))


def _cut_nodes(graph: Graph) -> dict[int, Node]:
    """What nodes become of which folds are cut, by number."""
    constants = _Constants(graph.constants)
    known: dict[str, Known] = {}
    found: dict[int, Node] = {}
    for number, node in enumerate(graph.nodes):
        given = [known.get(v.name) or constants.known(v.name) for v in node.inputs]
        program, state = node.program, _State()
        if not program.in_place:
            state.known = {key_of(t): k for t, k in zip(program.inputs, given, strict=True)}
            _, outputs = rebuild(program, program.inputs, change=state.cut)
            for value, tensor in zip(node.outputs, outputs, strict=True):
                known[value.name] = state.about(tensor)
            if state.changed:
                found[number] = replace(node, program=replace(program, outputs=outputs))
    return found


@dataclass(slots=True)
class _Constants:
    arrays: Mapping[str, np.ndarray]
    found: dict[str, Known] = field(default_factory=dict)

    def known(self, name: str) -> Known:
        if name not in self.arrays:
            return NOTHING
        if name not in self.found:
            array = self.arrays[name]
            self.found[name] = Known(tuple(_facts_of(array)), value=_only_value(array))
        return self.found[name]


def _only_value(array: np.ndarray) -> Literal | None:
    if array.size != 1 or not (array.dtype == bool or as_dtype(array.dtype).is_float):
        return None
    value = array.item()
    known = isinstance(value, bool | float) and value == value
    return literal(value, as_dtype(array.dtype)) if known else None


def _facts_of(array: np.ndarray) -> Iterator[Fact]:
    """What ``array`` has outside of an octagon, for the values that make folds leave terms out."""
    dtype = as_dtype(array.dtype)
    if not 1 < array.size <= MOST:
        return
    values = (False, True) if array.dtype == bool else (0.0, -inf) if dtype.is_float else ()
    for value in values:
        same = array == value
        if WORTH * int(same.sum()) >= array.size:
            for form in octagon(~same) or ():
                yield Fact(form, literal(value, dtype))


# ---- one node -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _State:
    known: dict[Key, Known] = field(default_factory=dict)
    changed: bool = False

    def about(self, tensor: Tensor) -> Known:
        return self.known.get(key_of(tensor), NOTHING)

    def cut(self, operation: Operation) -> Operation:
        """``operation`` with folds that leave out terms; what is known about its results."""
        if not isinstance(operation, Compute) or operation.scan:
            unsure = any(self.about(t).unsure for t in operation.reads)
            self.known[operation, 0] = Known(unsure=unsure)
            return operation
        folds = _Folds(self, operation.axes)
        values = tuple(folds.cut(v) for v in operation.values)
        if folds.changed:
            operation, self.changed = replace(operation, values=values), True
        for k, value in enumerate(values):
            unsure, seen = self.unsure(value), self.seen(value)
            found = () if unsure else tuple(self.facts(seen, operation.axes))
            only = seen if isinstance(seen, Literal) else None
            self.known[operation, k] = Known(found, unsure or folds.unsure, only)
        return operation

    def seen(self, expr: Expr) -> Expr:
        """``expr`` with what is known of all elements that it loads."""

        def change(node: Expr) -> Expr | None:
            match node:
                case Load(Tensor() as source):
                    return self.about(source).value
                case Cast(Literal()):
                    return _computed(node)
            return None

        return rewrite(expr, change)

    def unsure(self, expr: Expr) -> bool:
        """Whether ``expr`` may be what a fold without terms makes of it."""
        pending = [expr]
        while pending:
            node = pending.pop()
            match node:
                case Apply("max", (_, Literal(least))) if least > -inf:
                    continue
                case Select(Apply("eq", (same, Literal(low))), Literal(), no) if low == -inf:
                    if no == same:
                        continue
                case Load(Tensor() as source) if self.about(source).unsure:
                    return True
            pending += node.children
        return False

    def facts(self, value: Expr, axes: tuple[Axis, ...]) -> Iterator[Fact]:
        names: dict[Term, Affine] = {a.name: Affine(((str(k), 1),)) for k, a in enumerate(axes)}
        for form in self.forms((value,)):
            if form.variables() <= names.keys():
                result = self.outside(value, form)
                if isinstance(result, Literal):
                    yield Fact(form.replaced(names), result)

    def forms(self, exprs: Iterable[Expr]) -> list[Affine]:
        """The forms that may say something about ``exprs``. A program that itself says where a
        finite number stands, as padding does, rules out nothing: it asks for 0 times a weight."""
        found: dict[Affine | None, None] = {}
        nodes = [n for e in exprs for n in at_most(e, MAX_NODES)]
        padded = [n.condition for n in nodes if isinstance(n, Select) and _has_finite(n)]
        finite = {n for condition in padded for n in walk(condition)}
        for node in nodes:
            match node:
                case Load(Tensor() as source, indices):
                    facts = self.about(source).facts
                    found |= dict.fromkeys(_moved(fact.form, indices) for fact in facts)
                case Select(condition, _, Literal(value)) if value == -inf:
                    found |= dict.fromkeys(conjunction(condition).at_least)
                case Select(condition, Literal(value), _) if value == -inf:
                    found |= dict.fromkeys(conjunction(condition, False).at_least)
                case Apply() if node.dtype == dtypes.bool_ and node not in finite:
                    found |= dict.fromkeys(conjunction(node).at_least)
        return [f for f in found if f is not None and f.terms][:MAX_FORMS]

    def outside(self, expr: Expr, form: Affine) -> Expr:
        """``expr`` where ``form`` is negative: a literal, if that is all it can be."""

        def change(node: Expr) -> Expr | None:
            match node:
                case Load(Tensor() as source, indices):
                    for fact in self.about(source).facts:
                        if _implied(_moved(fact.form, indices), form):
                            return fact.value
                case Reduce(monoid, values=(Literal(value),)) if (value,) == monoid.identity:
                    return node.values[0]
                case Select(Literal(condition), yes, no):
                    return yes if condition else no
                case Select(_, Literal() as yes, no) if yes == no:
                    return yes
                case Cast(Literal()):
                    return _computed(node)
                case Apply(op, args) if all(isinstance(a, Literal) for a in args):
                    return _computed(node)
                case Apply(op, args) if node.dtype.is_float:
                    return _absorbed(op, args)
                case Apply() if node.dtype == dtypes.bool_:
                    for holds in (True, False):
                        found = conjunction(node, holds).at_least
                        if any(_implied(f, form) for f in found):
                            return literal(not holds, dtypes.bool_)
            return None

        return rewrite(expr, change)


@dataclass(slots=True)
class _Folds:
    """The folds of one operation over ``axes``. ``unsure``: one may have no term."""

    state: _State
    axes: tuple[Axis, ...]
    changed: bool = False
    unsure: bool = False

    def cut(self, value: Expr) -> Expr:
        return rewrite(value, lambda node: self.fold(node) if isinstance(node, Reduce) else None)

    def fold(self, node: Reduce) -> Expr | None:
        if len(node.values) != 1 or {a.name for a in node.axes} & {a.name for a in self.axes}:
            return None
        axes, limits = (*self.axes, *node.axes), []
        value = self.state.seen(node.values[0])
        for form in self.state.forms((value,)):
            if form.variables() <= {a.name for a in axes}:
                outside = self.state.outside(value, form)
                known = isinstance(outside, Literal) and (outside.value,) == node.monoid.identity
                if known and _pays(form, axes):
                    limits.append(form)
        if not limits:
            return None
        self.changed = True
        self.unsure |= not _some_left(limits, node, self.axes)
        conditions = [] if node.condition is None else [node.condition]
        total, *others = [*conditions, *(to_expr(f) >= 0 for f in limits)]
        for other in others:
            total = total & other
        return replace(node, condition=total)


def _has_finite(node: Select) -> bool:
    """Whether a branch of ``node`` is a finite number."""
    branches = (node.if_true, node.if_false)
    return any(isinstance(b, Literal) and b.dtype.is_float and not isinf(b.value) for b in branches)


def _moved(form: Affine, indices: tuple[Expr, ...]) -> Affine | None:
    """``form`` of the ``indices`` of a load."""
    return to_affine(substitute(to_expr(form), {str(k): i for k, i in enumerate(indices)}))


def _implied(form: Affine | None, negative: Affine) -> bool:
    """Whether ``form`` is negative where ``negative`` is."""
    if form is None:
        return False
    more = form - negative
    return more.is_constant and more.constant <= 0


def _computed(node: Expr) -> Expr | None:
    with np.errstate(all="ignore"):
        value = evaluate(node, {}).item()
    if not isinstance(value, bool | int | float) or value != value:
        return None
    return literal(value, node.dtype)


def _absorbed(op: str, args: tuple[Expr, ...]) -> Expr | None:
    """The result where one operand is a literal and the other one is any finite number."""
    match op, args:
        case "add", (Literal(value) as same, _) | (_, Literal(value) as same) if isinf(value):
            return same
        case "sub", (Literal(value) as same, _) if isinf(value):
            return same
        case "mul", (Literal(value) as same, _) | (_, Literal(value) as same) if value == 0:
            return same
        case "div", (Literal(value) as same, _) if value == 0:
            return same
    return None


# ---- how many points ----------------------------------------------------------------------------


def _grid(names: Iterable[str], axes: Iterable[Axis]) -> dict[str, np.ndarray] | None:
    """The values of the loops ``names``, each along a dimension of its own; None where their sizes
    are not known, or there are too many."""
    own = {a.name: a for a in axes}
    ends = {n: (constant_size(own[n].lower), constant_size(own[n].upper)) for n in names}
    if any(low is None or high is None for low, high in ends.values()):
        return None
    spans = {n: range(low or 0, high or 0) for n, (low, high) in ends.items()}
    if prod(map(len, spans.values())) > MOST:
        return None
    grid = np.ix_(*(np.arange(s.start, s.stop) for s in spans.values()))
    return dict(zip(spans, grid, strict=True))


def _values(form: Affine, grid: Mapping[str, np.ndarray]) -> np.ndarray | None:
    total = np.asarray(form.constant)
    for term, coefficient in form.terms:
        if not isinstance(term, str):
            return None
        total = total + coefficient * grid[term]
    return total


def _pays(form: Affine, axes: tuple[Axis, ...]) -> bool:
    """Whether ``form`` leaves out enough."""
    grid = _grid(sorted(form.variables()), axes)
    values = None if grid is None else _values(form, grid)
    return values is not None and WORTH * int((values < 0).sum()) >= values.size


def _some_left(limits: list[Affine], node: Reduce, around: tuple[Axis, ...]) -> bool:
    """Whether ``node`` has a term in each of its rows where all ``limits`` are at least 0."""
    if node.condition is not None:
        return False
    own = {a.name for a in node.axes}
    names = sorted({n for f in limits for n in f.variables()}, key=lambda n: (n in own, n))
    grid = _grid(names, (*around, *node.axes))
    if grid is None:
        return False
    left = np.ones([len(v.ravel()) for v in grid.values()], bool)
    for form in limits:
        values = _values(form, grid)
        if values is None:
            return False
        left &= values >= 0
    inner = tuple(k for k, n in enumerate(names) if n in own)
    return bool(left.any(axis=inner).all())
