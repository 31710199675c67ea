"""A text that two tensor programs share exactly if they compute the same in the same way.

Names of tensors, operations and axes do not count; structure, dtypes, literals, monoids and sizes
do. Every distinct subexpression has one line, so that the text is linear in a shared program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from weft.ir.scalar_expr import (
    Apply,
    Bitcast,
    Cast,
    Expr,
    Literal,
    Load,
    Select,
    Var,
)
from weft.ir.tensor_expr import (
    Axis,
    Compute,
    Itself,
    Monoid,
    Operation,
    Program,
    Reduce,
    Reshape,
    Scatter,
    Tensor,
    as_size,
    operations,
)


def canonical_text(program: Program) -> str:
    """The canonical text of ``program``; equal texts mean interchangeable programs."""
    text = _Text()
    for tensor in program.inputs:
        shape = [text.expr(as_size(s)) for s in tensor.shape]
        text.tensors[tensor] = text.line(f"input {len(text.tensors)} {tensor.dtype} {shape}")
    for operation in operations(program):
        text.operation(operation)
    outputs = [text.tensor(t) for t in program.outputs]
    text.line(f"outputs {outputs} {program.in_place}")
    return "\n".join(text.lines)


@dataclass(slots=True)
class _Text:
    lines: dict[str, int] = field(default_factory=dict)  # line -> its number
    tensors: dict[Tensor, int] = field(default_factory=dict)
    results: dict[Operation, int] = field(default_factory=dict)
    axes: dict[str, int] = field(default_factory=dict)  # names in scope -> number of the axis
    known: dict[int, int] = field(default_factory=dict)  # id of an expression -> its line
    kept: list[Expr] = field(default_factory=list)  # so that no id in ``known`` is used again

    def line(self, content: str) -> int:
        """The number of ``content``, the same each time that it occurs."""
        return self.lines.setdefault(content, len(self.lines))

    def tensor(self, tensor: Tensor) -> int:
        if tensor not in self.tensors:
            assert tensor.operation is not None
            shape = [self.expr(as_size(s)) for s in tensor.shape]
            made = f"result {self.results[tensor.operation]}.{tensor.index} {shape}"
            self.tensors[tensor] = self.line(made)
        return self.tensors[tensor]

    def operation(self, operation: Operation) -> None:
        self.axes, self.known = {}, {}
        match operation:
            case Compute(_, axes, values, scan):
                head = f"compute {self.bind(axes)} scan {scan} {self.all(values)}"
            case Reshape(_, source):
                head = f"reshape {self.tensor(source)}"
            case Scatter(_, base, axes, indices, value, combine, condition):
                bound = self.bind(axes)
                how = None if combine is None else self.monoid(combine)
                rest = self.all([value] if condition is None else [value, condition])
                into = f"{self.tensor(base)} {bound} {self.all(indices)}"
                head = f"scatter {into} {how} {rest}"
        self.results[operation] = self.line(head)
        self.axes, self.known = {}, {}

    def bind(self, axes: Sequence[Axis]) -> list[tuple[int, int]]:
        """Brings ``axes`` into scope; their bounds, which may use earlier ones."""
        bounds = []
        for axis in axes:
            bounds.append((self.expr(axis.lower), self.expr(axis.upper)))
            self.axes[axis.name] = len(self.axes)
        return bounds

    def all(self, expressions: Sequence[Expr]) -> list[int]:
        return [self.expr(e) for e in expressions]

    def expr(self, expr: Expr) -> int:
        """The number of the line of ``expr``; explicit stack, as expressions may be deep."""
        self.kept.append(expr)
        stack = [(expr, False)]
        while stack:
            node, expanded = stack.pop()
            if id(node) in self.known:
                continue
            if not expanded:
                if isinstance(node, Reduce):
                    self.reduces(node)
                stack.append((node, True))
                stack.extend((child, False) for child in node.children)
            else:
                self.known[id(node)] = self.line(self.node(node))
        return self.known[id(expr)]

    def reduces(self, node: Reduce) -> None:
        for axis in node.axes:
            if axis.name not in self.axes:
                self.bind((axis,))

    def node(self, node: Expr) -> str:
        of = [self.known[id(child)] for child in node.children]
        match node:
            case Literal(value, dtype):
                return f"literal {value!r} {dtype}"
            case Axis(name) if name in self.axes:
                return f"axis {self.axes[name]}"
            case Var(name, dtype):
                return f"symbol {name!r} {dtype}"
            case Load(source, _, dtype):
                return f"load {self.source(source)} {of} {dtype}"
            case Apply(op):
                return f"{op} {of}"
            case Cast(_, dtype, saturate):
                return f"cast {of} {dtype} {saturate}"
            case Bitcast(_, dtype):
                return f"bitcast {of} {dtype}"
            case Select():
                return f"select {of}"
            case Reduce(monoid, axes, _, condition, index):
                bounds = [(self.axes[a.name], self.expr(a.lower), self.expr(a.upper)) for a in axes]
                guarded = condition is not None
                return f"reduce {self.monoid(monoid)} {bounds} {of} {guarded} {index}"
        raise AssertionError(f"unknown expression {type(node).__name__}")

    def source(self, source: object) -> str:
        if isinstance(source, Tensor):
            return str(self.tensor(source))
        assert isinstance(source, Itself)
        return f"itself {source.index}"

    def monoid(self, monoid: Monoid) -> int:
        sides = [f"{v.name} {v.dtype}" for v in (*monoid.left, *monoid.right)]
        laws, identity = sorted(monoid.laws), [repr(n) for n in monoid.identity]
        return self.line(f"monoid {sides} {self.all(monoid.combined)} {identity} {laws}")
