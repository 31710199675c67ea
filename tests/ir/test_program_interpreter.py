from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.program_examples import chain, run_chain_kernel
from weft.ir.program import Launch
from weft.ir.program_interpreter import CheckFailed, interpret_program
from weft.ir.scalar_expr import literal


@pytest.mark.parametrize("size", [0, 1, 7, 64])
def test_steps_in_order_over_the_arena(size: int) -> None:
    x = np.arange(size, dtype=np.float32)
    bias = np.full(size, 3, np.float32)
    (y,) = interpret_program(chain(), [x], {"b": bias}, run_chain_kernel)
    np.testing.assert_array_equal(y, (x + 3) * 2)
    (again,) = interpret_program(chain(), [x], {"b": bias})  # by the interpreter of loop IR
    np.testing.assert_array_equal(again, y)
    assert not np.shares_memory(y, x)


def test_failed_check_stops_the_program_and_names_the_step() -> None:
    x = np.array([1, 2, -9, 4], np.float32)
    for run_kernel in (run_chain_kernel, None):
        with pytest.raises(CheckFailed) as caught:
            interpret_program(chain(), [x], {"b": np.zeros(4, np.float32)}, run_kernel)
        assert caught.value.args == (1, 1, 2, 0)


def test_unwritten_arena_is_garbage() -> None:
    program = chain(literal(4))
    program = replace(program, steps=program.steps[1:])
    zero = np.zeros(4, np.float32)
    (y,) = interpret_program(program, [zero], {"b": zero}, lambda k, a, p: _copy(a))
    assert (y != 0).all()


def _copy(arrays) -> None:
    arrays[1][...] = arrays[0]


def test_in_place_output_is_the_input() -> None:
    program = chain(literal(4))
    program = replace(
        program,
        steps=(program.steps[0], Launch("double", ("t", "y"))),
        in_place=((0, 0),),
    )
    x = np.arange(4, dtype=np.float32)
    (y,) = interpret_program(program, [x], {"b": np.ones(4, np.float32)}, run_chain_kernel)
    assert y is x
    np.testing.assert_array_equal(x, [2, 4, 6, 8])
