"""Builds an operator graph node by node during import, folding what is constant as it goes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from weft.frontend.operators.registry import Definition, instantiate
from weft.frontend.operators.sizes import total_size
from weft.frontend.size_symbols import SizeSymbols
from weft.frontend.sizes_as_data import (
    Elements,
    as_data,
    as_elements,
    elements_of,
    may_be_sizes,
)
from weft.ir.build import compute, placeholder
from weft.ir.dtypes import DType, as_dtype
from weft.ir.errors import ExecutionError, ExpressionError, ModelError
from weft.ir.limits import check_tensor
from weft.ir.operator_graph import Graph, Node, Value
from weft.ir.scalar_expr import variable_list, walk
from weft.ir.tensor_axes import fresh_axes, symbols_in
from weft.ir.tensor_expr import (
    Compute,
    Program,
    Reduce,
    Reshape,
    Size,
    as_size,
    constant_size,
    operations,
)
from weft.ir.tensor_interpreter import interpret

FOLD_ELEMENTS = 1 << 14  # of all inputs and outputs of one operator folded at import
FOLD_WORK = 1 << 20  # points of its iteration space


@dataclass(slots=True)
class GraphBuilder:
    """``bound``: values that the caller knows already, by name (see staging). ``sizes``: what is
    known and assumed of open sizes."""

    bound: Mapping[str, np.ndarray] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    data: dict[str, np.ndarray] = field(default_factory=dict)  # of every known value
    names: dict[str, int] = field(default_factory=dict)  # taken, with the last number tried
    symbols: set[str] = field(default_factory=set)  # of sizes of the model's inputs
    final: set[str] = field(default_factory=set)  # names of the model that values have got
    sizes: SizeSymbols = field(default_factory=SizeSymbols)
    elements: dict[str, Elements] = field(default_factory=dict)  # of values made of open sizes

    def reserve(self, names: Iterable[str]) -> None:
        """Keep the names of the model for the values that it gives them to."""
        for name in names:
            self.names.setdefault(name, 0)

    def final_name(self, name: str) -> str:
        """The name of the value that the model calls ``name``: itself, unless repeated."""
        result = name if name not in self.final else self.fresh(name)
        self.final.add(result)
        return result

    def fresh(self, name: str) -> str:
        """``name``, or with a number where it is taken; the same in every import of a model."""
        while name in self.names:
            self.names[name] += 1
            name = f"{name}.{self.names[name]}"
        self.names[name] = 0
        return name

    def known(self, value: Value) -> np.ndarray | None:
        return self.data.get(value.name)

    def open_elements(self, value: Value) -> Elements | None:
        """The elements of ``value`` as expressions over sizes, where they are."""
        found = self.elements.get(value.name)
        data = self.data.get(value.name) if found is None else None
        return found if data is None else as_elements(data)

    def input(self, name: str, shape: Sequence[Size], dtype: DType) -> Value:
        """A value that the graph is given; constant where it is bound."""
        check_tensor(f"input {name!r}", shape, dtype)
        self.symbols.update(n for size in shape for n in variable_list(as_size(size)))
        name = self.final_name(name)
        if name in self.bound:
            self.data[name] = self.bound[name]
        return Value(name, tuple(shape), dtype)

    def initializer(self, name: str, data: np.ndarray) -> Value:
        """A constant that the model itself holds."""
        value = Value(self.final_name(name), data.shape, as_dtype(data.dtype))
        self.data[value.name] = frozen(data)
        return value

    def constant(self, data: np.ndarray, name: str, dtype: DType | None = None) -> Value:
        """A new constant; an array in another dtype than ``dtype`` is converted."""
        array = np.asarray(data)
        if dtype is not None:
            array = array.astype(dtype.numpy, copy=False)
        array = frozen(array)
        value = Value(self.fresh(name), array.shape, as_dtype(array.dtype))
        self.data[value.name] = array
        return value

    def call(
        self,
        op: str | Definition,
        inputs: Sequence[Value | None],
        attributes: Mapping[str, object],
        name: str,
        origin: str,
    ) -> tuple[Value, ...]:
        """The results of operator ``op``, its name or definition, on ``inputs``: a new node, or
        constants where it folds."""
        for index, one in enumerate(inputs):
            if one is not None and not isinstance(one, Value):
                raise ExpressionError(
                    "WEFT-E0106",
                    f"operand {index} is a {type(one).__name__}, not a value of the graph",
                    hint="node.constant(array) makes one",
                )
        tensors = [
            None if v is None else placeholder(v.shape, v.dtype, name=v.name) for v in inputs
        ]
        program = fresh_axes(instantiate(op, tensors, **attributes), self.symbols)
        given = tuple(v for v in inputs if v is not None)
        return self.add(program.name, given, attributes, program, name, origin)

    def add(
        self,
        op: str,
        inputs: tuple[Value, ...],
        attributes: Mapping[str, object],
        program: Program,
        name: str,
        origin: str,
    ) -> tuple[Value, ...]:
        for tensor in program.outputs:
            check_tensor(f"a result of {name!r}", tensor.shape, tensor.dtype)
        folded = self._fold(program, inputs)
        if folded is not None:
            return tuple(self.constant(array, name) for array in folded)
        elements = self._elements(program, inputs)
        numbers = [as_data(e, t.dtype) for e, t in zip(elements, program.outputs, strict=False)]
        if numbers and all(array is not None for array in numbers):
            return tuple(self.constant(array, name) for array in numbers if array is not None)
        self._assume_sizes(program)
        outputs = tuple(Value(self.fresh(name), t.shape, t.dtype) for t in program.outputs)
        self.elements.update(zip((v.name for v in outputs), elements, strict=False))
        for value in outputs:
            if value.name in self.bound:
                self.data[value.name] = self.bound[value.name]
        self.nodes.append(Node(name, op, inputs, outputs, attributes, program, origin))
        return outputs

    def _fold(self, program: Program, inputs: tuple[Value, ...]) -> Sequence[np.ndarray] | None:
        arrays = [self.data.get(v.name) for v in inputs]
        known = [a for a in arrays if a is not None]
        if len(known) < len(inputs) or sum(a.size for a in known) > FOLD_ELEMENTS:
            return None
        if not is_small(program) or _dequantises(program):
            return None
        try:
            found = interpret(program, known)
        except ExecutionError as error:
            raise ModelError("WEFT-E0223", error.what, where=error.where, why=error.why) from error
        # What denormals count as the compiler knows: it folds what is left.
        return None if any(map(_has_denormals, (*known, *found))) else found

    def _elements(self, program: Program, inputs: tuple[Value, ...]) -> tuple[Elements, ...]:
        """The results of ``program`` as expressions over open sizes; () where they are not."""
        if not self.sizes.ranges or not may_be_sizes(program):
            return ()
        return elements_of(program, [self.open_elements(v) for v in inputs], self.sizes) or ()

    def _assume_sizes(self, program: Program) -> None:
        """No size is negative, and what is given another shape has as many elements in both: by
        proof, else in every call that the code is for."""
        if not self.sizes.ranges:
            return
        for tensor in (*program.outputs, *(t for o in operations(program) for t in o.reads)):
            for size in tensor.shape:
                if not self.sizes.at_least(size, 0):
                    self.sizes.assume(as_size(size) >= 0)
            if isinstance(tensor.operation, Reshape):
                self.sizes.assume_equal(
                    total_size(tensor.operation.source.shape), total_size(tensor.shape)
                )

    def rename(self, since: int, names: Mapping[str, str]) -> None:
        """Rename values that nodes from ``since`` on define; a known one keeps its data."""
        for old, new in names.items():
            if new in self.bound:
                self.data[new] = self.bound[new]
            elif old in self.data:
                self.data[new] = self.data.pop(old)
            if old in self.elements:
                self.elements[new] = self.elements.pop(old)

        def renamed(value: Value) -> Value:
            return replace(value, name=names[value.name]) if value.name in names else value

        for index in range(since, len(self.nodes)):
            node = self.nodes[index]
            self.nodes[index] = replace(
                node,
                inputs=tuple(map(renamed, node.inputs)),
                outputs=tuple(map(renamed, node.outputs)),
            )

    def copy(self, value: Value, name: str, origin: str) -> Value:
        """A new value with the elements of ``value``."""
        source = placeholder(value.shape, value.dtype, name=value.name)
        result = compute(value.shape, lambda *i: source[i], name=name)
        program = Program("identity", (source,), (result,))
        output = Value(self.final_name(name), value.shape, value.dtype)
        self.nodes.append(Node(name, "identity", (value,), (output,), {}, program, origin))
        return output

    def graph(self, name: str, inputs: Iterable[Value], outputs: Sequence[Value]) -> Graph:
        """What ``outputs`` need, and no more; every input that is not known stays."""
        needed = {v.name for v in outputs}
        kept: list[Node] = []
        for node in reversed(self.nodes):
            if any(v.name in needed and v.name not in self.data for v in node.outputs):
                kept.append(self._shadowed(node))
                needed.update(v.name for v in node.inputs)
        constants = {n: a for n, a in self.data.items() if n in needed}
        given = tuple(v for v in inputs if v.name not in self.data)
        return Graph(name, given, tuple(outputs), tuple(reversed(kept)), constants)

    def _shadowed(self, node: Node) -> Node:
        """``node`` with outputs that are known anyway under other names: one definition each."""
        outputs = tuple(
            replace(v, name=self.fresh(f"{v.name}.computed")) if v.name in self.data else v
            for v in node.outputs
        )
        return replace(node, outputs=outputs)


def frozen(array: np.ndarray) -> np.ndarray:
    """The same elements, contiguous and read-only, as graphs hold their constants."""
    view = np.ascontiguousarray(array).reshape(array.shape).view()
    view.flags.writeable = False
    return view


def is_small(program: Program) -> bool:
    """Whether interpreting ``program`` is cheap enough; false for symbolic sizes."""
    if _elements(t.shape for t in program.outputs) > FOLD_ELEMENTS:
        return False
    work = 0
    for operation in operations(program):
        if isinstance(operation, Reshape):
            continue
        if symbols_in(operation):
            return False
        extents = [axis.extent for axis in operation.axes]
        inner = 1
        values = operation.values if isinstance(operation, Compute) else (operation.value,)
        for value in values:
            for node in walk(value):
                if isinstance(node, Reduce):
                    inner = max(inner, _elements([[axis.extent for axis in node.axes]]))
        work += _elements([extents]) * inner
        if work > FOLD_WORK:
            return False
    return True


def _dequantises(program: Program) -> bool:
    """Whether ``program`` makes floats of a matrix of small integers: sums of products of these are
    sums of integers, as long as these are known (``graph/integer_sums.py``)."""
    small = any(t.rank > 1 and t.dtype.is_integer and t.dtype.bits <= 8 for t in program.inputs)
    return small and all(t.dtype.is_float for t in program.outputs)


def _elements(shapes: Iterable[Sequence[Size]]) -> int:
    total = 0
    for shape in shapes:
        sizes = [constant_size(s) for s in shape]
        if any(s is None for s in sizes):
            return FOLD_WORK + 1
        total += math.prod(s for s in sizes if s is not None)
    return total


def _has_denormals(array: np.ndarray) -> bool:
    """Whether numbers are denormal where they are computed with: float32 or float64."""
    if not as_dtype(array.dtype).is_float:
        return False
    least = np.finfo(np.float64 if array.dtype == np.float64 else np.float32).tiny
    return bool(((array != 0) & (abs(array.astype(np.float64)) < least)).any())
