"""NumPy as a provider: products of matrices by its BLAS, and what NumPy does around them."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from weft.driver.providers import PROVIDERS, Subgraph
from weft.graph_edit import GraphEdit
from weft.ir.dtypes import float32, float64
from weft.ir.operator_graph import Node
from weft.ir.registry import calling
from weft.runtime.executable import available_threads

Action = Callable[..., Any]


def numpy(part: Subgraph) -> Action | None:
    """The nodes of ``part`` in order; None unless one of them is a product of matrices in float32
    or float64, and NumPy has the others. BLAS has as many threads as the environment says."""
    if _blas_threads() > part.threads:
        return None
    graph, edit = part.graph, GraphEdit(part.graph)
    actions = [_action(edit, node) for node in graph.nodes]
    known = [action for action in actions if action is not None]
    if len(known) < len(actions) or not any(node.op in PRODUCTS for node in graph.nodes):
        return None
    reads = [[v.name for v in node.inputs] for node in graph.nodes]
    makes = [node.outputs[0].name for node in graph.nodes]
    inputs, outputs = [v.name for v in graph.inputs], [v.name for v in graph.outputs]
    constants = graph.constants

    def run(*arrays: np.ndarray) -> list[np.ndarray]:
        values = {**constants, **dict(zip(inputs, arrays, strict=True))}
        for action, read, made in zip(known, reads, makes, strict=True):
            values[made] = action(*[values[name] for name in read])
        return [_own(values[name]) for name in outputs]

    return run


def _own(array: np.ndarray) -> np.ndarray:
    """``array`` row-major, in memory that no other has."""
    return np.array(array, order="C") if array.base is not None else np.asarray(array, order="C")


def _blas_threads() -> int:
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return available_threads()


def _action(edit: GraphEdit, node: Node) -> Action | None:
    """What NumPy does to the inputs of ``node``; None where it is no operator of these."""
    makers = PRODUCTS | OTHERS
    if node.op not in makers or len(node.outputs) != 1 or not edit.computes(node, node.op):
        return None
    floats = all(v.dtype in (float32, float64) for v in (*node.inputs, *node.outputs))
    return makers[node.op](node) if floats else None


def _gemm(node: Node) -> Action:
    alpha, beta, transpose_a, transpose_b = (
        node.attributes.get(name, default)
        for name, default in (
            ("alpha", 1.0), ("beta", 1.0), ("transpose_a", False), ("transpose_b", False),
        )
    )  # fmt: skip

    def run(a: np.ndarray, b: np.ndarray, c: np.ndarray | None = None) -> np.ndarray:
        product: np.ndarray = (a.T if transpose_a else a) @ (b.T if transpose_b else b)
        if alpha != 1.0:
            product *= alpha
        if c is not None and beta != 0.0:
            product += c if beta == 1.0 else beta * c
        return product

    return run


def _reshape(node: Node) -> Action:
    shape = node.outputs[0].shape
    return lambda x: x.reshape(shape)


def _transpose(node: Node) -> Action:
    perm: Any = node.attributes["perm"]
    return partial(np.transpose, axes=tuple(perm))


PRODUCTS: dict[str, Callable[[Node], Action]] = {
    "matmul": lambda node: np.matmul,
    "gemm": _gemm,
}
OTHERS: dict[str, Callable[[Node], Action]] = {
    "add": lambda node: np.add,
    "sub": lambda node: np.subtract,
    "mul": lambda node: np.multiply,
    "div": lambda node: np.divide,
    "tanh": lambda node: np.tanh,
    "relu": lambda node: partial(np.maximum, np.float32(0)),
    "reshape": _reshape,
    "transpose": _transpose,
}

PROVIDERS.add("numpy", numpy, calling(0))
