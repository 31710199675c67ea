"""The C that is printed, compiled on this machine, does what the interpreter does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.c_runner import COMPILER, SKIPPED, compiled, run_c
from tests.codegen.random_kernels import Generator
from weft.codegen.c_expressions import c_name
from weft.codegen.c_printer import fix_parameters, print_c
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.dtypes import DType
from weft.ir.errors import UnsupportedError
from weft.ir.loop_interpreter import interpret
from weft.ir.loop_ir import (
    Allocate,
    Barrier,
    Block,
    Buffer,
    Check,
    Comment,
    For,
    If,
    Kernel,
    Let,
    Prefetch,
    Single,
    Stmt,
    Store,
    Update,
    While,
)
from weft.ir.scalar_expr import (
    Expr,
    Load,
    Var,
    apply,
    bitcast,
    cast,
    literal,
    select,
)
from weft.ir.scalar_ops import OPS
from weft.ir.tensor_expr import Monoid

needs_compiler = pytest.mark.skipif(COMPILER is None, reason=SKIPPED)
f64, i64 = dtypes.float64, dtypes.int64
i, j, k, n, m = (Var(name) for name in "ijknm")


def array(name: str, *shape: Expr | int, dtype: DType = f64, writable: bool = True) -> Buffer:
    """A row-major buffer."""
    sizes = tuple(s if isinstance(s, Expr) else literal(s) for s in shape)
    strides: list[Expr] = []
    step: Expr = literal(1)
    for size in reversed(sizes):
        strides.insert(0, step)
        step = step * size
    return Buffer(name, dtype, sizes, tuple(strides), writable=writable)


def loops(body: Stmt, *ranges: tuple[Var, Expr | int], kind: str = "serial") -> Stmt:
    for var, upper in reversed(ranges):
        limit = upper if isinstance(upper, Expr) else literal(upper)
        body = For(var.name, literal(0), limit, kind, body)  # type: ignore[arg-type]
    return body


def total(name: str, at: tuple[Expr, ...], value: Expr) -> Update:
    """``name[at] += value``."""
    return Update(((name, at),), monoid("add", f64), (value,))


# ---- what it looks like -------------------------------------------------------------------------


def test_a_matrix_product_as_one_would_write_it() -> None:
    a, b = array("A", n, m, writable=False), array("B", m, n, writable=False)
    alpha, c = Buffer("alpha", f64, (), (), writable=False), array("C", n, n)
    product = Load("alpha", (), f64) * Load("A", (i, k), f64) * Load("B", (k, j), f64)
    body = loops(total("C", (i, j), product), (i, n), (k, m), (j, n))
    kernel = Kernel("mm", ("n", "m"), (alpha, c, replace(a, alignment=8), b), body)
    assert print_c(fix_parameters(kernel, {"n": 10, "m": 20})) == (
        "#include <stdint.h>\n"
        "\n"
        "#ifndef __GNUC__\n"
        "#define __builtin_assume_aligned(pointer, bytes) (pointer)\n"
        "#define __builtin_prefetch(pointer, write) ((void)0)\n"
        "#endif\n"
        "\n"
        "void kernel_mm(\n"
        "    double alpha,\n"
        "    double C[restrict 10][10],\n"
        "    const double A[restrict 10][20],\n"
        "    const double B[restrict 20][10]) {\n"
        "  C = __builtin_assume_aligned(C, 64);\n"
        "  B = __builtin_assume_aligned(B, 64);\n"
        "  for (int64_t i = 0; i < 10; i++) {\n"
        "    for (int64_t k = 0; k < 20; k++) {\n"
        "      for (int64_t j = 0; j < 10; j++) {\n"
        "        C[i][j] += alpha * A[i][k] * B[k][j];\n"
        "      }\n"
        "    }\n"
        "  }\n"
        "}\n"
    )
    assert "const double A[restrict n][m]" in print_c(kernel)


def test_scalars_are_scalars_and_small_arrays_are_local() -> None:
    x, z = array("x", 8), replace(array("z", 8), scope="local")
    s = Buffer("s", f64, (), (), scope="local")
    body = Block(
        (
            Store("s", (), literal(0.0, f64)),
            loops(Store("z", (i,), -Load("x", (i,), f64)), (i, 8)),
            loops(total("s", (), -Load("z", (i,), f64)), (i, 8)),
            Store("x", (literal(0),), Load("s", (), f64)),
        )
    )
    text = print_c(Kernel("f", (), (x,), Allocate(s, Allocate(z, body))))
    assert "\n  double s;\n  _Alignas(64) double z[8];\n  s = 0.0;\n" in text
    assert "s -= z[i];" in text and "x[0] = s;" in text


def test_loops_beside_each_other_share_their_name() -> None:
    first = loops(Store("x", (i,), literal(1.0, f64)), (i, 4))
    i2, i3 = Var("i_2"), Var("i_3")
    second = loops(total("x", (i2,), Load("x", (i3,), f64)), (i2, 4), (i3, 4))
    text = print_c(Kernel("f", (), (array("x", 4),), Block((first, second))))
    assert (
        "  for (int64_t i = 0; i < 4; i++) {\n    for (int64_t i_2 = 0; i_2 < 4; i_2++) {" in text
    )
    assert "x[i] += x[i_2];" in text


def test_names_of_c_are_avoided() -> None:
    assert c_name("t.1") == "t_1"
    assert c_name("double") == "double_2"
    assert c_name("i", {"i", "i_2"}) == "i_3"
    assert c_name("2mm") == "k_2mm"
    assert c_name("größe") == "gr__e"
    assert c_name("expf") == "expf_2"


def test_what_c_cannot_say_is_refused() -> None:
    half = array("h", 4, dtype=dtypes.float16)
    with pytest.raises(UnsupportedError, match="WEFT-E0504"):
        print_c(Kernel("f", (), (half,), Block(())))
    x = array("x", 4)
    value: Expr = Load("x", (literal(0),), f64)
    for _ in range(30):
        value = value * value
    with pytest.raises(UnsupportedError, match="WEFT-E0505"):
        print_c(Kernel("f", (), (x,), Store("x", (literal(0),), value)))


def test_long_chains_do_not_use_up_the_stack() -> None:
    x = array("x", 4)
    value: Expr = Load("x", (literal(0),), f64)
    body: Stmt = Store("x", (literal(0),), Var("v0", f64))
    for number in range(3000):
        value = value + float(number)
        body = Let(f"v{number}", literal(1.0, f64), body)
    text = print_c(Kernel("f", (), (x,), Block((Store("x", (literal(1),), value), body))))
    assert "+ 2999.0;" in text and "const double v2999 = 1.0;" in text


# ---- what it does -------------------------------------------------------------------------------


@needs_compiler
def test_random_kernels_do_what_the_interpreter_does() -> None:
    cases = []
    for seed in range(24):
        kernel, parameters, arrays = Generator(seed).kernel()
        if all(b.dtype != dtypes.float16 for b in kernel.buffers):
            kernel = replace(kernel, name=f"r{seed}")
            fixed = replace(fix_parameters(kernel, parameters), name=f"s{seed}")
            cases += [(kernel, parameters, arrays), (fixed, {}, arrays)]
    assert len(cases) > 30
    library = compiled([print_c(kernel) for kernel, _, _ in cases])
    for kernel, parameters, arrays in cases:
        same(kernel, parameters, arrays, library)


def same(kernel, parameters, arrays, library=None, rtol=0.0):  # type: ignore[no-untyped-def]
    expected = {name: a.copy() for name, a in arrays.items()}
    status = interpret(kernel, parameters, expected)
    flat = {name: a.reshape(-1) for name, a in arrays.items()}
    actual, code, _ = run_c(kernel, parameters, flat, library)
    assert code == status.code
    for name, value in expected.items():
        np.testing.assert_allclose(actual[name], value, rtol=rtol, atol=0, err_msg=name)
    return actual


WHOLE = (-(2**63), -(2**31), -129, -128, -7, -3, -2, -1, 0, 1, 2, 3, 5, 7, 31, 32, 63, 64, 127, 255)
REAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 0.75, -0.75, 1.0, -1.5, 2.5, 3.0, -7.25, 1e30, -3e-9)
TYPES = (
    dtypes.bool_, dtypes.int4, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint2,
    dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64, dtypes.float32, dtypes.float64,
)  # fmt: skip


def samples(dtype: DType) -> np.ndarray:
    if dtype.is_float:
        return np.array(REAL).astype(dtype.numpy)
    if dtype == dtypes.bool_:
        return np.array([True, False])
    wide = np.int64 if dtype.kind == "int" else np.uint64
    return np.array([literal(v, dtype).value for v in WHOLE], wide).astype(dtype.numpy)


@pytest.mark.long
@needs_compiler
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_operator_on_the_values_that_hurt(dtype: DType) -> None:
    values = samples(dtype)
    count = len(values)
    x, y = Load("x", (i,), dtype), Load("y", (j,), dtype)
    kernels = []
    for op, row in sorted(OPS.items()):
        if dtype.kind not in row.kinds:
            continue
        result = apply(op, *((x, y)[: row.arity]))
        given = [array(name, count, dtype=dtype, writable=False) for name in ("x", "y")]
        out = array("out", count, count, dtype=result.dtype)
        body = loops(Store("out", (i, j), result), (i, count), (j, count))
        kernels.append(Kernel(op, (), (*given, out), body))
    library = compiled([print_c(kernel) for kernel in kernels])
    for kernel in kernels:
        out = np.zeros(count * count, kernel.buffers[2].dtype.numpy)
        rtol = {dtypes.float32: 1e-6, dtypes.float64: 1e-14}.get(dtype, 0.0)
        same(kernel, {}, {"x": values, "y": values, "out": out}, library, rtol)


@needs_compiler
def test_casts_and_bits() -> None:
    kernels = []
    for source in TYPES:
        count, x = len(samples(source)), Load("x", (i,), source)
        results = [cast(x, target) for target in TYPES]
        results += [
            bitcast(x, target)
            for target in TYPES
            if source.bits == target.bits >= 8 and dtypes.bool_ not in (source, target)
        ]
        out = tuple(array(f"out{k}", count, dtype=r.dtype) for k, r in enumerate(results))
        body = Block(tuple(Store(f"out{k}", (i,), r) for k, r in enumerate(results)))
        given = array("x", count, dtype=source, writable=False)
        kernels.append(Kernel(f"from_{source}", (), (given, *out), loops(body, (i, count))))
    library = compiled([print_c(kernel) for kernel in kernels])
    for source, kernel in zip(TYPES, kernels, strict=True):
        arrays = {b.name: np.zeros(len(samples(source)), b.dtype.numpy) for b in kernel.buffers}
        same(kernel, {}, {**arrays, "x": samples(source)}, library)


@needs_compiler
def test_how_operators_bind() -> None:
    a, b, c = (Load(name, (), i64) for name in "abc")
    flag = [(a < b), (b < c), (a <= c)]
    results = [
        a - (b - c), a - b - c, a * (b + c), -(a + b) * c, a - (-b), a - (-5), a + (b - c),
        select(select(flag[0], flag[1], flag[2]), a, select(flag[2], b, c)),
        select(flag[0] & (flag[1] | flag[2]), a, b), select(~(flag[0] & flag[1]), a, c),
        select((a < b).equal(b < c), a, b), (a & b) | (a ^ c), ~(a | b) & c, apply("abs", a - b),
        (a // b) % c * 3, apply("min", a, b) - apply("max", b, c), (a << literal(2)) + 1,
        select(flag[0], a, b) * select(flag[1], b, c), literal(-(2**63)) - a,
    ]  # fmt: skip
    given = tuple(Buffer(name, i64, (), (), writable=False) for name in "abc")
    stores = tuple(Store("out", (literal(p),), e) for p, e in enumerate(results))
    kernel = Kernel("f", (), (*given, array("out", len(results), dtype=i64)), Block(stores))
    library = compiled([print_c(kernel)])
    for values in ((3, 5, 7), (-4, 2, -9), (7, -3, 2), (0, 0, 0), (5, 5, -5)):
        arrays = {name: np.array([v]) for name, v in zip("abc", values, strict=True)}
        same(kernel, {}, {**arrays, "out": np.zeros(len(results), np.int64)}, library)


@needs_compiler
def test_statements_of_every_kind() -> None:
    x, y = array("x", n, m), array("y", m)
    flat = Buffer("s", f64, (n, m), (literal(3), literal(2) * n))  # neither order of the axes
    heap = replace(array("big", n, 3000), scope="local")
    p, q, r, s = (Var(name, f64) for name in "pqrs")
    once = Monoid("first", (p, q), (r, s), (p + s, q * r), (0.0, 1.0))
    load, y0 = Load("x", (i, j), f64), Load("y", (literal(0),), f64)
    body = Block(
        (
            Comment("every statement \\"),
            Prefetch("x", (n, literal(7)), True),
            loops(Store("big", (i, j), load * 2.0), (i, n), (j, m)),
            loops(
                If(load < 0.0, Store("x", (i, j), -load), Store("x", (i, j), load + 1.0)),
                (i, n), (j, m), kind="vector",
            ),
            loops(total("y", (j,), Load("big", (i, j), f64)), (i, n), (j, m)),
            loops(Store("s", (i, j), load), (i, n), (j, m)),
            loops(
                Update(
                    (("x", (i, literal(0))), ("x", (i, literal(1)))), once,
                    (Load("y", (literal(0),), f64), Load("y", (literal(1),), f64)),
                ),
                (i, n),
            ),
            loops(Let("i", i + 1, Let("t", y0 * 0.5, Store("y", (i,), Var("t", f64)))), (i, 1)),
            While(
                Load("y", (literal(0),), f64) > 1.0,
                Store("y", (literal(0),), Load("y", (literal(0),), f64) * 0.5),
            ),
            loops(Check(i < 2, 1, (i, n)), (i, n)),
            loops(Store("y", (i,), Load("y", (i,), f64) - 3.0), (i, 2), kind="unrolled"),
        )
    )  # fmt: skip
    kernel = Kernel("all", ("n", "m"), (x, y, flat), Allocate(heap, body), ("{0} of {1}",))
    values = np.random.default_rng(0).standard_normal((4, 5))
    arrays = {"x": values.ravel(), "y": np.arange(5.0), "s": np.zeros(100)}
    same(kernel, {"n": 4, "m": 5}, arrays)
    _, code, detail = run_c(kernel, {"n": 4, "m": 5}, arrays)
    assert (code, detail) == (1, (2, 4))


@needs_compiler
def test_regions_and_parallel_loops_run_on_one_thread_and_with_openmp() -> None:
    shared = replace(array("sums", n), scope="shared")
    x, y = array("x", n, writable=False), array("y", n)
    step = literal(3)
    fill = loops(Store("sums", (i,), Load("x", (i,), f64) * 2.0), (i, n), kind="parallel")
    swap = loops(
        Store("y", (i,), Load("y", (i,), f64) + Load("sums", (n - 1 - i,), f64)), (i, n),
        kind="parallel",
    )  # fmt: skip
    first = Single(Store("y", (literal(0),), literal(7.0, f64)))
    turn = Block((fill, first, Barrier(), swap, Barrier()))
    body = Allocate(shared, For("t", literal(0), step, "serial", turn))
    region = Kernel("region", ("n",), (x, y), body, region=True)
    copy = loops(Store("y", (i,), Load("x", (i,), f64)), (i, n), kind="parallel")
    spread = Kernel("spread", ("n",), (x, y), copy)
    for kernel in (region, spread):
        text = print_c(kernel)
        assert text.count("#pragma omp parallel") == 1
        arrays = {"x": np.arange(2000.0), "y": np.zeros(2000)}
        same(kernel, {"n": 2000}, arrays)
        flags = ("-O1", "-fopenmp", "-Wall", "-Werror")
        actual, _, _ = run_c(kernel, {"n": 2000}, arrays, compiled([text], flags))
        interpret(kernel, {"n": 2000}, arrays)
        np.testing.assert_array_equal(actual["y"], arrays["y"])
