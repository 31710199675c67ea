"""``weft.compile``, ``weft.lower`` and the face of the package, against NumPy."""

import ast
import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.ir.scalar_expr import Expr

RNG = np.random.default_rng(0)
SIZES = (0, 1, 2, 3, 7, 16, 17, 33, 65)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def matmul():
    """The example of README: symbolic sizes, compiled once."""
    m, n, h = weft.var("m"), weft.var("n"), weft.var("h")
    a = weft.placeholder((m, h), name="A")
    b = weft.placeholder((n, h), name="B")
    k = weft.reduce_axis((0, h), name="k")
    c = weft.compute((m, n), lambda i, j: weft.sum(a[i, k] * b[j, k], axis=k), name="C")
    return weft.compile([c])


@pytest.mark.parametrize(
    ("m", "n", "h"),
    [*itertools.product((0, 1, 2), repeat=3), (7, 5, 3), (33, 65, 17), (64, 64, 64), (1, 257, 31)],
)
def test_symbolic_sizes_run_at_many_sizes(matmul, m, n, h):
    a, b = floats(m, h), floats(n, h)
    found = matmul(a, b)
    assert found.shape == (m, n) and found.dtype == np.float32
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    bound = 1e-6 * (h + 1) * np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64).T
    assert (np.abs(found - exact) <= bound + 1e-30).all()


def test_arguments_come_in_the_order_of_creation_or_by_name():
    """Whatever the order in which the expression mentions the placeholders."""
    first, second = (weft.placeholder((3,), name=name) for name in ("z", "a"))
    difference = weft.compute((3,), lambda i: second[i] - first[i], name="d")
    program = weft.compile(difference)
    x, y = floats(3), floats(3)
    assert [spec.name for spec in program.inputs] == ["z", "a"]
    for found in (
        program(x, y),
        program(a=y, z=x),
        program(x, a=y),
        program.run({"a": y, "z": x})["d"],
    ):
        assert np.array_equal(found, y - x)


def test_one_output_is_an_array_and_several_are_a_tuple():
    x = weft.placeholder((4,), name="x")
    double = weft.compute((4,), lambda i: x[i] * 2.0, name="double")
    square = weft.compute((4,), lambda i: double[i] * double[i], name="square")
    data = floats(4)
    assert np.array_equal(weft.compile(double)(data), data * 2)
    found = weft.compile((square, double))(data)
    assert isinstance(found, tuple)
    assert np.array_equal(found[0], (data * 2) ** 2) and np.array_equal(found[1], data * 2)


def test_a_program_keeps_inputs_that_nothing_reads():
    x, unused = weft.placeholder((2,), name="x"), weft.placeholder((5,), name="unused")
    negative = weft.compute((2,), lambda i: -x[i], name="negative")
    program = weft.compile(weft.Program("named", (x, unused), (negative,)))
    data = floats(2)
    assert program.name == "named"
    assert np.array_equal(program(data, floats(5)), -data)


def test_a_placeholder_may_be_an_output():
    x = weft.placeholder((3,), name="x")
    negative = weft.compute((3,), lambda i: -x[i], name="negative")
    data = floats(3)
    same, found = weft.compile([x, negative])(data)
    assert np.array_equal(same, data) and np.array_equal(found, -data)
    assert not np.shares_memory(same, data)


def test_declared_in_place_arguments_are_overwritten():
    n = weft.var("n")
    total, x = weft.placeholder((n,), name="total"), weft.placeholder((n,), name="x")
    new = weft.compute((n,), lambda i: total[i] + x[i], name="new")
    step = weft.compile(new, in_place={"new": "total"})
    state = floats(5)
    expected = state.copy()
    for _ in range(3):
        data = floats(5)
        expected += data
        assert step(state, data) is state
        assert np.array_equal(state, expected)


def test_a_program_may_share_its_own_storage():
    x = weft.placeholder((4,), name="x")
    shifted = weft.compute((4,), lambda i: x[(i + 1) % 4], name="shifted")
    program = weft.compile(weft.Program("roll", (x,), (shifted,), in_place=((0, 0),)))
    data = np.arange(4, dtype=np.float32)
    program(data)
    assert data.tolist() == [1, 2, 3, 0]


def test_reductions_over_nothing_give_the_identity():
    n = weft.var("n")
    x = weft.placeholder((n,), name="x")
    k = weft.reduce_axis((0, n), name="k")
    folds = [fold(x[k], axis=k) for fold in (weft.sum, weft.prod, weft.max_over, weft.min_over)]
    results = weft.computes((), lambda: tuple(folds), name="folds")
    assert [float(r) for r in weft.compile(results)(floats(0))] == [0, 1, -np.inf, np.inf]


def test_scan_scatter_and_gather():
    n = weft.var("n")
    x, where = weft.placeholder((n,), name="x"), weft.placeholder((n,), "int64", name="where")
    (cumulated,) = weft.scan(
        (n,),
        lambda itself, i: (weft.select(i.equal(0), x[0], itself(0, i - 1) + x[i]),),
        dtypes_=(weft.float32,),
        name="cumulated",
    )
    added = weft.scatter(x, (n,), lambda i: ((where[i],), x[i]), combine="add", name="added")
    taken = weft.compute((n,), lambda i: x[where[i]], name="taken")
    program = weft.compile([cumulated, added, taken])
    for size in (1, 2, 7, 33):
        data, places = floats(size), RNG.integers(0, size, size)
        expected = data.astype(np.float64)
        np.add.at(expected, places, data)
        found = program(data, places)
        np.testing.assert_allclose(found[0], np.cumsum(data.astype(np.float64)), atol=1e-5)
        np.testing.assert_allclose(found[1], expected, atol=1e-5)
        assert np.array_equal(found[2], data[places])


def test_programs_come_from_the_cache(tmp_path):
    options = weft.Options(cache_dir=str(tmp_path / "cache"), threads=1)
    made = [weft.compile(_scaled(2.0), options=options) for _ in range(2)]
    assert [bool(p.stats.get("from_cache")) for p in made] == [False, True]
    data = floats(5)
    assert np.array_equal(made[0](data), made[1](data))
    assert made[0].explain() == made[1].explain() and made[0].source("llvm") == made[1].source(
        "llvm"
    )


def _scaled(factor, name="y", dtype="float32"):
    x = weft.placeholder((5,), dtype, name="x")
    return weft.compute((5,), lambda i: x[i] * factor, name=name)


def test_other_programs_do_not_come_from_the_cache(tmp_path):
    """Constants, names, dtypes and the meaning of a monoid tell programs apart."""
    options = weft.Options(cache_dir=str(tmp_path / "cache"), threads=1)
    variants = [_scaled(2.0), _scaled(3.0), _scaled(2.0, "z"), _scaled(2.0, dtype="float64")]
    variants += [_folded(lambda a, b: a + b), _folded(lambda a, b: a + b + b)]
    made = [weft.compile(variant, options=options) for variant in variants]
    assert not any(p.stats.get("from_cache") for p in made)
    assert made[0](np.ones(5, np.float32))[0] == 2 and made[1](np.ones(5, np.float32))[0] == 3
    assert [float(p(np.ones(5, np.float32))) for p in made[4:]] == [5, 10]


def _folded(combine):
    x, k = weft.placeholder((5,), name="x"), weft.reduce_axis((0, 5), name="k")
    left, right = weft.Var("left", weft.float32), weft.Var("right", weft.float32)
    fold = weft.Monoid("fold", (left,), (right,), (combine(left, right),), (0.0,), frozenset())
    return weft.compute((), lambda: weft.reduce(fold, (x[k],), k)[0], name="folded")


def test_a_watched_compilation_happens(tmp_path):
    options = weft.Options(cache_dir=str(tmp_path / "cache"), dump=str(tmp_path / "dump"))
    for _ in range(2):
        assert not weft.compile(_scaled(2.0), options=options).stats.get("from_cache")
    assert list((tmp_path / "dump").glob("*scop*.txt"))


def test_saved_programs_run_elsewhere(matmul, tmp_path):
    matmul.save(tmp_path / "matmul.weft")
    a, b = floats(9, 4), floats(5, 4)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    script = (
        "import weft, numpy as np, sys\n"
        "c = weft.load('matmul.weft')(np.load('a.npy'), np.load('b.npy'))\n"
        "np.save('c.npy', c)\n"
        "assert 'islpy' not in sys.modules and 'onnx' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, timeout=60)
    assert np.array_equal(np.load(tmp_path / "c.npy"), matmul(a, b))


def test_lower_stops_at_every_stage():
    lowered = weft.lower(_scaled(2.0))
    assert {"fold", "scop", "schedule", "loops", "program"} <= set(lowered.stages)
    for stage in lowered.stages:
        assert lowered.as_text(stage) and str(weft.lower(_scaled(2.0), stage)) == lowered.as_text(
            stage
        )
    assert weft.compile(_scaled(2.0)).as_text("scop") == lowered.as_text("scop")


# ---- the package's face --------------------------------------------------------------------------


def test_import_loads_nothing_that_is_not_needed():
    """Not even NumPy; expressions need neither ONNX nor isl nor LLVM."""
    script = (
        "import sys, weft\n"
        "heavy = {'onnx', 'islpy', 'llvmlite', 'networkx', 'rich', 'onnxruntime', 'torch'}\n"
        "assert not heavy & set(sys.modules) and 'numpy' not in sys.modules\n"
        "x = weft.placeholder((weft.var('n'),), name='x')\n"
        "weft.compute((weft.var('n'),), lambda i: weft.exp(x[i]), name='y')\n"
        "assert not heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_the_stub_says_what_the_package_offers():
    tree = ast.parse((Path(weft.__file__).parent / "__init__.pyi").read_text())
    stub = {
        alias.name: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(stub) == weft.__all__
    for name, module in stub.items():
        assert getattr(weft, name) is getattr(sys.modules[module], name)
    assert set(weft.__all__) <= set(dir(weft))


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        weft.nothing  # noqa: B018


def test_mathematical_functions_take_and_give_expressions():
    x = weft.placeholder((3,), name="x")
    data = np.array([0.25, 0.5, 0.75], np.float32)
    names = ("exp", "log", "sqrt", "sin", "cos", "tan", "tanh", "asin", "acos", "atan", "floor")
    functions = [getattr(weft, name) for name in names]
    assert all(isinstance(function(x[0]), Expr) for function in functions)
    results = weft.computes((3,), lambda i: tuple(f(x[i]) for f in functions), name="results")
    aliases = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}
    for name, found in zip(names, weft.compile(results)(data), strict=True):
        expected = getattr(np, aliases.get(name, name))(data.astype(np.float64))
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
