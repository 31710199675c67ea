"""Small operator graphs for tests: made of Weft's own operators, run by the interpreters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from weft.frontend.operators.registry import instantiate
from weft.graph.cluster_program import cluster_program
from weft.graph.partition import Partition
from weft.ir.dtypes import as_dtype
from weft.ir.operator_graph import Graph, Node, Value
from weft.ir.tensor_expr import Size, Tensor
from weft.ir.tensor_interpreter import interpret


class Maker:
    """Builds a graph call by call."""

    def __init__(self) -> None:
        self.inputs: list[Value] = []
        self.nodes: list[Node] = []
        self.constants: dict[str, np.ndarray] = {}

    def input(self, shape: Sequence[Size], dtype: str = "float32") -> Value:
        tensor = Tensor(f"in{len(self.inputs)}", tuple(shape), as_dtype(dtype))
        self.inputs.append(Value(tensor.name, tensor.shape, tensor.dtype))
        return self.inputs[-1]

    def constant(self, shape: Sequence[int], seed: int = 0, data: Any = None) -> Value:
        if data is None:
            data = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        array = np.array(data)
        array.flags.writeable = False
        value = Value(f"w{len(self.constants)}", array.shape, as_dtype(array.dtype))
        self.constants[value.name] = array
        return value

    def call(self, op: str, *inputs: Value, **attributes: Any) -> Any:
        tensors = [Tensor(v.name, v.shape, v.dtype) for v in inputs]
        program = instantiate(op, tensors, **attributes)
        name = f"{op}{len(self.nodes)}"
        results = tuple(
            Value(f"{name}:{k}", t.shape, t.dtype) for k, t in enumerate(program.outputs)
        )
        origin = f"node {name!r}"
        self.nodes.append(Node(name, op, inputs, results, attributes, program, origin))
        return results[0] if len(results) == 1 else results

    def graph(self, *outputs: Value) -> Graph:
        return Graph("test", tuple(self.inputs), outputs, tuple(self.nodes), self.constants)


def random_inputs(graph: Graph, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(v.shape).astype(v.dtype.numpy) for v in graph.inputs]


def run_clusters(
    graph: Graph, result: Partition, inputs: Sequence[np.ndarray]
) -> Mapping[str, np.ndarray]:
    """The values of ``graph`` by name, computed one cluster after the other."""
    values = dict(graph.constants)
    values |= {v.name: a for v, a in zip(graph.inputs, inputs, strict=True)}
    for cluster in result.clusters:
        program = cluster_program(cluster).program
        arrays = interpret(program, [values[v.name] for v in cluster.inputs])
        values |= {v.name: a for v, a in zip(cluster.outputs, arrays, strict=True)}
    return values


N = 4  # every value of a random graph is N × N


@st.composite
def random_graphs(draw: st.DrawFn, most: int = 14) -> Graph:
    """Graphs of maps, reductions, contractions, moves, views and recurrences on N × N values."""
    maker = Maker()
    values = [maker.input((N, N)) for _ in range(draw(st.integers(1, 2)))]
    values.append(maker.constant((N, N)))
    for _ in range(draw(st.integers(1, most))):
        op = draw(st.sampled_from(sorted(OPERATIONS)))
        picked = [values[-1 - draw(st.integers(0, min(4, len(values) - 1)))] for _ in range(2)]
        values.append(OPERATIONS[op](maker, *picked))
    made = [v for node in maker.nodes for v in node.outputs if v.shape == (N, N)]
    chosen = draw(st.lists(st.sampled_from(made), min_size=1, max_size=3, unique=True))
    return maker.graph(*dict.fromkeys([*chosen, made[-1]]))


def _row_sums(m: Maker, a: Value, b: Value) -> Value:
    return m.call("sub", b, m.call("reduce_mean", a, axes=(1,), keepdims=True))


def _through_a_view(m: Maker, a: Value, b: Value) -> Value:
    flat = m.call("relu", m.call("reshape", a, shape=(N * N,)))
    return m.call("add", m.call("reshape", flat, shape=(N, N)), b)


OPERATIONS = {
    "add": lambda m, a, b: m.call("add", a, b),
    "sub": lambda m, a, b: m.call("sub", a, b),
    "relu": lambda m, a, b: m.call("relu", a),
    "tanh": lambda m, a, b: m.call("tanh", a),
    "matmul": lambda m, a, b: m.call("tanh", m.call("matmul", a, b)),
    "transpose": lambda m, a, b: m.call("transpose", a, perm=(1, 0)),
    "row sums": _row_sums,
    "view": _through_a_view,
    "cumulative": lambda m, a, b: m.call("cum_sum", m.call("tanh", a), axis=0),
    "maximum": lambda m, a, b: m.call("add", a, m.call("reduce_max", b, axes=(0,))),
}
