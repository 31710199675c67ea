"""Schedules as values: steps, and what they are schedules of."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import weft
from tests.weft.scheduled_kernels import line, lu, matmul, often, smooth, tiled, triangle
from weft.driver.schedule_value import Schedule
from weft.ir.errors import CompileError
from weft.ir.isl_context import bounded

# ---- steps --------------------------------------------------------------------------------------


def test_each_step_is_a_new_schedule() -> None:
    start = matmul.schedule()
    now = start.reorder(["j", "i"])
    assert start.loops == ("i", "j", "k") and now.loops == ("j", "i", "k")
    assert start.steps == () and [str(s) for s in now.steps] == ['reorder(["j", "i"])']
    assert list(now.statements) == ["S0", "S1"]
    assert now.statements["S0"] == f"S0 (scheduled_kernels.py:{line('C[i, j] = 0')}: C[i, j] = 0)"


def test_what_runs() -> None:
    assert matmul.schedule().show() == (
        "for i in range(M):\n"
        "    for j in range(N):\n"
        "        C[i, j] = 0\n"
        "        for k in range(K):\n"
        "            C[i, j] += A[i, k] * B[k, j]"
    )
    assert matmul.schedule().vectorize("j", 8).show() == (
        "for i in range(M):\n"
        "    for j_t in range((N + 7) // 8):\n"
        "        for j_p in range(min(8, N - j_t * 8)):  # vector\n"
        "            C[i, j_p + j_t * 8] = 0\n"
        "            for k in range(K):\n"
        "                C[i, j_p + j_t * 8] += A[i, k] * B[k, j_p + j_t * 8]"
    )
    assert matmul.schedule().tree_text() == (
        "for i = i\n  for j = j\n    sequence\n      S0\n      for k = k\n        S1\n"
    )


@pytest.mark.parametrize("sizes", [(0, 0, 0), (1, 1, 1), (7, 5, 3), (12, 17, 9)])
def test_compiled(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, (m, k)), rng.integers(-9, 9, (k, n))
    c = np.full((m, n), 77)
    tiled().compile()(a, b, c)
    np.testing.assert_array_equal(c, a @ b)


SMOOTHED = {
    "split": lambda s: s.split("i", 3).split("i_2", 4, tile="outer", point="inner"),
    "fuse": lambda s: s.fuse("i", "i_2", shift=1).unroll("i", 4),
    "compute_at": lambda s: s.split("i_2", 8).compute_at("S0", "i_2_t").parallel("i_2_t"),
    "inline": lambda s: s.inline("S0").vectorize("i_2"),
    "shift": lambda s: s.fuse("i", "i_2", shift=1).shift("S1", "i", 3).split("i", 4),
    "cache_read": lambda s: s.split("i_2", 4).cache_read("B", "S1", "i_2_t").parallel("i_2_t"),
    "pack": lambda s: s.split("i_2", 4).pack("B", "S1", "i_2_t", {0: 4}).unroll("i_2_p"),
    "double_buffer": lambda s: (
        s.split("i", 4).cache_read("A", "S0", "i_t").double_buffer("A_tile").vectorize("i_p")
    ),
    "cache_write": lambda s: s.split("i_2", 4).cache_write("C", "S1", "i_2_t").reverse("i"),
    "reverse": lambda s: s.reverse("i").reverse("i_2").tile({"i": 4, "i_2": 3}),
}


@pytest.mark.long
@pytest.mark.parametrize("steps", SMOOTHED)
def test_what_is_compiled_is_right(steps: str) -> None:
    made = SMOOTHED[steps](smooth.schedule())
    assert smooth.schedule().replay(str(made)) == made
    run = made.compile()
    for n in (0, 1, 4, 5, 17, 41):
        a = np.random.default_rng(n).integers(-99, 99, n)
        expected, found = np.zeros(n, np.int64), np.zeros(n, np.int64)
        smooth.python(a, expected)
        run(a, found)
        np.testing.assert_array_equal(found, expected, err_msg=f"{n} of {made}")


@pytest.mark.parametrize("loop", ["t", "i_t", "i_p"])
def test_buffers_inside_a_loop_that_a_number_of_the_caller_bounds(loop: str) -> None:
    """The number may be negative: then there are no iterations, and no buffers."""
    s = often.schedule().split("i", 4).cache_read("A", "S0", loop).cache_write("B", "S0", loop)
    run = s.compile()
    for n, times in ((9, 3), (1, 1), (0, 2), (5, 0), (5, -7)):
        a, b = np.arange(n), np.arange(n) * 5
        expected = b.copy()
        often.python(a, expected, times)
        run(a, b, times)
        np.testing.assert_array_equal(b, expected)


COPIES = {
    "pack": (lambda s: s.pack("B", "S1", "k_t", {1: 4}, order=[1, 0], name="T"), "copy_T"),
    "pack once": (lambda s: s.pack("A", "S1", "", {0: 4}, name="T"), "copy_T"),
    "cache_read": (lambda s: s.cache_read("A", "S1", "k_t", name="T"), "copy_T"),
    "cache_write": (lambda s: s.cache_write("C", "S1", "k_t", name="T"), "store_T"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", COPIES)
def test_copies_run_as_vectors(name: str) -> None:
    """Nobody has to say so; who wants other loops says that."""
    step, copy = COPIES[name]
    start = matmul.schedule().distribute("i").tile({"j_S1": 8, "k": 8})
    made = step(start.reorder(["j_S1_t", "k_t", "i_S1"]))
    own = [x for x in made.scheduled.loops() if list(x.at) == [copy]]
    assert [x.kind for x in own] == ["serial"] * (len(own) - 1) + ["vector"]
    last = own[-1].name
    turned = [x.name for x in reversed(own)]
    others = (made, made.reorder(turned), made.split(last, 2), made.set_kinds({last: "serial"}))
    for s in others:
        run = s.compile(weft.Options(threads=1, cache=False))
        for m, k, n in ((7, 19, 17), (1, 1, 1), (0, 3, 8), (8, 0, 2)):
            a, b = np.arange(m * k).reshape(m, k), np.arange(k * n).reshape(k, n) - 5
            c = np.full((m, n), 5)
            run(a, b, c)
            np.testing.assert_array_equal(c, a @ b)


def test_ways_to_compile() -> None:
    a, b, c = np.arange(6).reshape(2, 3), np.arange(12).reshape(3, 4), np.zeros((2, 4), int)
    for compiled in (matmul.compile(tiled()), weft.compile(matmul, schedule=tiled())):
        c[:] = 5
        compiled(a, b, c)
        np.testing.assert_array_equal(c, a @ b)


def test_ten_steps_of_lu_take_little() -> None:
    """Dependences are found once; no step asks isl for much."""
    start = lu.schedule()
    start.parallel("j_2")
    with bounded(50_000):
        s = start.fuse("j", "j_2").skew("j", "i").tile({"i": 32, "j": 32})
        s = s.split("k", 8).split("k_2", 8).unroll("k_p").unroll("k_2_p")
        s = s.split("i_p", 4).split("j_p", 4).unroll("i_p_p")
    assert len(s.steps) == 10


# ---- tensor expressions -------------------------------------------------------------------------


def dense() -> weft.Tensor:
    a, b = weft.placeholder((20, 6), name="a"), weft.placeholder((6, 33), name="b")
    r = weft.reduce_axis((0, 6), name="r")
    c = weft.compute((20, 33), lambda i, j: weft.sum(a[i, r] * b[r, j], r), name="c")
    return weft.compute((20, 33), lambda i, j: weft.maximum(c[i, j], 0.0), name="d")


def test_a_tensor_expression() -> None:
    d = dense()
    s = weft.schedule(d)
    s = s.fuse("i", "i_2").fuse("j", "j_2").fuse("i", "i_3").fuse("j", "j_3")
    s = s.tile({"i": 8, "j": 16}).parallel("i_t").vectorize("j_p")
    assert s.loops == ("i_t", "j_t", "i_p", "j_p", "r")
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape, np.float32) for shape in ((20, 6), (6, 33)))
    for compiled in (s.compile(), weft.compile(d, schedule=s)):
        np.testing.assert_allclose(compiled(a, b), np.maximum(a @ b, 0), rtol=1e-5, atol=1e-6)
        assert "for i_t = i // 8    parallel" in compiled.as_text("schedule")


@pytest.mark.long
@pytest.mark.parametrize("name", ["dense", "lu"])
def test_the_automatic_schedule_is_a_script_too(name: str) -> None:
    start = weft.schedule(dense()) if name == "dense" else lu.schedule()
    automatic = start.automatic()
    assert len(automatic.steps) > 0
    assert Schedule.from_script(str(automatic), start) == automatic
    assert start.replay(str(automatic)).tree_text() == automatic.tree_text()


def test_clusters_by_name() -> None:
    """Two outputs that have nothing in common."""
    x, y = weft.placeholder((8, 40), name="x"), weft.placeholder((9, 50), name="y")
    r, q = weft.reduce_axis((0, 40), name="r"), weft.reduce_axis((0, 50), name="q")
    rows = weft.compute((8,), lambda i: weft.sum(x[i, r], r), name="rows")
    columns = weft.compute((9,), lambda i: weft.max_over(y[i, q], q), name="columns")
    found = weft.schedules([rows, columns])
    assert list(found) == ["kernel0", "kernel1"]
    assert str(found["kernel1"]) == 's = weft.schedules(program)["kernel1"]'
    with pytest.raises(CompileError, match=r"E0016.*2 clusters"):
        weft.schedule([rows, columns])
    chosen = {name: s.parallel(s.loops[0]) for name, s in found.items()}
    compiled = weft.compile([rows, columns], schedule=chosen)
    a, b = np.ones((8, 40), np.float32), np.arange(450, dtype=np.float32).reshape(9, 50)
    found_rows, found_columns = compiled(a, b)
    np.testing.assert_array_equal(found_rows, a.sum(1))
    np.testing.assert_array_equal(found_columns, b.max(1))


def test_a_model() -> None:
    """An imported model: its clusters are scheduled by name, and the schedule is used."""
    model = dense_model()
    found = weft.schedules(model)
    assert list(found) == ["kernel0"]
    s = found["kernel0"].parallel(found["kernel0"].loops[0])
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    compiled = weft.compile(model, schedule={"kernel0": s})
    np.testing.assert_array_equal(compiled(x), weft.compile(model)(x))
    assert compiled.as_text("schedule") == s.tree_text()


def test_options_say_what_is_automatic() -> None:
    """Also of a kernel that has other options: cache tiles depend on the number of threads."""
    texts = set()
    for threads in (1, 4):
        options = weft.Options(threads=threads, cache=False)
        s = weft.schedule(triangle, options=options).automatic()
        text = s.compile(options).source("llvm")
        assert text == weft.compile(triangle, options=options).source("llvm")
        texts.add(str(s))
    assert len(texts) == 2


def test_buffers_outside_of_all_loops() -> None:
    """What one top-level nest puts into a local buffer, another one reads."""
    d = dense()
    s = weft.schedule(d).cache_read("b", "c_c_add", "").pack("a", "c_c_add", "", {0: 4})
    s = s.parallel("b_tile_0").parallel("i_2")
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape, np.float32) for shape in ((20, 6), (6, 33)))
    for threads in (1, 2):
        compiled = weft.compile(d, schedule=s, options=weft.Options(threads=threads, cache=False))
        np.testing.assert_allclose(compiled(a, b), np.maximum(a @ b, 0), rtol=1e-5, atol=1e-6)


def dense_model() -> onnx.ModelProto:
    weights = numpy_helper.from_array(np.ones((4, 5), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])],
        "dense",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (3, 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (3, 5))],
        [weights],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_what_kernels_do_not_take() -> None:
    with pytest.raises(CompileError, match=r"E0017.*not for loop kernels"):
        weft.compile(lu, in_place={"A": "A"})
    with pytest.raises(CompileError, match=r"E0015.*schedule is a str"):
        lu.compile("fast")  # type: ignore[arg-type]


def test_schedules_of_something_else() -> None:
    d, s = dense(), matmul.schedule()
    with pytest.raises(CompileError, match=r"E0015.*no cluster 'matmul'"):
        weft.compile(d, schedule=s)
    with pytest.raises(CompileError, match=r"E0015.*is of another program"):
        weft.compile(d, schedule={"kernel0": s})
    with pytest.raises(CompileError, match=r"E0015.*schedule is a int"):
        weft.compile(d, schedule=4)  # type: ignore[arg-type]
    with pytest.raises(CompileError, match=r"E0015"):
        weft.compile(lu, schedule=s)
    for wrong in (lambda: s.diff(None), lambda: Schedule.from_script(str(s), None)):
        with pytest.raises(CompileError, match=r"E0015.*NoneType, not a Schedule"):
            wrong()


def test_stages() -> None:
    s = matmul.schedule().split("i", 8, tile="blocks")
    for text in (weft.lower(matmul, "schedule", schedule=s), matmul.lower(s)["schedule"]):
        assert str(text) == s.tree_text()
    d = weft.schedule(dense()).split("i", 8)
    assert str(weft.lower(dense(), "schedule", schedule=d)) == d.tree_text()
