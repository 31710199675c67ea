"""Graphs that take every pass: what full verification is tested on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import weft
from weft.graph.from_program import from_program
from weft.ir.operator_graph import Graph
from weft.ir.tensor_expr import Tensor
from weft.verify.oracle import read_only


def graph_of(*outputs: Tensor, constants: tuple[str, ...] = ()) -> Graph:
    """The graph that computes ``outputs``; inputs named in ``constants`` have data."""
    graph = from_program(weft.program(list(outputs)))
    random = np.random.default_rng(7)
    data = {
        v.name: read_only(random.uniform(0.5, 2.0, v.shape).astype(v.dtype.numpy))
        for v in graph.inputs
        if v.name in constants
    }
    inputs = tuple(v for v in graph.inputs if v.name not in constants)
    return replace(graph, inputs=inputs, constants=data)


def dense() -> Graph:
    """A pointwise producer, a matrix product by transposed constant weights, a normalisation."""
    x = weft.placeholder((37, 64), name="x")
    w = weft.placeholder((29, 64), name="w")
    bias, scale = weft.placeholder((29,), name="bias"), weft.placeholder((29,), name="scale")
    k = weft.reduce_axis((0, 64), name="k")
    shifted = weft.compute((37, 64), lambda i, j: x[i, j] * 3.0 - 1.0, name="shifted")
    product = weft.compute(
        (37, 29), lambda i, j: weft.sum(shifted[i, k] * w[j, k], axis=k), name="product"
    )
    centred = weft.compute((37, 29), lambda i, j: product[i, j] - bias[j], name="centred")
    result = weft.compute(
        (37, 29), lambda i, j: centred[i, j] / weft.sqrt(scale[j] + 0.5), name="result"
    )
    return graph_of(result, constants=("w", "bias", "scale"))


def convolution() -> Graph:
    """A padded convolution, a rectifier, a pooling."""
    x = weft.placeholder((1, 3, 10, 10), name="x")
    w = weft.placeholder((4, 3, 3, 3), name="w")
    c, r, s = (weft.reduce_axis((0, n), name=a) for a, n in (("c", 3), ("r", 3), ("s", 3)))
    u, v = weft.reduce_axis((0, 2), name="u"), weft.reduce_axis((0, 2), name="v")

    def padded(n: weft.Expr, k: weft.Expr, h: weft.Expr, q: weft.Expr) -> weft.Expr:
        row, column = h + r - 1, q + s - 1
        inside = (row >= 0) & (row < 10) & (column >= 0) & (column < 10)
        return weft.sum(
            weft.select(inside, x[n, c, row, column], 0.0) * w[k, c, r, s], axis=(c, r, s)
        )

    y = weft.compute((1, 4, 10, 10), padded, name="y")
    z = weft.compute((1, 4, 10, 10), lambda n, k, h, q: weft.maximum(y[n, k, h, q], 0.0), name="z")
    pooled = weft.compute(
        (1, 4, 5, 5),
        lambda n, k, h, q: weft.max_over(z[n, k, 2 * h + u, 2 * q + v], axis=(u, v)),
        name="pooled",
    )
    return graph_of(pooled, constants=("w",))


def chain() -> Graph:
    """Clusters that hand intermediates of different lifetimes to each other."""
    x = weft.placeholder((40, 40), name="x")
    first = _product("t0", x, x)
    second = _product("t1", first, x)
    third = _product("t2", second, first)
    return graph_of(_product("t3", third, first))


def _product(name: str, a: Tensor, b: Tensor) -> Tensor:
    k = weft.reduce_axis((0, 40), name="k")
    return weft.compute(
        (40, 40), lambda i, j: weft.sum(a[k, i] * b[j, k], axis=k) - a[i, j], name=name
    )
