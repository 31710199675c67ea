from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.graph.graph_examples import random_inputs
from tests.graph.test_layouts import chain
from weft.driver.compiler import compile_graph
from weft.ir.graph_interpreter import interpret_graph


@pytest.mark.long
@pytest.mark.parametrize(
    ("channels", "wide", "size", "strides"),
    [(1, 1, 1, (1,)), (3, 7, 13, (2, 1)), (16, 33, 15, (1, 2))],
)
def test_compiled_it_computes_the_same(channels, wide, size, strides) -> None:
    graph = chain(channels, wide, size, strides)
    (x,) = random_inputs(graph)
    x[0, 0, 0, 0] = np.nan
    (expected,) = interpret_graph(graph, [x], precise=True)
    options = weft.Options(cache=False, threads=2 if wide == 33 else 1)
    (result,) = compile_graph(graph, options).run({"in0": x}).values()
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def test_explain_says_how_a_value_is_stored() -> None:
    text = compile_graph(chain(16, 96, 7), weft.Options(cache=False, threads=1)).explain()
    assert "conv1:0, 1 x 96 x 7 x 7, is stored as 1 x 7 x 7 x 96" in text
    assert "times as fast" in text
