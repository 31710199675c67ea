"""Which version of a program a call has."""

import numpy as np
import pytest

import weft
from weft.ir.errors import CompileError
from weft.runtime.versions import Versions

OPTIONS = weft.Options(cache=False, threads=1)
N, M = weft.var("n"), weft.var("m")


def doubled():
    x = weft.placeholder((N, M), name="x")
    return weft.compute((N, M), lambda i, j: x[i, j] * 2.0, name="y")


@pytest.fixture(scope="module")
def program():
    return weft.compile(
        doubled(), options=OPTIONS, specialize=[{"n": 1}, {"n": 1, "m": 3}, {"m": 2}]
    )


def test_the_most_special_version_serves_a_call(program):
    versions = program.versions
    assert list(versions) == ["n = 1", "m = 3, n = 1", "m = 2"]
    chosen = Versions(program.inputs)
    for sizes, text in (({"n": 1}, "a"), ({"n": 1, "m": 3}, "b"), ({"m": 2}, "c")):
        chosen.add(sizes, text)
    wanted = {(1, 3): "b", (1, 4): "a", (5, 2): "c", (1, 2): "a", (5, 3): None, (0, 0): None}
    for shape, text in wanted.items():
        assert chosen.of([np.zeros(shape)]) == text
    assert chosen.of([3]) is None and chosen.of([np.zeros(1)]) is None and chosen.of([[1]]) is None


def test_calls_of_all_kinds(program):
    for shape in ((1, 3), (1, 4), (5, 2), (7, 7), (0, 2), (1, 0)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        out = np.empty_like(x)
        np.testing.assert_array_equal(program(x), x * 2)
        np.testing.assert_array_equal(program.run({"x": x})["y"], x * 2)
        assert program(x=x, out=out) is out
        np.testing.assert_array_equal(program.bind(x)(), x * 2)
        np.testing.assert_array_equal(program.with_threads(1)(x), x * 2)
    with pytest.raises(weft.CallError):
        program(np.zeros((1, 3)))


def test_what_is_saved_is_the_general_program(program, tmp_path):
    program.save(tmp_path / "p.weft")
    loaded = weft.load(tmp_path / "p.weft")
    x = np.ones((1, 3), np.float32)
    np.testing.assert_array_equal(loaded(x), x * 2)
    assert loaded.versions == {}


def test_a_size_that_no_dimension_is():
    x = weft.placeholder((2 * N,), name="x")
    with pytest.raises(CompileError, match="WEFT-E0033"):
        weft.compile(
            weft.compute((2 * N,), lambda i: x[i], name="y"), options=OPTIONS, specialize=[{"n": 1}]
        )
