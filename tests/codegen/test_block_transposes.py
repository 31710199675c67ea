"""Loops that cross rows, in transposed blocks: the kernel does the same, at sizes on both sides of
a block; in place and on triangles, too."""

# ruff: noqa: F821  (sizes are names in kernels)

from collections.abc import Callable

import numpy as np
import pytest

import weft
from tests.codegen.kernel_runner import check
from weft.codegen.block_transposes import block_transposes
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.dtypes import DType
from weft.ir.loop_interpreter import Machine, Memory, interpret
from weft.ir.loop_ir import Block, Buffer, For, Kernel, Let, Stmt, Store, Update
from weft.ir.loop_printer import print_kernel
from weft.ir.loop_verifier import verify_kernel
from weft.ir.machine import Cache
from weft.ir.scalar_expr import Expr, Load, Var, literal

i, j, n, m = Var("i"), Var("j"), Var("n"), Var("m")
TINY = Cache(1024)  # chunks are one block long


def kernel(body: Stmt, dtype: DType, rows: Expr = n, columns: Expr = m, first: str = "j") -> Kernel:
    """``body`` for all elements of x[n, m], beside y[m, n] and z[m, n]; the vector runs along n if
    ``first`` is j."""
    bounds = {"i": rows, "j": columns}
    (second,) = set(bounds) - {first}
    inner = For(second, literal(0), bounds[second], "vector", body)
    loops = For(first, literal(0), bounds[first], "parallel", inner)
    shapes = {"x": (rows, columns), "y": (columns, rows), "z": (columns, rows)}
    buffers = [Buffer(k, dtype, s, (s[1], literal(1))) for k, s in shapes.items()]
    return Kernel("k", ("n", "m"), tuple(buffers), loops, ())


def blocks(original: Kernel, n: int, m: int) -> int:
    """How many accesses go through blocks; the kernel still does what it did."""
    changed = block_transposes(original, TINY)
    verify_kernel(changed)
    rng = np.random.default_rng(n + m)
    arrays = {b.name: rng.integers(-9, 9, n * m).astype(b.dtype.numpy) for b in original.buffers}
    sizes = {"n": n, "m": m}
    expected = {name: values.copy() for name, values in arrays.items()}
    interpret(original, sizes, expected)
    for name, values in check(changed, sizes, arrays).items():
        assert np.array_equal(values, expected[name]), name
    return print_kernel(changed).count("allocate block")


def at(name: str, dtype: DType, *indices: Expr) -> Load:
    return Load(name, indices, dtype)


def turned(dtype: DType) -> Stmt:
    return Store("y", (j, i), at("x", dtype, i, j))


@pytest.mark.parametrize("first", ["i", "j"])
@pytest.mark.parametrize(
    "sizes", [(0, 5), (1, 1), (1, 40), (16, 16), (15, 33), (17, 16), (31, 67), (40, 3)]
)
def test_transposes_of_any_size(sizes: tuple[int, int], first: str) -> None:
    assert blocks(kernel(turned(dtypes.float32), dtypes.float32, first=first), *sizes) == 1


@pytest.mark.parametrize("first", ["i", "j"])
@pytest.mark.parametrize(
    "dtype", [dtypes.float64, dtypes.int8, dtypes.float16, dtypes.bool_, dtypes.int64]
)
def test_of_any_type(dtype: DType, first: str) -> None:
    assert blocks(kernel(turned(dtype), dtype, first=first), 35, 41) == 1
    rows, columns = literal(67), literal(129)
    assert blocks(kernel(turned(dtype), dtype, rows, columns, first), 67, 129) == 1


@pytest.mark.parametrize("first", ["i", "j"])
@pytest.mark.parametrize("sizes", [(37, 5), (5, 37), (2, 3), (16, 8)])
def test_known_sizes_make_blocks_that_fit(sizes: tuple[int, int], first: str) -> None:
    rows, columns = map(literal, sizes)
    original = kernel(turned(dtypes.float32), dtypes.float32, rows, columns, first)
    turns = sizes["ij".index(first)]
    assert blocks(original, *sizes) == (1 if turns > 4 else 0)


def test_what_is_computed_on_the_way() -> None:
    f32 = dtypes.float32
    total = at("x", f32, i, j) + at("z", f32, j, i) * 2.0
    body = Let("t", total, Block((Store("y", (j, i), Var("t", f32) * Var("t", f32)),)))
    assert blocks(kernel(body, f32), 18, 33) == 1
    assert blocks(kernel(body, f32, first="i"), 33, 18) == 2  # z is loaded, y stored across


def test_loops_around_are_left_where_they_are() -> None:
    f32, k = dtypes.float32, Var("k")
    body = Store("y", (k, j, i), at("x", f32, i, k, j))
    inner = For("i", literal(0), n, "vector", body)
    middle = For("k", literal(0), literal(3), "parallel", inner)
    loops = For("j", literal(0), m, "parallel", middle)
    x = Buffer("x", f32, (n, literal(3), m), (m * 3, m, literal(1)))
    y = Buffer("y", f32, (literal(3), m, n), (m * n, n, literal(1)))
    original = Kernel("k", ("n", "m"), (x, y), loops, ())
    changed = block_transposes(original, TINY)
    rng = np.random.default_rng(0)
    arrays = {name: rng.normal(size=3 * 37 * 21).astype(np.float32) for name in "xy"}
    sizes = {"n": 37, "m": 21}
    expected = {name: values.copy() for name, values in arrays.items()}
    interpret(original, sizes, expected)
    assert np.array_equal(check(changed, sizes, arrays)["y"], expected["y"])
    assert "allocate block" in print_kernel(changed)


@pytest.mark.parametrize("first", ["i", "j"])
@pytest.mark.parametrize("sizes", [(0, 5), (5, 5), (15, 33), (16, 16), (67, 31)])
def test_backwards_and_in_place(sizes: tuple[int, int], first: str) -> None:
    f64 = dtypes.float64
    turned_round = Store("y", (j, i), at("x", f64, n - 1 - i, m - 1 - j))
    assert blocks(kernel(turned_round, f64, first=first), *sizes) == 1
    total = at("y", f64, j, i) + at("x", f64, i, j)
    update = Update((("y", (j, i)),), monoid("add", f64), (at("x", f64, i, j),))
    for added in (Store("y", (j, i), total), update):  # once, not twice
        assert blocks(kernel(added, f64, first=first), *sizes) == (1 if first == "j" else 2)


def test_not_where_lanes_update_one_element() -> None:
    f64 = dtypes.float64
    sums = kernel(Update((("y", (j, literal(0))),), monoid("add", f64), (at("x", f64, i, j),)), f64)
    assert block_transposes(sums, TINY) is sums


def test_not_where_no_row_is_crossed() -> None:
    original = kernel(Store("y", (j, i), at("z", dtypes.float32, j, i)), dtypes.float32)
    assert block_transposes(original, TINY) is original


class Misses(Machine):
    """Counts the lines that a cache of least recently used ones would fetch; no buffer begins with
    a line."""

    def __init__(self, cache: Cache, sizes: dict[str, int]) -> None:
        super().__init__(sizes)
        self.cache, self.count, self.sets = cache, 0, {}

    def touched(self, memory: Memory, place: int, *, writes: bool) -> None:
        if memory.buffer.scope == "global":
            begin = 64 * self.cache.size * "xyz".index(memory.buffer.name) + 16
            line = (begin + place * memory.buffer.dtype.itemsize) // self.cache.line
            held = self.sets.setdefault(line % (self.cache.way // self.cache.line), [])
            if line in held:
                held.remove(line)
            else:
                self.count += 1
            held.append(line)
            del held[: -self.cache.ways]


@pytest.mark.parametrize(("first", "is_open"), [("i", False), ("j", True)])
@pytest.mark.parametrize(
    ("sizes", "times"),
    [((120, 120), 1.2), ((128, 120), 1.2), ((120, 128), 1.2), ((20, 128), 1.2), ((128, 128), 1.7)],
)
def test_lines_are_fetched_once(
    sizes: tuple[int, int], times: float, first: str, is_open: bool
) -> None:
    """About: unless rows of both arrays share sets of the cache."""
    f64, l1 = dtypes.float64, Cache(16 << 10, ways=8)
    rows, columns = (n, m) if is_open else map(literal, sizes)
    counter = Misses(l1, {"n": sizes[0], "m": sizes[1]})
    changed = block_transposes(kernel(turned(f64), f64, rows, columns, first), l1)
    memory = {name: np.zeros(sizes[0] * sizes[1]) for name in "xyz"}
    counter.take(changed, memory)
    counter.run(changed.body)
    assert counter.count <= times * 2 * memory["x"].nbytes / l1.line


def test_not_in_serial_loops() -> None:
    original = kernel(turned(dtypes.float32), dtypes.float32)
    loop = original.body
    assert isinstance(loop, For)
    serial = For(loop.var, loop.lower, loop.upper, "serial", loop.body)
    again = Kernel("k", ("n", "m"), original.buffers, serial, ())
    assert block_transposes(again, TINY) is again


# ---- in place, and on triangles: what kernels become --------------------------------------------

SIZES = (0, 1, 2, 7, 8, 9, 16, 17, 31, 33, 65)
Change = Callable[[np.ndarray], np.ndarray]


def transposed(dtype: weft.DType) -> weft.Kernel:
    @weft.kernel
    def swap(A: dtype["N", "N"]):
        for i in range(N):
            for j in range(i):
                t = A[i, j]
                A[i, j] = A[j, i]
                A[j, i] = t

    return swap


@weft.kernel
def upwards(A: weft.f64["N", "N"]):
    for i in range(N):
        for j in range(i + 1, N):
            t = A[j, i]
            A[j, i] = A[i, j]
            A[i, j] = t


@weft.kernel
def other_diagonal(A: weft.f32["N", "N"]):
    for i in range(N):
        for j in range(N - 1 - i):
            t = A[i, j]
            A[i, j] = A[N - 1 - j, N - 1 - i]
            A[N - 1 - j, N - 1 - i] = t


@weft.kernel
def mirrored(A: weft.f64["N", "N"]):
    for i in range(N):
        for j in range(i):
            A[j, i] = A[i, j]


@weft.kernel
def averaged(A: weft.f64["N", "N"]):
    for i in range(N):
        for j in range(i):
            mean = 0.5 * (A[i, j] + A[j, i])
            A[i, j] = mean
            A[j, i] = mean


@weft.kernel
def doubled_diagonal(A: weft.f64["N", "N"]):
    """The diagonal is written twice by one iteration: its stores keep their order."""
    for i in range(N):
        for j in range(i + 1):
            t = A[j, i]
            A[j, i] = A[i, j]
            A[i, j] = 2.0 * t


def check_kernel(kernel: weft.Kernel, dtype: str, change: Change, threads: int = 1) -> None:
    run = kernel.compile(options=weft.Options(threads=threads))
    for n in SIZES:
        a = np.random.default_rng(n).integers(0, 100, (n, n)).astype(dtype)
        expected = change(a.copy())
        run(a)
        np.testing.assert_array_equal(a, expected, err_msg=f"{n}")


@pytest.mark.parametrize(("dtype", "threads"), [("f64", 1), ("f32", 2), ("i16", 1), ("u8", 2)])
def test_transposed(dtype: str, threads: int) -> None:
    real = getattr(weft, dtype)
    check_kernel(transposed(real), real.name, lambda a: a.T.copy(), threads)


def lower_to_upper(a: np.ndarray) -> np.ndarray:
    lower = np.tril(a, -1)
    return np.diag(np.diag(a)) + lower + lower.T


def twice_below(a: np.ndarray) -> np.ndarray:
    return np.tril(2 * a.T) + np.triu(a.T, 1)


@pytest.mark.parametrize(
    ("kernel", "dtype", "change"),
    [
        (upwards, "f8", lambda a: a.T.copy()),
        (other_diagonal, "f4", lambda a: a[::-1, ::-1].T.copy()),
        (mirrored, "f8", lower_to_upper),
        (averaged, "f8", lambda a: (a + a.T) / 2),
        (doubled_diagonal, "f8", twice_below),
    ],
)
def test_neighbours(kernel: weft.Kernel, dtype: str, change: Change) -> None:
    check_kernel(kernel, dtype, change)


def text(kernel: weft.Kernel) -> str:
    options = weft.Options(threads=1, target="x86-64-v3")
    return kernel.compile(options=options).as_text("loops")


def test_blocks_and_no_copies() -> None:
    for kernel in (transposed(weft.f32), upwards, other_diagonal, mirrored, averaged):
        assert "register" in text(kernel), kernel.name
    assert "register" not in text(doubled_diagonal)
    swap = transposed(weft.f64).compile(options=weft.Options(threads=1))
    assert "0 bytes" in swap.explain().splitlines()[-1]
