"""What an exported program takes for granted of its sizes: names, ranges, conditions.

PyTorch keeps conditions as Python text about paths of arguments,
``L['ids'].size()[1] % 2 == 0``; a file has nothing else.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from functools import reduce
from itertools import pairwise
from typing import Any

from weft.frontend.torch.open_sizes import OpenSizes
from weft.frontend.torch.torch_module import torch
from weft.ir import dtypes
from weft.ir.errors import UnsupportedError
from weft.ir.scalar_expr import Expr, binary, literal
from weft.ir.tensor_expr import as_size

ExportedProgram = Any  # torch.export.ExportedProgram


def sizes_of(program: ExportedProgram) -> OpenSizes:
    """The open sizes of ``program`` and what calls of it keep. Raises ``UnsupportedError``
    (WEFT-E0273) for a condition that Weft cannot check."""
    sizes = OpenSizes()
    arguments: dict[str, Any] = {}
    told: list[tuple[Any, str]] = []
    specs = program.graph_signature.input_specs
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    for spec, node in zip(specs, placeholders, strict=True):
        tensor = node.meta.get("val")
        if spec.kind.name != "USER_INPUT":
            continue
        flat = f"flat_args_{len(arguments)}"
        arguments[flat] = arguments[spec.arg.name] = tensor
        if isinstance(tensor, torch().Tensor):
            told += [(size, f"{node.name}_{d}") for d, size in enumerate(tensor.shape)]
        elif isinstance(tensor, torch().SymInt):
            told.append((tensor, node.name))
    sizes.declare(told)
    for text in program._guards_code:
        if "stride()" not in text and "storage_offset()" not in text:  # any will do
            sizes.assume(_Condition(text, arguments, sizes).read())
    sizes.learn()
    return sizes


class _Condition:
    """One condition, ``text``, about ``arguments`` by name."""

    def __init__(self, text: str, arguments: dict[str, Any], sizes: OpenSizes) -> None:
        self.text, self.arguments, self.sizes = text, arguments, sizes

    def read(self) -> Expr:
        return self.expr(ast.parse(self.text.strip(), mode="eval").body)

    def expr(self, node: ast.expr) -> Expr:
        match node:
            case ast.Constant(bool() as value):
                return literal(value, dtypes.bool_)
            case ast.Constant(int() as value):
                return literal(value)
            case ast.BinOp(left, op, right) if type(op) in _BINARY:
                return _BINARY[type(op)](self.expr(left), self.expr(right))
            case ast.UnaryOp(ast.USub(), operand):
                return -self.expr(operand)
            case ast.UnaryOp(ast.Not(), operand):
                return ~self.expr(operand)
            case ast.BoolOp(op, values):
                join = operator.and_ if isinstance(op, ast.And) else operator.or_
                return reduce(join, map(self.expr, values))
            case ast.Compare(left, ops, others):
                sides = [self.expr(side) for side in (left, *others)]
                parts = zip(ops, pairwise(sides), strict=True)
                return reduce(operator.and_, (_COMPARE[type(op)](*pair) for op, pair in parts))
            case ast.Call(ast.Name("max" | "min" as name), operands):
                return reduce(lambda a, b: binary(name, a, b), map(self.expr, operands))
            case ast.Subscript(ast.Call(ast.Attribute(source, "size")), ast.Constant(int() as d)):
                return as_size(self.sizes.size(self.argument(source).shape[d]))
            case ast.Subscript():
                return as_size(self.sizes.size(self.argument(node)))
        raise self.unknown(ast.unparse(node))

    def argument(self, source: ast.expr) -> Any:
        """The argument at the path ``source``, whose name has the path's parts."""
        path: list[str] = []
        node = source
        while isinstance(node, ast.Subscript):
            path.insert(0, str(getattr(node.slice, "value", "")))
            node = node.value
        name = re.sub(r"[^a-zA-Z0-9]+", "_", "_".join(path)).lower()
        found = {key.lower(): value for key, value in self.arguments.items()}.get(name)
        if found is None:
            raise self.unknown(ast.unparse(source))
        return found

    def unknown(self, part: str) -> UnsupportedError:
        return UnsupportedError(
            "WEFT-E0273",
            f"the program was exported for {self.text}",
            why=f"Weft cannot check {part}",
            hint="export with fixed sizes, or without this condition in the model",
        )


_BINARY: dict[type[ast.operator], Callable[[Expr, Expr], Expr]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Expr, Expr], Expr]] = {
    ast.Eq: lambda a, b: a.equal(b),
    ast.NotEq: lambda a, b: a.not_equal(b),
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
