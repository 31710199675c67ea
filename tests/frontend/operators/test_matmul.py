import ml_dtypes
import numpy as np
import pytest

from tests.frontend.operators.run_operator import run
from tests.frontend.operators.run_symbolic import run_symbolic
from weft.frontend.operators.registry import instantiate
from weft.ir.build import placeholder
from weft.ir.errors import ExpressionError

rng = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 4), (4, 5)),
        ((1, 1), (1, 1)),
        ((7, 13), (13, 1)),
        ((4,), (4,)),
        ((4,), (4, 3)),
        ((3, 4), (4,)),
        ((2, 3, 4), (4, 5)),
        ((3, 4), (2, 4, 5)),
        ((2, 1, 3, 4), (5, 4, 2)),
        ((1, 3, 4), (7, 4, 2)),
        ((4,), (2, 4, 5)),
        ((2, 3, 4), (4,)),
        ((0, 4), (4, 5)),
        ((3, 0), (0, 5)),
    ],
)
def test_matmul(left, right):
    a, b = rng.standard_normal(left), rng.standard_normal(right)
    np.testing.assert_allclose(run("matmul", a, b), a @ b, atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_floats_are_summed_in_float32(dtype):
    a = np.full((1, 4097), 2.0**-12, dtype)
    a[0, 0] = 1
    assert run("matmul", a, np.ones((4097, 1), dtype))[0, 0] == 2
    assert run("gemm", a, np.ones((4097, 1), dtype))[0, 0] == 2
    assert run("einsum", a, np.ones((4097, 1), dtype), equation="ij,jk")[0, 0] == 2


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("c_shape", [None, (), (1,), (5,), (3, 1), (1, 5), (3, 5)])
def test_gemm(transpose_a, transpose_b, c_shape):
    a, b = rng.standard_normal((3, 7)), rng.standard_normal((7, 5))
    c = None if c_shape is None else rng.standard_normal(c_shape)
    result = run(
        "gemm", a.T if transpose_a else a, b.T if transpose_b else b, c,
        alpha=0.5, beta=-2.0, transpose_a=transpose_a, transpose_b=transpose_b,
    )  # fmt: skip
    np.testing.assert_allclose(result, 0.5 * a @ b + (0 if c is None else -2.0 * c), atol=1e-13)


@pytest.mark.parametrize("shape", [(3, 4), (4,), (2, 1, 4), (2, 3, 5, 4), (0, 4)])
@pytest.mark.parametrize("biased", [True, False])
def test_linear(shape, biased):
    x, w = rng.standard_normal(shape), rng.standard_normal((7, 4))
    bias = rng.standard_normal(7) if biased else None
    expected = x @ w.T + (0 if bias is None else bias)
    np.testing.assert_allclose(run("linear", x, w, bias), expected, atol=1e-13)


def test_linear_of_wrong_shapes():
    x, w = placeholder((2, 4), name="x"), placeholder((7, 5), name="w")
    with pytest.raises(ExpressionError, match="E0150"):
        instantiate("linear", [x, w])


def test_integer_gemm():
    a, b, c = (rng.integers(-9, 9, s).astype(np.int32) for s in ((3, 4), (4, 2), (2,)))
    np.testing.assert_array_equal(run("gemm", a, b, c, alpha=2.0, beta=3.0), 2 * a @ b + 3 * c)
    with pytest.raises(ExpressionError, match=r"cannot be scaled by 0\.5"):
        run("gemm", a, b, alpha=0.5)


def test_symbolic_sizes():
    a, b = rng.standard_normal((2, 3, 4)), rng.standard_normal((4, 5))
    names = {0: {0: "batch", 1: "m", 2: "k"}, 1: {0: "k", 1: "n"}}
    np.testing.assert_allclose(run_symbolic("matmul", a, b, sizes=names), a @ b, atol=1e-13)


@pytest.mark.parametrize(("left", "right"), [((2, 3), (4, 5)), ((2, 3, 4), (3, 4, 5)), ((), (3,))])
def test_sides_that_do_not_fit_are_refused(left, right):
    with pytest.raises(ExpressionError):
        instantiate("matmul", [placeholder(left, name="a"), placeholder(right, name="b")])


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 5)]),
        ("ij,jk", [(2, 3), (3, 5)]),
        ("ba", [(2, 3)]),
        ("ii->i", [(4, 4)]),
        ("ii", [(4, 4)]),
        ("iji->j", [(3, 2, 3)]),
        ("i,i->", [(5,), (5,)]),
        ("i,j->ji", [(2,), (3,)]),
        ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
        ("b...i,...i->b...", [(2, 3, 4, 5), (3, 4, 5)]),
        ("...->...", [(2, 3)]),
        ("i...->...", [(2, 3, 4)]),
        ("...i", [(2, 3)]),
        (" b h i d , b h j d -> b h i j ", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
        ("ab,bc,cd,de->ae", [(2, 3), (3, 2), (2, 5), (5, 1)]),
        ("aB,Ab->aAbB", [(2, 3), (4, 5)]),
        ("ij,kj->", [(2, 3), (4, 3)]),
        ("ij,ij->ij", [(1, 3), (2, 1)]),
        (",i->i", [(), (3,)]),
        ("ij->ji", [(0, 3)]),
    ],
)
def test_einsum(equation, shapes):
    operands = [rng.standard_normal(s) for s in shapes]
    expected = np.einsum(equation.replace(" ", ""), *operands)
    np.testing.assert_allclose(run("einsum", *operands, equation=equation), expected, atol=1e-13)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij->ij", [(2, 3), (2, 3)]),
        ("ij->i", [(2, 3, 4)]),
        ("ij->ik", [(2, 3)]),
        ("ij->ii", [(2, 3)]),
        ("i1->i", [(2, 3)]),
        ("ijk...->i", [(2, 3)]),
        ("......->", [(2, 3)]),
        ("ij,jk->ik", [(2, 3), (4, 5)]),
    ],
)
def test_equations_that_do_not_fit_are_refused(equation, shapes):
    tensors = [placeholder(s, name=f"x{n}") for n, s in enumerate(shapes)]
    with pytest.raises(ExpressionError):
        instantiate("einsum", tensors, equation=equation)


def test_matmul_integer_takes_zero_points_per_row_and_column():
    a, b = rng.integers(0, 256, (3, 7)).astype(np.uint8), rng.integers(-128, 128, (7, 4), np.int8)
    az, bz = np.uint8([1, 128, 255]), np.int8([-128, 0, 5, 127])
    exact = (a.astype(int) - az[:, None]) @ (b.astype(int) - bz)
    np.testing.assert_array_equal(run("matmul_integer", a, b, az, bz), exact)
    np.testing.assert_array_equal(run("matmul_integer", a, b), a.astype(int) @ b)


def test_qlinear_matmul():
    a, b = rng.integers(0, 256, (5, 9), np.uint8), rng.integers(-128, 128, (9, 4), np.int8)
    bs = np.float32([0.01, 0.02, 0.5, 0.001])
    result = run("qlinear_matmul", a, np.float32(0.02), np.uint8(100), b, bs, np.zeros(4, np.int8),
                 np.float32(0.25), np.int8(-3))  # fmt: skip
    real = (a.astype(int) - 100) @ b.astype(int) * (0.02 * bs / 0.25)
    expected = np.clip(np.rint(real) - 3, -128, 127)
    assert result.dtype == np.int8 and np.abs(result - expected).max() <= 1
    assert (result == expected).mean() > 0.9
