"""Scalar expressions of loop IR in LLVM IR, on scalars or lanes as in the frame.

Evaluation uses generators as its stack, so that expressions may be arbitrarily deep; a shared node
is computed once if its value dominates its uses.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from weft.codegen.llvm.builder import Index, Ramp, Repeated, Value, integer
from weft.codegen.llvm.division import divide_by_shared
from weft.codegen.llvm.frame import Frame
from weft.codegen.llvm.memory import address, load
from weft.codegen.llvm.small_floats import is_small
from weft.ir import dtypes
from weft.ir.loop_ir import Store
from weft.ir.scalar_expr import Apply, Bitcast, Cast, Expr, Literal, Load, Select, Var, walk
from weft.ir.tensor_expr import Monoid

Result = Index
Step = Generator[Expr, Result, Result]


def evaluate(frame: Frame, expr: Expr) -> Result:
    """The value of ``expr``: a scalar if it is uniform over the lanes, a ramp if it is affine in
    the lane."""
    return evaluate_all(frame, (expr,))[0]


def streams_now(frame: Frame, store: Store) -> Value | None:
    """Whether ``store`` streams, an i1; None if it does not."""
    if store.streams is None:
        return None
    found = frame.b.materialise(evaluate(frame, store.streams))
    return None if found.const == 0 else found


def evaluate_all(frame: Frame, exprs: Sequence[Expr]) -> list[Result]:
    """As ``evaluate``, sharing common nodes."""
    if all(isinstance(expr, Literal | Var) for expr in exprs):
        return [_leaf(frame, expr) for expr in exprs]
    evaluation = _Evaluation(frame, exprs)
    return [evaluation.run(expr) for expr in exprs]


def combine(
    frame: Frame, monoid: Monoid, left: Sequence[Value], right: Sequence[Value]
) -> list[Value]:
    """The components of ``monoid`` applied to two tuples of values."""
    names = frame.names
    frame.names = {v.name: x for v, x in zip(monoid.left, left, strict=True)}
    frame.names |= {v.name: x for v, x in zip(monoid.right, right, strict=True)}
    try:
        return [frame.b.materialise(v) for v in evaluate_all(frame, monoid.combined)]
    finally:
        frame.names = names


def _leaf(frame: Frame, expr: Expr) -> Result:
    if isinstance(expr, Literal):
        return frame.ops.literal(expr.value, expr.dtype)
    assert isinstance(expr, Var)
    return frame.names[expr.name]


class _Evaluation:
    def __init__(self, frame: Frame, exprs: Sequence[Expr]) -> None:
        self.frame, self.exprs = frame, exprs
        self.scopes: list[dict[int, Result]] = [{}]

    @cached_property
    def loads(self) -> set[int]:
        """Identities of the nodes that contain a load."""
        found: set[int] = set()
        for expr in self.exprs:
            for node in walk(expr):
                if isinstance(node, Load) or any(id(c) in found for c in node.children):
                    found.add(id(node))
        return found

    def run(self, expr: Expr) -> Result:
        found = self._find(expr)
        if found is not None:
            return found
        stack: list[tuple[Expr, Step]] = [(expr, self._visit(expr))]
        value: Result | None = None
        while stack:
            node, step = stack[-1]
            try:
                wanted = step.send(value)  # type: ignore[arg-type]
            except StopIteration as finished:
                stack.pop()
                value = finished.value
                assert value is not None
                self.scopes[-1][id(node)] = value
                continue
            value = self._find(wanted)
            if value is None and isinstance(wanted, Literal | Var):
                value = self.scopes[-1][id(wanted)] = _leaf(self.frame, wanted)
            elif value is None:
                stack.append((wanted, self._visit(wanted)))
        assert value is not None
        return value

    def _find(self, expr: Expr) -> Result | None:
        for scope in reversed(self.scopes):
            found = scope.get(id(expr))
            if found is not None:
                return found
        return None

    def _visit(self, expr: Expr) -> Step:
        frame, b = self.frame, self.frame.b
        match expr:
            case Load() if id(expr) in frame.loaded:
                return frame.loaded[id(expr)]
            case Load(source, indices):
                places: list[Result] = []
                for index in indices:
                    places.append((yield index))
                buffer = frame.bindings[str(source)]
                return load(frame, buffer, address(frame, buffer, places, _rows(frame, expr)))
            case Apply(op, args):
                operands: list[Result] = []
                for arg in args:
                    operands.append((yield arg))
                return self._apply(op, operands, args)
            case Cast(arg, dtype, saturate):
                value = b.materialise((yield arg))
                return frame.ops.cast(value, arg.dtype, dtype, saturate)
            case Bitcast(arg, dtype):
                return frame.ops.bitcast(b.materialise((yield arg)), arg.dtype, dtype)
            case Select():
                return (yield from self._select(expr))
        return _leaf(frame, expr)

    def _apply(self, op: str, operands: list[Result], args: tuple[Expr, ...]) -> Result:
        b, dtype = self.frame.b, args[0].dtype
        if dtype == dtypes.int64:
            match op, operands:
                case "add", (x, y):
                    return b.add(x, y)
                case "sub", (x, y):
                    return b.sub(x, y)
                case "mul", (x, y):
                    return b.mul(x, y)
                case "neg", (x,):
                    return b.mul(x, integer(-1))
                case "floordiv" | "mod", (Ramp() as x, Value(const=int(c))) if c > 0:
                    divided = self._divided(op, x, c)
                    if divided is not None:
                        return divided
        values = [b.materialise(x) for x in operands]
        match op, operands:
            case "lt", (Ramp(base, Value(const=1)), Value(lanes=0) as bound):
                below = self.frame.ops.apply(op, values, dtype)
                self.frame.bounds[below.text] = bound, base
                return below
        if op == "div" and self.frame.ops.quick_division:
            (x, divisor), whole = values, _whole(args[1])
            shared = x.lanes and divisor.const is None
            known = self.frame.kept if divisor.lanes else self.frame.unchanged
            whole = whole and not divisor.lanes
            if shared and not is_small(dtype) and (whole or known(args[1])):
                mask = self.frame.lanes.mask
                return divide_by_shared(b, x, divisor, whole=whole, mask=mask)
        return self.frame.ops.apply(op, values, dtype)

    def _divided(self, op: str, x: Ramp, divisor: int) -> Result | None:
        """``x`` divided, or the remainder, where all lanes have the same remainder or begin anew at
        a multiple of ``divisor``, and as many after each other have the same quotient; else None.
        """
        if x.stride.const is None:
            return None
        stride = int(x.stride.const)
        if stride % divisor == 0:
            base = self.frame.ops.apply(op, [x.base, integer(divisor)], dtypes.int64)
            quotients = replace(x, base=base, stride=integer(stride // divisor))
            return quotients if op == "floordiv" else base
        if x.base.even % divisor:
            return None
        if op == "mod":
            return self.frame.b.constants([k * stride % divisor for k in range(x.lanes)])
        times = divisor // stride if stride > 0 and divisor % stride == 0 else 1
        if times == 1 or x.lanes % times:
            return None
        base = self.frame.ops.apply(op, [x.base, integer(divisor)], dtypes.int64)
        return base if times == x.lanes else Repeated(base, integer(1), x.lanes, times)

    # ---- select: lazy where a branch loads ----------------------------------------------------

    def _select(self, expr: Select) -> Step:
        b = self.frame.b
        condition = b.materialise((yield expr.condition))
        if condition.const is not None:
            return (yield expr.if_true if condition.const else expr.if_false)
        lazy = id(expr.if_true) in self.loads or id(expr.if_false) in self.loads
        if not lazy:
            if_true, if_false = (yield expr.if_true), (yield expr.if_false)
            return b.select(condition, b.materialise(if_true), b.materialise(if_false))
        if condition.lanes:
            return (yield from self._select_lanes(expr, condition))
        return (yield from self._select_branch(expr, condition))

    def _select_lanes(self, expr: Select, condition: Value) -> Step:
        """Both branches, the loads of each masked by its lanes."""
        frame, b = self.frame, self.frame.b
        outer, sides = frame.lanes, []
        inverse = b.binary("xor", condition, b.splat(integer(1, "i1"), condition.lanes))
        for branch, taken in ((expr.if_true, condition), (expr.if_false, inverse)):
            if id(branch) not in self.loads:
                sides.append(b.materialise((yield branch)))
                continue
            frame.lanes = frame.narrowed(taken, may_be_empty=True)
            self.scopes.append({})
            value = yield branch
            self.scopes.pop()
            frame.lanes = outer
            sides.append(b.materialise(value))
        return b.select(condition, *sides)

    def _select_branch(self, expr: Select, condition: Value) -> Step:
        """A uniform condition: a branch."""
        b = self.frame.b
        labels = b.new_label("yes"), b.new_label("no")
        after = b.new_label("selected")
        b.branch(condition, *labels)
        ends: list[tuple[Value, str]] = []
        for branch, label in zip((expr.if_true, expr.if_false), labels, strict=True):
            b.at(label)
            self.scopes.append({})
            value = b.materialise((yield branch))
            self.scopes.pop()
            ends.append((value, b.label))
        lanes = max(value.lanes for value, _ in ends)
        incoming = []
        for value, label in ends:
            b.at(label)
            incoming.append((b.splat(value, lanes), label))
            b.jump(after)
        b.at(after)
        return b.phi(*incoming)


def _rows(frame: Frame, load: Load) -> list[int]:
    """The dims along which ``load`` reads one of several rows, of unknown distance, of a tile whose
    place is loop-invariant."""
    strides, before = frame.bindings[str(load.source)].strides, frame.before
    if before is None:
        return []
    places = enumerate(load.indices)
    return [d for d, i in places if strides[d].const is None and _is_row(frame, before, i)]


def _is_row(frame: Frame, before: Mapping[str, Result], index: Expr) -> bool:
    """Whether ``index`` differs by a constant from its value ``before`` a loop."""
    names = {n.name for n in walk(index) if isinstance(n, Var)}
    own = {n for n in names if n not in before}
    same = all(before[n] is frame.names[n] for n in names - own)
    return bool(own) and same and all(_constant(frame.names[n]) for n in own)


def _constant(value: Result) -> bool:
    return isinstance(value, Value) and value.const is not None


def _whole(expr: Expr) -> bool:
    """Whether ``expr`` is an integer converted to a float."""
    return isinstance(expr, Cast) and expr.arg.dtype.is_integer
