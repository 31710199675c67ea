"""Lowered programs compute what the tensor interpreter says, in the promised form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.polyhedral.drawn_programs import programs
from weft.ir import build as w
from weft.ir import dtypes
from weft.ir.errors import ExecutionError, ExpressionError
from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Load, Select, Var, apply, select, walk
from weft.ir.scop_interpreter import interpret as run_scop
from weft.ir.scop_verifier import verify as verify_scop
from weft.ir.tensor_expr import Axis, Monoid, Program, Tensor
from weft.ir.tensor_interpreter import interpret
from weft.ir.tensor_verifier import verify
from weft.polyhedral.from_tensor_expr import lower

F = dtypes.float32


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def f32(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


def check(outputs, inputs, arrays, **kw):
    """Both interpreters agree; gives the Scop."""
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    program = Program("test", tuple(inputs), outputs)
    verify(program)
    expected = interpret(program, arrays, **kw)
    scop = lower(program, "test")
    verify_scop(scop)
    names = [t.name for t in scop.tensors if t.role == "input"]
    assert [t.role for t in scop.tensors[: len(inputs) + len(outputs)]] == ["input"] * len(
        inputs
    ) + ["output"] * len(outputs)
    results = run_scop(scop, dict(zip(names, arrays, strict=True)), **kw)
    for name, value in zip(results, expected, strict=True):
        assert results[name].dtype == value.dtype
        np.testing.assert_allclose(
            results[name].astype(np.float64) if value.dtype != bool else results[name],
            value.astype(np.float64) if value.dtype != bool else value,
            rtol=1e-4, atol=1e-5, err_msg=name,
        )  # fmt: skip
    for s in scop.statements:
        for access in (*s.reads, *s.writes):
            assert all(to_affine(i) is not None for i in access.indices)
        assert all(to_affine(c.expr) is not None for c in s.domain)
    return scop


def names(scop):
    return [s.name for s in scop.statements]


@pytest.mark.parametrize("size", [0, 1, 3])
def test_matmul_is_an_initialisation_and_an_update_of_the_output(size, rng):
    m, n, k = w.var("m"), w.var("n"), w.var("k")
    a, b = w.placeholder((m, k), name="a"), w.placeholder((k, n), name="b")
    r = w.reduce_axis((0, k), name="r")
    c = w.compute((m, n), lambda i, j: w.sum(a[i, r] * b[r, j], r), name="c")
    scop = check(c, (a, b), (f32(rng, 3, size), f32(rng, size, 2)))
    assert names(scop) == ["c_add_init", "c_add"]
    assert scop.statements[1].dims == ("i", "j", "r") and scop.statements[1].update.dims == ("r",)
    assert scop.parameters == ("m", "k", "n") and not any(t.role == "temp" for t in scop.tensors)
    assert scop.statements[1].position == (1, "i", 0, "j", 0, "r", 0)
    assert scop.statements[1].origin.source == "c"


def padded_conv(rng, size=4):
    x, f = f32(rng, 2, size, size), f32(rng, 3, 2, 3, 3)
    a, b = w.placeholder(x.shape, name="a"), w.placeholder(f.shape, name="b")
    c = w.reduce_axis((0, 2), name="c")
    r, s = w.reduce_axis((0, 3), name="r"), w.reduce_axis((0, 3), name="s")

    def body(k, i, j):
        y, z = i + r - 1, j + s - 1
        inside = (y >= 0) & (y < size) & (z >= 0) & (z < size)
        return w.sum(select(inside, a[c, y, z], 0.0) * b[k, c, r, s], (c, r, s))

    return w.compute((3, size, size), body, name="conv"), (a, b), (x, f)


def test_padding_becomes_a_guard(rng):
    scop = check(*padded_conv(rng))
    update = scop.statements[1]
    image = next(a for a in update.reads if a.tensor == "a")
    kernel = next(a for a in update.reads if a.tensor == "b")
    assert len(image.guard) == 4 and not image.may and not kernel.guard
    assert any(isinstance(n, Select) for n in walk(update.body.results[0]))


def test_guards_that_are_not_needed_are_left_out(rng):
    a = w.placeholder((4, 4), name="a")
    t = w.compute((4, 4), lambda i, j: select(j <= i, a[i, j], -1.0), name="t")
    scop = check(t, (a,), (f32(rng, 4, 4),))
    assert scop.statements[0].reads[0].guard == ()


def test_softmax_in_one_expression_folds_once_per_row(rng):
    a = w.placeholder((3, 5), name="a")
    k, h = w.reduce_axis((0, 5), name="k"), w.reduce_axis((0, 5), name="h")
    soft = w.compute(
        (3, 5),
        lambda i, j: (
            w.exp(a[i, j] - w.max_over(a[i, h], h))
            / w.sum(w.exp(a[i, k] - w.max_over(a[i, h], h)), k)
        ),
        name="soft",
    )
    scop = check(soft, (a,), (f32(rng, 3, 5),))
    assert names(scop) == ["soft_max_init", "soft_max", "soft_add_init", "soft_add", "soft"]
    assert [s.dims for s in scop.statements] == [
        ("i",), ("i", "h"), ("i",), ("i", "k"), ("i", "j")
    ]  # fmt: skip


def test_tuple_folds_write_several_tensors(rng):
    a = w.placeholder((3, 4), name="a")
    k = w.reduce_axis((0, 4), name="k")
    best = w.compute((3,), lambda i: w.argmax(a[i, k], k, k), name="best")
    scop = check(best, (a,), (np.float32([[1, 3, 3, 0], [np.nan, 1, np.nan, 2], [0, 0, 0, 0]]),))
    assert [len(s.writes) for s in scop.statements] == [2, 2]
    assert scop.statements[1].writes[1].tensor == "best"
    both = w.computes(
        (3,),
        lambda i: w.reduce(
            Monoid("pair", *_sides(), (_sides()[0][0] + _sides()[1][0],
                   apply("max", _sides()[0][1], _sides()[1][1])), (0.0, float("-inf"))),
            (a[i, k], a[i, k]), k,
        ),
        name="both",
    )  # fmt: skip
    assert names(check(both, (a,), (f32(rng, 3, 4),))) == ["both_pair_init", "both_pair"]


def _sides():
    return tuple(tuple(Var(f"{s}{n}", F) for n in range(2)) for s in "lr")


def test_triangles_and_conditions_become_domains(rng):
    a = w.placeholder((5,), name="a")
    i = Axis("i", dtypes.int64, w.as_size(0), w.as_size(5))
    k = w.reduce_axis((0, i + 1), name="k")
    r = w.reduce_axis((0, 5), name="r")
    x = f32(rng, 5)
    scop = check(w.compute((5,), lambda i: w.sum(a[k], k), name="t"), (a,), (x,))
    assert not any(isinstance(n, Select) for n in walk(scop.statements[1].body.results[0]))
    after = w.compute((5,), lambda i: w.sum(a[r - i], r, where=r >= i), name="t")
    scop = check(after, (a,), (x,))
    assert not scop.statements[1].reads[0].guard
    some = w.compute((5,), lambda i: w.sum(a[r], r, where=a[r] > a[i]), name="t")
    check(some, (a,), (x,))
    window = w.reduce_axis(
        (apply("max", i - 1, w.as_size(0)), apply("min", i + 2, w.as_size(5))), name="k"
    )
    check(w.compute((5,), lambda i: w.sum(a[window], window), name="t"), (a,), (x,))
    h = w.reduce_axis((k, 5), name="h")
    check(w.compute((5,), lambda i: w.sum(a[k] * w.max_over(a[h], h), k), name="t"), (a,), (x,))


def test_bounds_that_are_not_affine_are_refused():
    a = w.placeholder((5,), name="a")
    i = Axis("i", dtypes.int64, w.as_size(0), w.as_size(5))
    k = w.reduce_axis((0, i * i), name="k")
    t = w.compute((5,), lambda i: w.sum(a[k % 5], k), name="t")
    with pytest.raises(ExpressionError, match="E0141"):
        lower(Program("p", (a,), (t,)), "p")


def test_folds_below_a_guard_do_not_leave_their_tensor(rng):
    a, b = w.placeholder((5,), name="a"), w.placeholder((3,), name="b")
    k = w.reduce_axis((0, 2), name="k")
    x, y = f32(rng, 5), f32(rng, 3)
    affine = w.compute((5,), lambda i: select(i < 2, w.sum(b[i + k], k), a[i]) * 2.0, name="t")
    check(affine, (a, b), (x, y))
    data = w.compute(
        (5,), lambda i: select((a[i] > 0.0) & (i < 2), w.sum(b[i + k], k), 7.0), name="t"
    )
    check(data, (a, b), (x, y))
    sign = np.float32([1, 1, -1, -1, -1])
    by_value = w.compute((5,), lambda i: select(a[i] > 0.0, w.sum(b[i + k], k), 7.0), name="t")
    scop = check(by_value, (a, b), (sign, y))
    assert any(access.may for s in scop.statements for access in s.reads)


def test_conditions_that_are_not_affine_make_checked_accesses(rng):
    a, b = w.placeholder((4,), name="a"), w.placeholder((3,), name="b")
    t = w.compute((4,), lambda i: select(a[i] > 0.0, b[i], 0.0), name="t")
    scop = check(t, (a, b), (np.float32([1, 1, 1, -1]), f32(rng, 3)))
    assert [r.may for r in scop.statements[0].reads] == [False, True]
    with pytest.raises(ExecutionError, match="index 3 in dimension 0 of b"):
        run_scop(scop, {"a": np.ones(4, np.float32), "b": f32(rng, 3)})
    either = w.compute((6,), lambda i: select((i < 1) | (i >= 4), 0.0, b[i - 1]), name="t")
    assert not check(either, (b,), (f32(rng, 3),)).statements[0].reads[0].may


def test_gathers_are_may_accesses_through_earlier_reads(rng):
    a, ix = w.placeholder((4, 3), name="a"), w.placeholder((2,), "int64", name="ix")
    g = w.compute((2, 3), lambda i, j: a[ix[i], j], name="g")
    scop = check(g, (a, ix), (f32(rng, 4, 3), np.array([3, 0])))
    index, element = scop.statements[0].reads
    assert not index.may and element.may
    assert element.body_indices == (Load(0, (), dtypes.int64), Var("j"))


def test_minima_and_maxima_in_indices_split_the_access(rng):
    a = w.placeholder((4,), name="a")
    edge = w.compute((8,), lambda i: a[w.maximum(w.minimum(i - 2, 3), 0)], name="edge")
    scop = check(edge, (a,), (f32(rng, 4),))
    assert len(scop.statements[0].reads) == 3 and not any(r.may for r in scop.statements[0].reads)
    mirror = w.compute((7,), lambda i: a[abs(i - 3)], name="mirror")
    assert len(check(mirror, (a,), (f32(rng, 4),)).statements[0].reads) == 2
    n = w.var("n")
    b = w.placeholder((n,), name="b")
    clamp = w.compute((n + 2,), lambda i: b[w.minimum(w.maximum(i - 1, 0), n - 1)], name="clamp")
    assert not any(r.may for r in check(clamp, (b,), (f32(rng, 3),)).statements[0].reads)


def test_concatenation_reads_each_part_where_it_is(rng):
    parts = [w.placeholder((n, 2), name=f"p{n}") for n in (2, 0, 3)]
    cat = w.compute(
        (5, 2),
        lambda i, j: select(
            i < 2, parts[0][i, j], select(i < 2, parts[1][i - 2, j], parts[2][i - 2, j])
        ),
        name="cat",
    )  # fmt: skip
    check(cat, parts, (f32(rng, 2, 2), f32(rng, 0, 2), f32(rng, 3, 2)))


def recurrence(rng, rows=4, width=3):
    x, u = f32(rng, rows, width), f32(rng, width, width)
    a, b = w.placeholder(x.shape, name="a"), w.placeholder(u.shape, name="b")
    k, q = w.reduce_axis((0, width), name="k"), w.reduce_axis((0, width), name="q")

    def body(itself, t, j):
        before = w.sum(select(t > 0, itself(0, t - 1, k), 0.0) * b[k, j], k)
        return (apply("tanh", w.sum(a[t, q] * b[q, j], q) + before),)

    return w.scan(x.shape, body, dtypes_=(F,), name="h")[0], (a, b), (x, u)


def test_scans_share_their_loops_and_folds_that_need_not_be_inside_are_not(rng):
    scop = check(*recurrence(rng))
    assert names(scop) == ["h_add_init", "h_add", "h_add_init_2", "h_add_2", "h"]
    assert [s.position[:3] for s in scop.statements[2:]] == [
        (2, "t", 0), (2, "t", 1), (2, "t", 2)
    ]  # fmt: skip
    assert scop.statements[0].position == (0, "t", 0, "j", 0)


def test_scans_of_several_results_over_two_axes(rng):
    a = w.placeholder((3, 4), name="a")

    def body(itself, t, u):
        up = select(t > 0, itself(0, t - 1, u), 0.0)
        left = select(u > 0, itself(1, t, u - 1), 1.0)
        return up + a[t, u], left * 0.5 + up

    pair = w.scan((3, 4), body, dtypes_=(F, F), along=2, name="s")
    check(pair, (a,), (f32(rng, 3, 4),))
    check(pair[1], (a,), (f32(rng, 3, 4),))
    k = w.reduce_axis((0, 4), name="k")
    (direct,) = w.scan(
        (3,),
        lambda itself, t: (w.sum(a[t, k] + select(t > 0, itself(0, t - 1), 0.0), k),),
        dtypes_=(F,), name="d",
    )  # fmt: skip
    assert len(check(direct, (a,), (f32(rng, 3, 4),)).statements) == 2


@pytest.mark.parametrize("combine", [None, "add", "max"])
def test_scatters(combine, rng):
    a, ix, v = (
        w.placeholder((5, 2), name="a"), w.placeholder((5,), "int64", name="ix"),
        w.placeholder((5,), name="v"),
    )  # fmt: skip
    x, at, y = f32(rng, 5, 2), np.array([3, 1, 3, 3, -1]), f32(rng, 5)

    def put(**kw):
        return w.scatter(
            a, (5, 2), lambda i, j: ((ix[i], 1 - j), v[i]), combine=combine, name="out", **kw
        )

    check(put(), (a, ix, v), (x, np.abs(at), y))
    check(put(condition=lambda i, j: i < 4), (a, ix, v), (x, at, y))
    check(put(condition=lambda i, j: ix[i] >= 0), (a, ix, v), (x, at, y))
    check(put(condition=lambda i, j: (ix[i] >= 0) & (j > 0)), (a, ix, v), (x, at, y))
    affine = w.scatter(a, (4,), lambda i: ((i + 1, 0), v[i]), combine=combine, name="out")
    assert not check(affine, (a, ix, v), (x, at, y)).statements[1].writes[0].may
    with pytest.raises(ExecutionError, match="E0140"):
        check(put(), (a, ix, v), (x, at, y))


def test_conditional_scatter_into_nothing():
    a, v = w.placeholder((0,), name="a"), w.placeholder((3,), name="v")
    out = w.scatter(
        a, (3,), lambda i: ((v[i].astype("int64"),), v[i]), condition=lambda i: v[i] > 5.0, name="o"
    )
    check(out, (a, v), (np.zeros(0, np.float32), np.zeros(3, np.float32)))


def test_reshapes_are_composed_or_copied(rng):
    n, m = w.var("n"), w.var("m")
    a = w.placeholder((n, 6), name="a")
    split = w.reshape(a, (n, 2, 3), name="split")
    twice = w.compute((n, 3, 2), lambda i, j, k: split[i, k, j] * 2.0, name="twice")
    merged = w.reshape(twice, (n * 6,), name="merged")
    flat = w.compute((n * 6,), lambda i: merged[i] + 1.0, name="flat")
    scop = check((flat, split), (a,), (f32(rng, 2, 6),))
    assert names(scop) == ["twice", "flat", "split_copy"]
    b = w.placeholder((n, m), name="b")
    c = w.compute((n, m), lambda i, j: b[i, j] * 2.0, name="c")
    line = w.reshape(c, (n * m,), name="line")
    plus = w.compute((n * m,), lambda i: line[i] + 1.0, name="plus")
    scop = check(plus, (b,), (f32(rng, 2, 3),))
    assert scop.derived == (("{m * n}", m * n),) and scop.parameters == ("n", "m", "{m * n}")
    assert names(scop) == ["c", "line_copy", "plus"]
    chain = a
    for k, shape in enumerate([(n * 2, 3), (n, 6), (n, 3, 2), (n * 3, 2), (n * 6,)]):
        chain = w.reshape(chain, shape, name=f"r{k}")
    assert len(check(chain, (a,), (f32(rng, 2, 6),)).statements) == 1


def test_outputs_that_nothing_writes_are_copies(rng):
    a = w.placeholder((3,), name="a")
    t = w.compute((3,), lambda i: a[i] * 2.0, name="a")
    scop = check((a, t, t), (a,), (f32(rng, 3),))
    assert [x.name for x in scop.tensors] == ["a", "a_2", "a_3", "a_4"]


def test_results_that_nobody_reads_are_not_computed(rng):
    a = w.placeholder((3,), name="a")
    u, v = w.computes((3,), lambda i: (a[i] + 1.0, a[i] * 2.0), name="uv")
    assert len(check(v, (a,), (f32(rng, 3),)).statements[0].writes) == 1
    assert len(check((u, v), (a,), (f32(rng, 3),)).statements[0].writes) == 2


def test_names_are_identifiers_and_unique(rng):
    weird = ["float", "a b", 'x"; #include', "1st", "é" * 300, ""]
    inputs = tuple(w.placeholder((2,), name=n) for n in weird)
    outputs = tuple(
        w.compute((2,), lambda i, t=t: t[i], name=t.name)
        if False
        else w.compute((2,), lambda *i: t[i[0]], name=t.name)  # noqa: B023
        for t in inputs
    )
    scop = check(outputs, inputs, tuple(f32(rng, 2) for _ in inputs))
    every = [t.name for t in scop.tensors]
    assert len(set(every)) == len(every) and all(n.isidentifier() and n.isascii() for n in every)
    assert len(set(names(scop))) == len(scop.statements) and "float" not in every


def test_equal_sizes_written_differently_and_odd_sizes(rng):
    n = w.var("n")
    a = w.placeholder((n,), name="a")
    half = (n + 1) // 2
    t = w.compute((half,), lambda i: a[i * 2], name="t")
    check(t, (a,), (f32(rng, 5),))
    sq = w.compute((n, n), lambda i, j: a[i] * a[j], name="sq")
    k = w.reduce_axis((0, n * n), name="k")
    flat = w.reshape(sq, (n * n,), name="flat")
    total = w.compute((), lambda: w.sum(flat[k], k), name="total")
    check(total, (a,), (f32(rng, 3),))
    top = w.compute((w.maximum(n - 3, 0),), lambda i: a[i + 3], name="top")
    for size in (1, 3, 5):
        check(top, (a,), (f32(rng, size),))


def test_a_thousand_operations_and_a_deep_expression(rng):
    t = a = w.placeholder((2,), name="a")
    for k in range(1000):
        before = t
        t = w.compute((2,), lambda i: before[i] + 1.0, name=f"t{k}")  # noqa: B023
    assert len(lower(Program("p", (a,), (t,)), "p").statements) == 1000
    i = Axis("i", dtypes.int64, w.as_size(0), w.as_size(2))
    deep = a[i]
    for k in range(1500):
        deep = select(i.equal(k), a[i] * 2.0, deep) + 1.0
    u = w.compute((2,), lambda i: deep, name="u")
    assert len(lower(Program("p", (a,), (u,)), "p").statements[0].reads) == 1


@pytest.mark.parametrize("least", [0.0, 5.5, 10.0])
def test_folds_under_conditions_on_folds_over_the_same_axis(least: float) -> None:
    """Their indices are not known to be in range, so that they stay under their conditions."""
    x, y = (w.placeholder((3,), name=name) for name in "xy")
    k, q = w.reduce_axis((0, 3), name="k"), w.reduce_axis((0, 3), name="q")
    at = apply("min", apply("max", k, w.as_size(0)), w.as_size(2))
    of_x, of_y = w.sum(x[at], axis=k), w.sum(y[at], axis=k)
    both = w.sum(select(of_x > least + 1.0, of_y * x[q], y[q]), axis=q)
    flat = w.compute((), lambda: select(of_x > least, of_y, -1.0), name="flat")
    deep = w.compute((), lambda: select(of_x > least, both, -1.0), name="deep")
    arrays = (np.array([1, 2, 3], np.float32), np.array([10, 20, 30], np.float32))
    for one in (flat, deep):
        check(one, (x, y), arrays)


@settings(max_examples=150)
@given(programs(), st.integers(0, 9))
def test_random_programs(drawn, seed):
    program, sizes = drawn
    rng = np.random.default_rng(seed)
    arrays = (f32(rng, *sizes), f32(rng, sizes[1]))
    outputs = tuple(t for t in program.outputs if isinstance(t, Tensor))
    check(outputs, program.inputs, arrays)


def test_folds_over_one_axis_where_one_chooses_another():
    """The first stands in the condition of the last one, which may not run out of range without."""
    x = w.placeholder((7,), name="x")
    k = w.reduce_axis((0, 5), name="k")

    def fold(asked):
        inside = apply("min", apply("max", k, w.as_size(0)), w.as_size(6))
        return w.sum(x[inside] - 0.5, k, where=k > 1 if asked else None)

    chosen = select(fold(False) > 0.0, fold(False) * 2.0, fold(True))
    y = w.compute((), lambda: chosen, name="y")
    for sign in (-1.0, 1.0):
        check(y, (x,), [np.linspace(0.6, 2.0, 7, dtype=np.float32) * sign])
