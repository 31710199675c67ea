"""Random ONNX models that look like real ones, each with inputs and the results to expect.

A model grows node by node: each new node runs alone (``random_oracle``), on the values that it
reads. That gives its shape and its expected value, unfused; nodes that are refused, and values that
are too large to compare, are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper

from tests.end_to_end.random_oracle import (
    Refused,
    domain_version,
    groups,
    hands_on,
    model_of,
    reads_of,
    runner,
)
from tests.end_to_end.random_types import is_float, numpy_type

SIZES = (1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 23, 32, 37, 48, 64, 67, 96, 101, 128)
LARGEST_VALUE, MOST_ELEMENTS = 5_000.0, 20_000
F32, F64, F16, I64 = (np.dtype(t) for t in (np.float32, np.float64, np.float16, np.int64))


@dataclass(frozen=True, slots=True)
class RandomModel:
    model: onnx.ModelProto
    inputs: dict[str, np.ndarray]
    expected: dict[str, np.ndarray]
    values: dict[str, Any]  # all, by name
    private: frozenset[str]  # values that no oracle knows

    @property
    def summary(self) -> str:
        return " ".join(node.op_type for node in self.model.graph.node)


@dataclass
class Growing:
    """A model under construction: values by name, and those that nodes may read."""

    rng: np.random.Generator
    opset: int = 18
    empty: float = 0.0  # how often a size is 0
    infinite: bool = False  # whether values may be infinite or NaN
    values: dict[str, Any] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    constants: list[str] = field(default_factory=list)
    private: set[str] = field(default_factory=set)  # what nothing but its own block may read
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    def choice(self, *options: Any) -> Any:
        if not options:
            raise Refused("nothing to choose from")
        return options[int(self.rng.integers(len(options)))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def size(self, most: int = 23) -> int:
        return int(self.choice(*(n for n in SIZES if n <= most)))

    def shape(self, rank: int, most: int = 11) -> list[int]:
        """Sizes of a small tensor, some of them 0 where the model may have such."""
        return [0 if self.chance(self.empty) else self.size(most) for _ in range(rank)]

    def integers(self, low: int, high: int, count: int) -> list[int]:
        """``count`` numbers from ``low`` to ``high``, both included."""
        return [int(n) for n in self.rng.integers(low, high + 1, count)]

    def axis(self, name: str) -> int:
        """An axis of a value, from the front or from behind."""
        rank = self.values[name].ndim
        if not rank:
            raise Refused("no axis")
        return int(self.rng.integers(-rank, rank))

    def axes(self, name: str, least: int = 0) -> list[int]:
        """Different axes of a value, some of them from behind."""
        rank = self.values[name].ndim
        count = int(self.rng.integers(min(least, rank), rank + 1))
        return [int(k) - rank * self.chance(0.3) for k in self.rng.permutation(rank)[:count]]

    def some(self, **parameters: Any) -> dict[str, Any]:
        """Most of the ``parameters``; the others keep their defaults."""
        return {name: value for name, value in parameters.items() if self.chance(0.75)}

    def array(self, shape: Sequence[int], dtype: np.dtype = F32, scale: float = 1.0) -> np.ndarray:
        if dtype.kind == "b":
            return np.asarray(self.rng.random(shape) < 0.5)
        if is_float(dtype):
            array = np.asarray(self.rng.standard_normal(shape) * scale)
            return np.asarray(np.abs(array) if "8_e8" in dtype.name else array).astype(dtype)
        low, high = (0, 9) if "uint" in dtype.name else (-9, 9)
        few = {"int4": (-8, 7), "int2": (-2, 1), "uint2": (0, 3)}
        low, high = few.get(dtype.name, (low, high))
        return np.asarray(self.rng.integers(low, high + 1, shape)).astype(dtype)

    def input(self, shape: Sequence[int], dtype: np.dtype = F32) -> str:
        return self.given(self.array(shape, dtype))

    def given(self, array: np.ndarray) -> str:
        """An input of the model that has just this value."""
        name = f"x{len(self.inputs)}"
        self.values[name] = array
        self.inputs.append(name)
        return name

    def constant(self, array: Any, dtype: np.dtype = F32) -> str:
        name = f"c{len(self.constants)}"
        self.values[name] = np.asarray(array, dtype)
        self.constants.append(name)
        return name

    def fixed(self, array: Any, dtype: np.dtype = F32) -> str:
        """A constant, or now and then an input."""
        array = np.asarray(array, dtype)
        return self.constant(array, dtype) if self.chance(0.85) else self.given(array)

    def weight(self, shape: Sequence[int], fan_in: int = 1, dtype: np.dtype = F32) -> str:
        """What is fixed and keeps products of ``fan_in`` terms small."""
        return self.fixed(self.array(shape, dtype, max(fan_in, 1) ** -0.5), dtype)

    def readable(self) -> dict[str, np.ndarray]:
        """The values that any node may read."""
        hidden = self.private.union(self.constants)
        return {n: a for n, a in self.values.items() if n not in hidden}

    def pick(self, accept: Callable[[np.ndarray], bool] = lambda a: a.dtype == F32) -> str:
        """A value that ``accept`` likes, a recent one more likely."""
        names = [n for n, a in self.readable().items() if accept(a)]
        if not names:
            raise Refused("no value of that kind")
        return names[-1 - min(int(self.rng.exponential(2.0)), len(names) - 1)]

    def types(self, op_type: str, k: int = 0, domain: str = "") -> list[np.dtype]:
        """The element types that input ``k`` of an operator may have."""
        schema = self._schema(op_type, domain)
        text = schema.inputs[k].type_str
        allowed = [c.allowed_type_strs for c in schema.type_constraints if c.type_param_str == text]
        found = [numpy_type(t) for t in (allowed[0] if allowed else [text])]
        return [t for t in found if t is not None]

    def tensor(
        self, op_type: str, k: int = 0, low: int = 0, high: int = 5, most: int = 11,
        domain: str = "", types: Sequence[np.dtype] = (),
    ) -> str:  # fmt: skip
        """A value of ``low`` to ``high`` dimensions that input ``k`` of an operator may be.

        One that is there, one that is there in another type, or a new input.
        """
        allowed = [t for t in self.types(op_type, k, domain) if not types or t in types]
        if not allowed:
            raise Refused("no such type")
        fits = lambda a: low <= a.ndim <= high and a.dtype != object  # noqa: E731
        dtype = F32 if F32 in allowed and self.chance(0.4) else self.choice(*allowed)
        try:
            if self.chance(0.6):
                return self.pick(lambda a: fits(a) and a.dtype in allowed)
            if self.chance(0.5):
                return self.cast(self.pick(fits), dtype)
        except Refused:
            pass
        return self.input(self.shape(int(self.rng.integers(low, high + 1)), most), dtype)

    def cast(self, name: str, dtype: np.dtype) -> str:
        """``name`` in another type, as far as ONNX says what that gives."""
        array = self.values[name]
        if array.dtype == dtype:
            return name
        if not is_float(dtype) and dtype.kind != "b":
            limits = np.iinfo(dtype) if dtype.kind in "iu" else None
            low, high = (limits.min, limits.max) if limits else (0, 1)
            wide = array.astype(np.float64)
            if not (np.isfinite(wide) & (wide >= low) & (wide <= high)).all():
                raise Refused("a value that the type does not have")
        return self.add("Cast", name, to=helper.np_dtype_to_tensor_dtype(dtype))[0]

    def _schema(self, op_type: str, domain: str) -> defs.OpSchema:
        try:
            schema = defs.get_schema(op_type, domain_version(domain, self.opset), domain)
        except defs.SchemaError as error:
            raise Refused(f"no {op_type} in opset {self.opset}") from error
        if schema.deprecated:
            raise Refused(f"no {op_type} any more in opset {self.opset}")
        return schema

    def add(
        self, op_type: str, *reads: str, outputs: int = 1, domain: str = "", **parameters: Any
    ) -> list[str]:
        """A new node and the names of its outputs; raises ``Refused``.

        A parameter is an attribute or an input, whichever it is in the opset at hand.
        """
        schema = self._schema(op_type, domain)
        inputs = list(reads)
        for k, formal in enumerate(schema.inputs):
            if formal.name in parameters:
                given = parameters.pop(formal.name)
                inputs += [""] * (k + 1 - len(inputs))
                inputs[k] = given if isinstance(given, str) else self._argument(schema, k, given)
        if parameters.keys() - schema.attributes.keys():
            raise Refused(f"{op_type} of opset {self.opset} has no {', '.join(parameters)}")
        floating = defs.OpSchema.AttrType.FLOAT
        attributes = [
            helper.make_attribute(
                name,
                float(value) if schema.attributes[name].type == floating else value,
                attr_type=int(schema.attributes[name].type),
            )
            for name, value in parameters.items()
        ]
        return self._grown(op_type, inputs, outputs, domain, attributes)

    def contributed(self, op_type: str, *reads: str, **attributes: Any) -> list[str]:
        """``add`` of an operator that onnxruntime has and the standard has not."""
        given = [helper.make_attribute(name, value) for name, value in attributes.items()]
        return self._grown(op_type, reads, 1, "com.microsoft", given)

    def _grown(
        self, op_type: str, inputs: Sequence[str], outputs: int, domain: str,
        attributes: Sequence[onnx.AttributeProto],
    ) -> list[str]:  # fmt: skip
        names = [f"v{len(self.nodes)}_{k}" for k in range(outputs)]
        name = f"n{len(self.nodes)}"
        node = helper.make_node(op_type, inputs, names, name, domain=domain)
        node.attribute.extend(attributes)
        for output, value in zip(names, self._alone(node), strict=False):
            self._accept(value)
            self.values[output] = value
        self.nodes.append(node)
        return names

    def _argument(self, schema: defs.OpSchema, k: int, given: Any) -> str:
        """``given`` as a constant, now and then an input, of a type that input ``k`` may have."""
        if not isinstance(given, np.ndarray | np.generic):
            allowed = self.types(schema.name, k, schema.domain)
            dtype = I64 if I64 in allowed else self.choice(*allowed)
            if F32 in allowed and dtype != I64:
                dtype = F32
            given = np.asarray(given, dtype)
        given = np.asarray(given)
        return self.constant(given, given.dtype) if self.chance(0.95) else self.given(given)

    def _accept(self, value: np.ndarray) -> None:
        if value.size > MOST_ELEMENTS or value.ndim > 6:
            raise Refused("too large")
        if is_float(value.dtype) and value.size:
            sizes = np.abs(value.astype(np.float64))
            if self.infinite:
                sizes = sizes[np.isfinite(sizes)]
            if not (sizes <= LARGEST_VALUE).all():
                raise Refused("values that cannot be compared")

    def _alone(self, node: onnx.NodeProto) -> list[Any]:
        """``node`` by itself."""
        if hands_on(node):
            return []
        group = list(groups([*self.nodes, node], set()))[-1]
        made = {name for other in group for name in other.output}
        reads = dict.fromkeys(n for other in group for n in reads_of(other) if n not in made)
        fixed = {n: self.values[n] for n in reads if n in self.constants}
        given = {n: self.values[n] for n in reads if n not in self.constants}
        return runner(group, given, fixed, node.output, self.opset)(given)

    def finished(self, keep: float = 0.15) -> RandomModel:
        """Outputs: all that nothing reads, and now and then something that is read too."""
        read = {name for node in self.nodes for name in reads_of(node)}
        made = [n for node in self.nodes for n in node.output if n in self.values]
        outputs = [
            n for n in made if n not in self.private and (n not in read or self.chance(keep))
        ]
        private = frozenset(self.private)
        return model_from(
            self.nodes, self.values, outputs, set(self.constants), self.opset, private
        )


def model_from(
    nodes: Sequence[onnx.NodeProto],
    values: dict[str, Any],
    outputs: Sequence[str],
    constants: set[str],
    opset: int,
    private: frozenset[str],
) -> RandomModel:
    """The model of ``nodes``; what they read and do not make is an input or a constant."""
    made = {name for node in nodes for name in node.output}
    read = dict.fromkeys(n for node in nodes for n in reads_of(node) if n not in made)
    inputs = {n: values[n] for n in read if n not in constants}
    fixed = {n: values[n] for n in read if n in constants}
    expected = {n: values[n] for n in outputs}
    model = model_of(nodes, inputs, fixed, expected, opset)
    onnx.checker.check_model(model)
    return RandomModel(model, inputs, expected, values, private)


def without(case: RandomModel, removed: set[int]) -> RandomModel:
    """The model without some of its nodes; what these gave is then given to it."""
    graph = case.model.graph
    kept = [node for k, node in enumerate(graph.node) if k not in removed]
    constants = {c.name for c in graph.initializer}
    read = {name for node in kept for name in reads_of(node)}
    ends = [
        n for node in kept for n in node.output
        if (n in case.expected or n not in read) and n in case.values and n not in case.private
    ]  # fmt: skip
    opset = next(o.version for o in case.model.opset_import if not o.domain)
    return model_from(kept, case.values, ends, constants, opset, case.private)
