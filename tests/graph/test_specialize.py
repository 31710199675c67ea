"""Graphs with some open sizes fixed compute what they did."""

from dataclasses import replace

import numpy as np
import pytest

import weft
from weft.graph.from_program import from_program
from weft.graph.specialize import specialize, symbols_of
from weft.ir.errors import CompileError
from weft.ir.graph_interpreter import interpret_graph
from weft.ir.graph_verifier import verify_graph
from weft.ir.scalar_expr import Var

N, M = weft.var("n"), weft.var("m")


def graph():
    """Row sums of a product, the positions of the greatest, a scatter, and sizes as data."""
    x = weft.placeholder((N, M), name="x")
    w = weft.placeholder((M, 3), name="w")
    k = weft.reduce_axis((0, M), name="k")
    y = weft.compute((N, 3), lambda i, j: weft.sum(x[i, k] * w[k, j], k), name="y")
    flat = weft.reshape(x, (N * M,), name="flat")
    z = weft.compute((N * M,), lambda i: flat[i] + (N - 1).astype("float32"), name="z")
    s = weft.scatter(y, (N,), lambda i: ((i, 0), flat[i * M] * 2.0), name="s")
    return from_program(weft.program([y, z, s]))


@pytest.mark.parametrize("fixed", [{"n": 1}, {"m": 4}, {"n": 5, "m": 1}, {"m": 0}, {}])
def test_as_before(fixed):
    general = graph()
    special = specialize(general, fixed)
    verify_graph(special)
    assert set(symbols_of(special)) == {"n", "m"} - fixed.keys()
    random = np.random.default_rng(0)
    for n, m in ((1, 4), (3, 2)):
        sizes = {"n": n, "m": m, **fixed}
        if sizes["m"] == 0 and sizes["n"]:
            sizes["n"] = 0
        given = {
            "x": random.standard_normal((sizes["n"], sizes["m"])).astype(np.float32),
            "w": random.standard_normal((sizes["m"], 3)).astype(np.float32),
        }
        for a, b in zip(
            interpret_graph(special, [given[v.name] for v in special.inputs]),
            interpret_graph(general, [given[v.name] for v in general.inputs]),
            strict=True,
        ):
            np.testing.assert_array_equal(a, b)


def test_assumptions_are_decided():
    n = Var("n")
    assumed = replace(graph(), assumptions=(n >= 2, Var("m") <= n))
    assert specialize(assumed, {"n": 5}).assumptions == (Var("m") <= 5,)
    with pytest.raises(CompileError, match=r"E0034.*n >= 2(.|\n)*n = 1"):
        specialize(assumed, {"n": 1})


@pytest.mark.parametrize("sizes", [{"q": 1}, {"n": -1}, {"n": True}, {"n": 1.0}])
def test_no_size(sizes):
    with pytest.raises(CompileError, match="WEFT-E0033"):
        specialize(graph(), sizes)
