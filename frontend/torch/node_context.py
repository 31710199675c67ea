"""The ``NodeContext`` that handlers get: one node of an FX graph and the graph being built."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from weft.frontend.graph_builder import GraphBuilder
from weft.frontend.operators.registry import Definition
from weft.frontend.torch.context import Operand, Result
from weft.frontend.torch.layouts import layout_of, stored_order
from weft.frontend.torch.open_sizes import OpenSizes
from weft.frontend.torch.torch_module import dtype_of, torch
from weft.ir.build import compute
from weft.ir.dtypes import DType
from weft.ir.errors import UnsupportedError
from weft.ir.operator_graph import Value
from weft.ir.scalar_expr import Expr, cast
from weft.ir.scalar_printer import scalar_text
from weft.ir.tensor_expr import Size, Tensor, as_size, constant_size

FxNode = Any  # torch.fx.Node
_SOURCE = re.compile(r'File "(.*)", line (\d+), in (\S+)\n\s*(.*)')
_PREFIX = re.compile(r"^L\['\w+'\]\.?|\._modules|^_modules\.?")


@dataclass(eq=False)  # not slotted: properties are cached
class ImportContext:
    """See ``context.NodeContext`` for the contract."""

    node: FxNode
    builder: GraphBuilder
    open_sizes: OpenSizes

    @property
    def target(self) -> str:
        return str(self.node.target)

    @property
    def operator(self) -> str:
        """The operator without library and overload."""
        parts = self.target.split(".")
        return parts[1] if len(parts) > 1 else self.target

    @property
    def name(self) -> str:
        """The user's module, and the operator: "layers.0.fc/linear"."""
        return "/".join(filter(None, (module_path(self.node), self.operator)))

    @cached_property
    def results(self) -> tuple[Result | None, ...]:
        value = self.node.meta.get("val")
        many = value if isinstance(value, tuple | list) else (value,)
        return tuple(map(self._result, many))

    def _result(self, value: Any) -> Result | None:
        if not isinstance(value, torch().Tensor):
            return None
        dtype = checked_dtype(value)
        return Result(tuple(map(self.open_sizes.size, value.shape)), dtype)

    @property
    def shape(self) -> tuple[Size, ...]:
        return self._first.shape

    @property
    def dtype(self) -> DType:
        return self._first.dtype

    @property
    def _first(self) -> Result:
        first = self.results[0]
        if first is None:
            raise self.unsupported(f"{self.target} gives no tensor")
        return first

    def common(self, left: Operand, right: Operand) -> DType:
        found = dtype_of(torch().result_type(self._sample(left), self._sample(right)))
        assert found is not None
        return found

    def _sample(self, operand: Operand) -> Any:
        """Something that PyTorch promotes as it does ``operand``."""
        if isinstance(operand, Expr):
            return 1.0 if operand.dtype.is_float else 1
        if not isinstance(operand, Value):
            return operand
        dtype = getattr(torch(), operand.dtype.name)
        return torch().empty((1,) * len(operand.shape), dtype=dtype, device="meta")

    def sizes(self, value: Value) -> tuple[Size, ...]:
        return value.shape

    def known(self, size: Size, what: str) -> int:
        found = constant_size(size)
        if found is None:
            raise UnsupportedError(
                "WEFT-E0273",
                f"{self.target}: {what}, {scalar_text(as_size(size))}, is open",
                where=where(self.node),
                why="it has to be known to compile this operator",
                hint="export with this size fixed",
            )
        return found

    def normal(self, size: Size) -> Size:
        return self.open_sizes.normal(size)

    def at_least(self, size: Size, least: int) -> bool:
        return self.open_sizes.at_least(size, least)

    def assume_at_least(self, size: Size, least: int) -> bool:
        return self.open_sizes.assume_at_least(size, least)

    def is_used(self, result: int) -> bool:
        parts = (user for user in self.node.users if user.op == "call_function")
        return any(list(user.args[1:]) == [result] for user in parts)

    def is_contiguous(self, argument: int) -> bool:
        tensor = self.node.args[argument].meta["val"]
        layout = layout_of(tensor, self.open_sizes)
        rows = replace(layout, order=tuple(range(len(layout.shape))))
        return layout.offset == 0 and (0 in layout.shape or stored_order(rows) is not None)

    def call(self, op: str | Definition, *inputs: Value | None, **attributes: Any) -> Any:
        named = op if isinstance(op, str) else self._named(op)
        results = self.builder.call(named, inputs, attributes, self.name, where(self.node))
        return results[0] if len(results) == 1 else results

    def _named(self, definition: Definition) -> Definition:
        """``definition`` under the operator's name, which is what people see."""

        def named(*tensors: Tensor | None, **attributes: Any) -> Tensor | tuple[Tensor, ...]:
            return definition(*tensors, **attributes)

        named.__name__ = self.operator
        return named

    def cast(self, value: Operand, dtype: DType) -> Value:
        if isinstance(value, Expr):
            number = cast(value, dtype)
            return self.call(lambda: compute((), lambda: number, name=self.operator))  # type: ignore[no-any-return]
        if not isinstance(value, Value):
            return self.builder.constant(np.array(value), self.name, dtype)
        return value if value.dtype == dtype else self.call("cast", value, to=dtype)

    def constant(self, data: np.ndarray) -> Value:
        return self.builder.constant(data, self.name)

    def unsupported(self, reason: str) -> Exception:
        return UnsupportedError(
            "WEFT-E0272", f"{self.target}: {reason}", where=where(self.node), hint=FALL_BACK
        )


FALL_BACK = 'torch.compile(model, backend="weft") leaves what Weft lacks to PyTorch'


def checked_dtype(tensor: Any) -> DType:
    """The dtype of ``tensor``. Raises ``UnsupportedError`` (WEFT-E0272) for what is no plain tensor
    of the processor's."""
    dtype = dtype_of(tensor.dtype)
    plain = tensor.layout == torch().strided and tensor.device.type in ("cpu", "meta")
    if dtype is None or not plain:
        layout = "" if tensor.layout == torch().strided else f" ({tensor.layout})"
        what = f"a tensor of {tensor.dtype}{layout} on {tensor.device.type}"
        why = "Weft compiles dense tensors of real numbers on the processor"
        raise UnsupportedError("WEFT-E0272", what, why=why, hint=FALL_BACK)
    return dtype


def module_path(node: FxNode) -> str:
    """The user's name for the module that ``node`` belongs to, '' for the whole model."""
    meta = node.meta
    stack = meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack") or {}
    paths = [path for path, _ in stack.values()]
    return _PREFIX.sub("", paths[-1]) if paths else ""


def where(node: FxNode) -> str:
    """``node`` in the user's terms: module path, source line, operator."""
    lines = _SOURCE.findall(node.meta.get("stack_trace") or "")
    path = module_path(node)
    parts = [f"module {path!r}"] if path else []
    if lines:
        file, line, function, text = lines[-1]
        parts.append(f"{file}:{line} in {function}: {text.strip()}")
    return ", ".join([*parts, f"{node.target} ({node.name})"])
