"""Schedules as values: steps, refusals, reasons, scripts."""

# ruff: noqa: B007, F821, UP037  (sizes are names in kernels)

from __future__ import annotations

import re
import time
from inspect import signature
from random import Random

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import weft
from tests.polyhedral.transform.integer_programs import PROGRAMS, every, same
from weft.errors import CompileError, IllegalScheduleError
from weft.polyhedral.transform.initial import initial
from weft.schedule_value import TRANSFORMATIONS, Schedule, Subject


@weft.kernel
def lu(A: weft.f64["N", "N"]):
    for i in range(N):
        for j in range(i):
            for k in range(j):
                A[i, j] -= A[i, k] * A[k, j]
            A[i, j] /= A[j, j]
        for j in range(i, N):
            for k in range(i):
                A[i, j] -= A[i, k] * A[k, j]


@weft.kernel
def matmul(A: weft.i64["M", "K"], B: weft.i64["K", "N"], C: weft.i64["M", "N"]):
    for i in range(M):
        for j in range(N):
            C[i, j] = 0
            for k in range(K):
                C[i, j] += A[i, k] * B[k, j]


@weft.kernel
def sweep(A: weft.i64["N"], T: weft.i64):
    for t in range(T):
        for i in range(1, N - 1):
            A[i] = A[i - 1] + A[i] - A[i + 1]


@weft.kernel
def blur(A: weft.i64["N"], B: weft.i64["N"], C: weft.i64["N"]):
    for i in range(1, N - 1):
        B[i] = A[i - 1] + A[i] + A[i + 1]
    for i in range(1, N - 1):
        C[i] = B[i - 1] + B[i] + B[i + 1]


def line(text: str) -> int:
    """The number of the one line of this file that is ``text``, or of the first of several."""
    with open(__file__, encoding="utf-8") as file:
        return next(n for n, found in enumerate(file, 1) if found.strip() == text)


def of(program: str) -> Schedule:
    """The schedule of a program that nobody compiles."""
    return Schedule(initial(PROGRAMS[program]()), Subject(program, None, None))  # type: ignore


def tiled() -> Schedule:
    s = matmul.schedule().distribute("i")
    s = s.tile({"i_S1": 4, "j_S1": 8, "k": 3}).reorder(["k_p", "i_S1_p", "j_S1_p"])
    return s.vectorize("j_S1_p").parallel("i_S1_t")


# ---- steps --------------------------------------------------------------------------------------


def test_each_step_is_a_new_schedule() -> None:
    start = matmul.schedule()
    now = start.reorder(["j", "i"])
    assert start.loops == ("i", "j", "k") and now.loops == ("j", "i", "k")
    assert start.steps == () and [str(s) for s in now.steps] == ['reorder(["j", "i"])']
    assert list(now.statements) == ["S0", "S1"]
    assert now.statements["S0"] == f"S0 (test_schedule.py:{line('C[i, j] = 0')}: C[i, j] = 0)"


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


@weft.kernel
def smooth(A: weft.i64["N"], C: weft.i64["N"]):
    B = weft.empty(N, dtype=weft.i64)
    for i in range(1, N - 1):
        B[i] = A[i - 1] + A[i] + A[i + 1]
    for i in range(2, N - 2):
        C[i] = B[i - 1] + B[i] + B[i + 1]


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


def test_ways_to_compile() -> None:
    a, b, c = np.arange(6).reshape(2, 3), np.arange(12).reshape(3, 4), np.zeros((2, 4), int)
    for compiled in (matmul.compile(tiled()), weft.compile(matmul, schedule=tiled())):
        c[:] = 5
        compiled(a, b, c)
        np.testing.assert_array_equal(c, a @ b)


def test_ten_steps_of_lu_take_no_time() -> None:
    """Dependences are found once; each step costs milliseconds."""
    start = lu.schedule()
    start.parallel("j_2")
    began = time.perf_counter()
    s = start.fuse("j", "j_2").skew("j", "i").tile({"i": 32, "j": 32})
    s = s.split("k", 8).split("k_2", 8).unroll("k_p").unroll("k_2_p")
    s = s.split("i_p", 4).split("j_p", 4).unroll("i_p_p")
    assert len(s.steps) == 10
    assert time.perf_counter() - began < 5, "a bound that only a wrong order of growth breaks"


# ---- refusals -----------------------------------------------------------------------------------


def test_an_illegal_step() -> None:
    update = "A[i, j] -= A[i, k] * A[k, j]"
    first = line(update)
    with pytest.raises(IllegalScheduleError) as caught:
        lu.schedule().parallel("i")
    assert str(caught.value) == (
        'WEFT-E0421: parallel("i"): the schedule violates the flow dependence of S0 on S2\n'
        f"  where: S2 (test_schedule.py:{first + 4}: {update}), "
        f"S0 (test_schedule.py:{first}: {update})\n"
        "  why: S2[i=1, j_2=2, k_2=0] writes A[1, 2] before S0[i=3, j=2, k=1] reads it for N=4, "
        "but parallel loop i may run both at the same time\n"
        "  try: run the loop serially, or move the dependence to an outer loop"
    )


def test_a_copy_that_comes_too_early() -> None:
    """Of B, some elements are made between the copy and the read."""
    s = smooth.schedule().fuse("i", "i_2", shift=1).split("i", 8)
    with pytest.raises(IllegalScheduleError) as caught:
        s.cache_read("B", "S1", "i_t")
    made, read = "B[i] = A[i - 1] + A[i] + A[i + 1]", "C[i] = B[i - 1] + B[i] + B[i + 1]"
    text = str(caught.value).splitlines()
    assert text[0] == (
        'WEFT-E0440: cache_read("B", "S1", "i_t"): what S1 reads of B_tile is not what it was '
        "before the transformations"
    )
    first = line('def smooth(A: weft.i64["N"], C: weft.i64["N"]):')
    assert text[1] == (
        f"  where: S1 (test_schedule.py:{first + 5}: {read}), "
        f"S0 (test_schedule.py:{first + 3}: {made})"
    )
    assert re.fullmatch(
        r"  why: S1\[i_2=\d+\] reads B_tile\[\d+, \d+\]: it sees B\[(\d+)\], "
        r"but should see S0\[i=\1\] for N=\d+",
        text[2],
    )


def test_names_that_do_not_exist() -> None:
    with pytest.raises(IllegalScheduleError) as caught:
        lu.schedule().split("x", 4)
    assert str(caught.value) == (
        "WEFT-E0450: no loop is named 'x'\n  try: loops: i, j, k, j_2, k_2"
    )
    with pytest.raises(IllegalScheduleError) as caught:
        lu.schedule().shift("S9", "i", 1)
    assert str(caught.value) == (
        "WEFT-E0451: the schedule has no statement 'S9'\n  try: statements: S0, S1, S2"
    )


@pytest.mark.parametrize(
    ("step", "hint"),
    [
        (("split", "i_22", 4), "did you mean i_2? loops: i, i_2"),
        (("cut", "S2", ["i < 3"]), "statements: S0, S1"),
        (("expand", "Bs", ["i"]), "did you mean B? tensors: A, C, B"),
        (("contract", "x"), "tensors: A, C, B"),
        (("double_buffer", "x"), "tensors: A, C, B"),
        (("promote", "x", ["i"]), "tensors: A, C, B"),
        (("cache_read", "x", "S1", "i_2"), "tensors: A, C, B"),
        (("cache_write", "x", "S1", "i_2"), "tensors: A, C, B"),
        (("cache_read", "B", "S0", "i_2"), "statements inside: S1"),
    ],
    ids=str,
)
def test_names_that_are_like_it(step: tuple[str, *tuple[object, ...]], hint: str) -> None:
    why = smooth.schedule().why_not(*step)
    assert why is not None and why.endswith(f"  try: {hint}")


def test_loops_of_a_buffer_are_changed_later() -> None:
    """The buffer belongs to the loops together that the one it was made in has become."""
    s = smooth.schedule().split("i_2", 4).cache_read("B", "S1", "i_2_t")
    for t in (s.split("i_2_t", 2), s.reverse("i_2_t").parallel("i_2_t"), s.unroll("i_2_t", 3)):
        a, wanted, got = np.arange(30), np.zeros(30, "int64"), np.zeros(30, "int64")
        smooth.python(a, wanted)
        t.compile()(a, got)
        np.testing.assert_array_equal(got, wanted)


def test_copies_are_cut_and_partial_results_stay_when_others_become_private() -> None:
    s = smooth.schedule().split("i_2", 4).cache_read("B", "S1", "i_2_t")
    assert "copy_B_tile_edge" in s.cut("copy_B_tile", ["B_tile_0 < 2"]).statements
    s = matmul.schedule().rfactor("S1", "k")
    assert s.privatize().show() == s.show()


def test_loops_that_are_apart() -> None:
    with pytest.raises(IllegalScheduleError) as caught:
        lu.schedule().reorder(["k", "j"])
    assert str(caught.value).splitlines()[:2] == [
        "WEFT-E0450: the loops k, j are not directly inside each other",
        "  why: statements stand between them: S1",
    ]


@pytest.mark.parametrize(
    "junk", [None, 3, -1, True, 2.5, "", "S0", [], [3], {3: 3}, object(), b"i"]
)
@pytest.mark.parametrize("method", TRANSFORMATIONS)
def test_junk_is_refused(method: str, junk: object) -> None:
    """Whatever stands in an argument's place: it works, or the error is one of ours."""
    step = getattr(smooth.schedule(), method)
    parameters = [p for p in signature(step).parameters.values() if p.default is p.empty]
    for place in range(max(1, len(parameters))):
        arguments = ["i"] * place + [junk] + ["i"] * (len(parameters) - place - 1)
        try:
            step(*arguments)
        except IllegalScheduleError as error:
            assert error.code.startswith("WEFT-E04")
        except TypeError as error:
            assert "argument" in str(error), "Python's own, about how many there are"


def test_the_type_of_an_argument() -> None:
    for step, text in (
        (lambda s: s.tile([32, 32]), "tile: sizes is [32, 32]\n  try: sizes: Mapping[str, int]"),
        (lambda s: s.reorder("ji"), "reorder: order is 'ji'\n  try: order: Sequence[str]"),
        (lambda s: s.unroll("i", True), "unroll: factor is True\n  try: factor: int | None"),
        (lambda s: s.set_kinds({"i": "fast"}), "set_kinds: kinds is {'i': 'fast'}"),
    ):
        with pytest.raises(IllegalScheduleError) as caught:
            step(matmul.schedule())
        assert str(caught.value).startswith(f"WEFT-E0460: {text}")


# ---- reasons ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (("split", "i", 2**40), "up to 2**31"),
        (("set_kinds", {"i": "gpu"}), '"serial", "parallel", "vector", "unrolled"'),
    ],
    ids=str,
)
def test_what_arguments_may_be(step: tuple[str, *tuple[object, ...]], words: str) -> None:
    why = matmul.schedule().why_not(*step)
    assert why is not None and words in why


def test_names_of_buffers_and_loops_are_identifiers() -> None:
    s = matmul.schedule()
    with pytest.raises(IllegalScheduleError, match="cannot name"):
        s.cache_read("A", "S1", "i", name="a b")
    with pytest.raises(IllegalScheduleError, match="cannot name"):
        s.split("i", 4, tile="for")


def test_a_schedule_that_strict_forbids_says_so() -> None:
    @weft.kernel
    def total(A: weft.f64["N"], B: weft.f64[1]):
        for i in range(N):
            B[0] += A[i]

    with pytest.raises(IllegalScheduleError, match="strict keeps sums in order"):
        total.schedule().vectorize("i").compile(weft.Options(strict=True))


def test_nothing_speaks_against_it() -> None:
    assert matmul.schedule().why_not("parallel", "i") is None
    assert lu.schedule().why_not("tile", {"i": 32, "j": 32}) is None


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (("parallel", "i"), 'skew("i", "t"), then skew("t", "i"), then parallel("i")'),
        (("tile", {"t": 4, "i": 4}), 'skew("i", "t"), then tile({"t": 4, "i": 4})'),
        (("reorder", ["i", "t"]), 'skew("i", "t"), then reorder(["i", "t"])'),
        (("reverse", "t"), "keep the two in order, in an outer loop or a sequence"),
    ],
)
def test_a_way_out(question: tuple[str, object], answer: str) -> None:
    told = sweep.schedule().why_not(*question)
    assert told is not None and told.splitlines()[-1] == f"  try: {answer}"
    assert re.search(r"S0\[t=\d+, i=\d+\] (reads|writes) A\[\d+\] before S0\[", told)
    if "then" in answer:
        eval("s." + answer.replace(", then ", "."), {"s": sweep.schedule()})


def test_a_way_out_of_fusing() -> None:
    told = blur.schedule().why_not("fuse", "i", "i_2")
    assert told is not None and told.endswith('try: fuse("i", "i_2", shift=1)')
    told = of("stencil").why_not("fuse", "i", "i_2", name="both")
    assert told is not None and told.endswith('try: fuse("i", "i_2", shift=1, name="both")')


def test_a_way_out_of_a_parallel_loop() -> None:
    told = lu.schedule().why_not("parallel", "i")
    assert told is not None and told.endswith('try: parallel("j_2")')


@weft.kernel
def means(A: weft.f64["M", "N"], B: weft.f64["M"]):
    for i in range(M):
        total = 0.0
        for j in range(N):
            total += A[i, j]
        B[i] = total


def test_a_way_out_by_private_scalars() -> None:
    told = means.schedule().why_not("parallel", "i")
    assert told is not None and told.endswith('try: expand("total", ["i"]), then parallel("i")')
    s = means.schedule().expand("total", ["i"]).parallel("i")
    a, b = np.arange(12.0).reshape(3, 4), np.zeros(3)
    s.compile()(a, b)
    np.testing.assert_array_equal(b, a.sum(1))


def test_a_way_out_by_partial_sums() -> None:
    @weft.kernel
    def total(A: weft.i64["N"], s: weft.i64[1]):
        for i in range(N):
            s[0] += A[i]

    told = total.schedule().why_not("parallel", "i")
    assert told is not None and told.endswith('try: rfactor("S0", "i"), then parallel("i")')
    run = total.schedule().split("i", 64).rfactor("S0", "i_t").parallel("i_t").compile()
    for n in (0, 1, 64, 1000):
        found = np.array([5])
        run(np.arange(n), found)
        assert found[0] == 5 + n * (n - 1) // 2


def test_why_not_of_no_transformation() -> None:
    with pytest.raises(IllegalScheduleError, match="E0019") as caught:
        lu.schedule().why_not("compile")
    assert caught.value.hint == f"transformations: {', '.join(TRANSFORMATIONS)}"


# ---- scripts ------------------------------------------------------------------------------------


def test_a_script_rebuilds_it() -> None:
    s = tiled()
    assert str(s) == (
        "s = weft.schedule(matmul)\n"
        's = s.distribute("i")\n'
        's = s.tile({"i_S1": 4, "j_S1": 8, "k": 3})\n'
        's = s.reorder(["k_p", "i_S1_p", "j_S1_p"])\n'
        's = s.vectorize("j_S1_p")\n'
        's = s.parallel("i_S1_t")'
    )
    names: dict[str, object] = {"weft": weft, "matmul": matmul}
    exec(str(s), names)
    assert names["s"] == s and hash(names["s"]) == hash(s)
    assert Schedule.from_script(str(s), matmul) == s
    assert Schedule.from_script(f"import weft\n# by hand\n{s}\nprint(s)\n", s) == s
    assert Schedule.from_script(str(s), matmul).show() == s.show()


def test_one_call_has_one_text() -> None:
    s = matmul.schedule()
    texts = [
        str(x.steps[0])
        for x in (s.unroll("k", 4), s.unroll("k", factor=4), s.unroll(loop="k", factor=4))
    ]
    assert set(texts) == {'unroll("k", 4)'}
    assert str(s.split("i", 4, tile="a", point=None).steps[0]) == 'split("i", 4, tile="a")'
    assert s.split("i", 4) == s.split(loop="i", size=4) != s.split("i", 5)


def test_diff() -> None:
    s = matmul.schedule().split("i", 4)
    assert s.diff(s) == ""
    assert s.vectorize("j").diff(s.parallel("i_t")).splitlines()[2:] == [
        "@@ -1,3 +1,3 @@",
        " s = weft.schedule(matmul)",
        ' s = s.split("i", 4)',
        '-s = s.vectorize("j")',
        '+s = s.parallel("i_t")',
    ]


@pytest.mark.parametrize(
    ("script", "why", "where"),
    [
        ("s = x\ns = s.explode(3)", "there is no transformation 'explode'", "line 2"),
        ("s = x\ns = s.split(loop)", "its arguments are no literals", "line 2"),
        ("s = x\ns.split('i', 4)", "expected s = s.step(…)", "line 2"),
        ("s = x\nfor i in range(3): pass", "expected s = s.step(…)", "line 2"),
        ("s = x\nt = s.split('i', 4)", "expected s = s.step(…)", "line 2"),
        ("s = x\ns = s.split(", "it is no Python", "line 2"),
        ("s = \0", "it is no Python", ""),
    ],
)
def test_what_is_no_script(script: str, why: str, where: str) -> None:
    with pytest.raises(IllegalScheduleError, match="E0018") as caught:
        Schedule.from_script(script, matmul)
    assert caught.value.why == why and caught.value.where.startswith(where)


def test_scripts_run_nothing() -> None:
    with pytest.raises(IllegalScheduleError, match="E0018"):
        Schedule.from_script("s = x\ns = s.split(__import__('os').getcwd(), 4)", matmul)


def wander(start: Schedule, seed: int) -> tuple[Schedule, int]:
    """``start`` after random steps, illegal ones refused, and how many of these there were."""
    r, s, refused = Random(seed), start, 0
    for _ in range(14):
        loop, other, statement = r.choice(s.loops), r.choice(s.loops), r.choice(list(s.statements))
        method, arguments = r.choice([
            ("split", (loop, r.choice((2, 3, 8)))), ("tile", ({loop: 4, other: 3},)),
            ("reorder", ([loop, other],)), ("fuse", (loop, other)), ("distribute", (loop,)),
            ("skew", (loop, other, r.choice((1, -1, 2)))), ("shift", (statement, loop, 1)),
            ("reverse", (loop,)), ("parallel", (loop,)), ("vectorize", (loop, 4)),
            ("unroll", (loop, 2)), ("unroll_and_jam", (loop, 2)), ("sink", ([loop],)),
            ("cut", (statement, [f"{r.choice(s.scheduled.scop.statement(statement).dims)} < 3"])),
        ])  # fmt: skip
        try:
            s = getattr(s, method)(*arguments)
        except IllegalScheduleError:
            refused += 1
    return s, refused


@pytest.mark.parametrize("program", PROGRAMS)
def test_random_schedules(program: str) -> None:
    """Each computes the same, shows itself, and is rebuilt by its script and by its tree's text."""
    steps = refusals = 0
    for seed in range(6):
        s, refused = wander(of(program), seed)
        steps, refusals = steps + len(s.steps), refusals + refused
        same(s.scheduled, *every(s.scheduled.original, (0, 1, 6)))
        assert Schedule.from_script(str(s), of(program)).tree_text() == s.tree_text()
        assert s.arrange(s.tree_text()).tree_text() == s.tree_text()
        assert "for " in s.show()
    assert steps > 15 and refusals > 5


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
