"""Integer tensors made of sizes, element by element, beside the interpreter of tensor programs."""

import numpy as np
import pytest

from weft.frontend.operators.registry import instantiate
from weft.frontend.size_symbols import SizeSymbols
from weft.frontend.sizes_as_data import as_data, as_elements, elements_of
from weft.ir.build import placeholder
from weft.ir.dtypes import float32
from weft.ir.scalar_expr import Expr, Var
from weft.ir.size_arithmetic import evaluate
from weft.ir.tensor_interpreter import interpret

N, M = Var("n"), Var("m")
SIZES = [{"n": 0, "m": 0}, {"n": 1, "m": 7}, {"n": 13, "m": 1}, {"n": 6, "m": 6}]


def symbols():
    sizes = SizeSymbols()
    sizes.open("n")
    sizes.open("m")
    return sizes


def elements(*values):
    found = np.empty(len(values), object)
    for k, value in enumerate(values):
        found[k] = value if isinstance(value, Expr) else as_elements(np.int64([value]))[0]
    return found


A = elements(N, 3, M)
B = elements(2, N, 0 * N + 5)

CASES = {
    "add": ((A, B), {}),
    "sub": ((A, B), {}),
    "mul": ((A, B), {}),
    "div": ((A, elements(2, 2, 3)), {}),
    "min": ((A, B), {}),
    "concat": ((A, B), {"axis": 0}),
    "gather": ((A, elements(-1, 0)), {"axis": 0}),
    "strided_slice": ((A,), {"starts": (2,), "steps": (-1,), "sizes": (3,)}),
    "reshape": ((A,), {"shape": (3, 1)}),
    "reduce_prod": ((A,), {"axes": None, "keepdims": True}),
    "reduce_sum": ((A,), {"axes": (0,), "keepdims": False}),
    "equal": ((A, B), {}),
    "tile": ((A,), {"repeats": (2,)}),
}


@pytest.mark.parametrize("op", CASES)
def test_as_the_interpreter(op):
    given, attributes = CASES[op]
    tensors = [placeholder(e.shape, "int64", name=f"x{k}") for k, e in enumerate(given)]
    program = instantiate(op, tensors, **attributes)
    found = elements_of(program, given, symbols())
    assert found is not None
    for sizes in SIZES:
        data = [np.int64([evaluate(e, sizes) for e in x.flat]).reshape(x.shape) for x in given]
        for expected, array in zip(interpret(program, data), found, strict=True):
            numbers = [evaluate(e, sizes) for e in array.flat]
            np.testing.assert_array_equal(np.reshape(numbers, array.shape), expected)


def test_a_shape():
    x = placeholder((N, 3, N * M), name="x")
    program = instantiate("shape_of", [x], start=0, end=3)
    (found,) = elements_of(program, [None], symbols())
    assert [symbols().normal(e) for e in found] == [N, 3, symbols().normal(N * M)]


def test_what_data_decide_has_no_elements():
    x = placeholder((3,), "int64", name="x")
    assert elements_of(instantiate("add", [x, x]), [None, None], symbols()) is None
    assert elements_of(instantiate("cast", [x], to=float32), [A], symbols()) is None


def test_comparisons_that_ranges_decide_are_numbers():
    x, y = placeholder((3,), "int64", name="x"), placeholder((3,), "int64", name="y")
    program = instantiate("equal", [x, y])
    (found,) = elements_of(program, [A, elements(-1, 3, -2)], symbols())
    np.testing.assert_array_equal(as_data(found, program.outputs[0].dtype), [False, True, False])


@pytest.mark.parametrize("data", [np.zeros(65, np.int64), np.zeros(3, np.float32)])
def test_what_is_not_followed(data):
    assert as_elements(data) is None
