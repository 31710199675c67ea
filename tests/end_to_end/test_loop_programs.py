"""Loop programs that are in no suite: compiled for one thread or two they do what Python does."""

import numpy as np
import pytest

import weft
from weft.benchmarks.loop_programs.program import Arguments
from weft.benchmarks.loop_programs.run import PROGRAMS

SIZES = (0, 1, 2, 3, 7, 13)
LONG = (97,)  # of programs that a size of thousands does not make slow
MORE = {"optimal_bst": (29,)}  # rows that begin on a diagonal, in strips and beyond
MOST = {"contraction": 3, "gauss_seidel_3d": 7, "convolve_layer": 3, "dct_8x8": 1, "convolve_3d": 7}


def copies(arguments: Arguments) -> Arguments:
    return tuple(a.copy() if isinstance(a, np.ndarray) else a for a in arguments)


def sizes(name: str) -> list[int]:
    found = SIZES + (LONG if PROGRAMS[name].large >= 100_000 else ()) + MORE.get(name, ())
    return [n for n in found if n <= MOST.get(name, n)]


@pytest.mark.long
@pytest.mark.filterwarnings("error::weft.WeftWarning")
@pytest.mark.parametrize(("name", "threads"), [(n, 1 + k % 2) for k, n in enumerate(PROGRAMS)])
def test_a_program_computes_what_the_function_does(name: str, threads: int) -> None:
    program = PROGRAMS[name]
    compiled = program.kernel.compile(options=weft.Options(threads=threads))
    for n in sizes(name):
        given = program.make(n)
        wanted, got = copies(given), copies(given)
        try:
            program.kernel.python(*wanted)
        except IndexError:  # Python has no first row in an array of none
            with pytest.raises(weft.CallError):
                compiled(*got)
            continue
        compiled(*got)
        for result, value in zip(got, wanted, strict=True):
            if not isinstance(value, np.ndarray):
                continue
            if value.dtype.kind in "biu":
                np.testing.assert_array_equal(result, value, err_msg=f"{n}")
            else:
                exact = 1e-9 if value.dtype == np.float64 else 1e-4
                np.testing.assert_allclose(result, value, rtol=exact, atol=exact, err_msg=f"{n}")
