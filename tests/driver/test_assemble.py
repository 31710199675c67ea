"""What runs when compiling and what at each call."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import weft
from weft.driver.assemble import Ports, Step, Storage, assemble
from weft.driver.compiler import compile_graph
from weft.frontend.graph_builder import frozen
from weft.frontend.operators.registry import instantiate
from weft.graph.from_program import from_program
from weft.ir import dtypes
from weft.ir.loop_ir import Block, Buffer, For, If, Kernel, Store
from weft.ir.scalar_expr import Var, literal

STORAGE = Storage(dtypes.float32, (literal(4),))


def step(name: str, reads: str, writes: str, parameters: tuple[str, ...] = ()) -> Step:
    arguments = tuple(dict.fromkeys(reads + writes))
    buffers = tuple(
        Buffer(a, dtypes.float32, (literal(4),), (literal(1),), writable=a in writes)
        for a in arguments
    )
    kernel = Kernel(name, parameters, buffers, Block(()))
    return Step(kernel, arguments, frozenset(reads), frozenset(writes))


def split(steps: list[Step]) -> tuple[list[str], list[str]]:
    """Names of the kernels that run (when compiling, at each call)."""
    ports = Ports(("x",), ("y",), frozenset("c"))
    storage = dict.fromkeys(("x", "y", *(a for s in steps for a in s.arguments)), STORAGE)
    made = assemble(ports, steps, storage, {}, "g")
    once = [launch.kernel for launch in made.prepare.steps] if made.prepare else []
    return once, [launch.kernel for launch in made.main.steps]


def test_what_depends_on_constants_alone_runs_when_compiling() -> None:
    assert split([step("pack", "c", "p"), step("use", "px", "y")]) == (["pack"], ["use"])


def test_an_output_is_computed_at_each_call() -> None:
    assert split([step("copy", "c", "y")]) == ([], ["copy"])


def test_a_buffer_that_a_later_step_changes_is_not_constant_nor_what_is_read_from_it() -> None:
    steps = [
        step("zero", "", "t"),
        step("early", "t", "u"),
        step("late", "u", "v"),
        step("change", "xt", "t"),
        step("use", "tuvx", "y"),
    ]
    assert split(steps) == ([], ["zero", "early", "late", "change", "use"])


def test_sizes_are_not_known_when_compiling() -> None:
    steps = [step("table", "", "t", ("n",)), step("use", "tx", "y")]
    assert split(steps) == ([], ["table", "use"])


def conditional(made: Step, where: str) -> Step:
    """``made`` under a condition on a size, which also is a bound of a loop ``where`` "inside"."""
    n, store = Var("n"), Store(made.arguments[-1], (literal(0),), literal(1.0, dtypes.float32))
    loop = For("i", literal(0), n if where == "inside" else literal(4), "serial", store)
    body = If(n >= 1, loop, store if where == "otherwise" else Block(()))
    return replace(made, kernel=replace(made.kernel, parameters=("n",), body=body))


@pytest.mark.parametrize("where", ["", "inside", "otherwise"])
def test_whether_there_are_rows_does_not_matter_to_weights(where: str) -> None:
    steps = [conditional(step("pack", "c", "p"), where), step("use", "px", "y")]
    assert split(steps) == ((["pack"], ["use"]) if where == "" else ([], ["pack", "use"]))


def test_what_others_write_too_or_callers_see_keeps_its_condition() -> None:
    steps = [step("fill", "", "p"), conditional(step("add", "c", "p"), ""), step("use", "px", "y")]
    assert split(steps) == ([], ["fill", "add", "use"])
    assert split([conditional(step("copy", "c", "y"), "")]) == ([], ["copy"])


@pytest.mark.parametrize("rows", [0, 1, 7, 64])
def test_weights_of_open_products_are_packed_once(rows: int) -> None:
    n = weft.var("n")
    x, w = weft.placeholder((n, 64), name="x"), weft.placeholder((64, 96), name="w")
    weights = np.random.default_rng(0).standard_normal((64, 96)).astype(np.float32)
    graph = from_program(instantiate("matmul", [x, w]))
    graph = replace(graph, inputs=graph.inputs[:1], constants={"w": frozen(weights)})
    program = compile_graph(graph, weft.Options(workers=0, threads=1))
    assert program.stats["prepared"] == 1
    data = np.random.default_rng(1).standard_normal((rows, 64)).astype(np.float32)
    np.testing.assert_allclose(program(data), data @ weights, rtol=1e-4, atol=1e-4)


@pytest.mark.long
@pytest.mark.parametrize("size", [0, 1, 5, 40])
def test_a_table_over_a_symbolic_size(size: int) -> None:
    n = weft.var("n")
    x = weft.placeholder((n, n), name="x")
    table = weft.compute(
        (n, n), lambda i, j: weft.exp((i * j).astype("float32") * 0.001), name="table"
    )
    k = weft.reduce_axis((0, n), name="k")
    y = weft.compute((n, n), lambda i, j: weft.sum(x[i, k] * table[k, j], axis=k), name="y")
    run = weft.compile([y], options=weft.Options(cache=False))
    data = np.random.default_rng(size).standard_normal((size, size)).astype(np.float32)
    i, j = np.indices((size, size))
    expected = data.astype(np.float64) @ np.exp(i * j * 0.001)
    np.testing.assert_allclose(run(data), expected, rtol=1e-4, atol=1e-4)
