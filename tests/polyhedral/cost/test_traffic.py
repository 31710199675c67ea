"""Bytes that the model says pass into a cache, against a simulated cache."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import product

import pytest

from tests.polyhedral.loop_programs import parse, program
from tests.polyhedral.loop_schedules import BANDS, tiled
from tests.polyhedral.scops import evaluate, literal
from weft.ir import dtypes
from weft.ir.machine import Cache, Machine
from weft.ir.scalar_expr import Expr, Load
from weft.ir.scalar_printer import scalar_text
from weft.ir.schedule_times import paths
from weft.ir.schedule_tree import Loop, Tree
from weft.ir.scop import Access, Scop
from weft.polyhedral.cost.price import price
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import Scheduled
from weft.polyhedral.transform.tile import tile

LINE = 64


def _addresses(of: Scop, tree: Tree, sizes: dict[str, int]) -> Iterator[tuple[int, bool]]:
    """(line, is write) of every access in the order of ``tree``."""
    above, base, start = paths(tree), {}, 0
    for tensor in of.tensors:
        shape = [evaluate(size, sizes) for size in tensor.shape]
        base[tensor.name] = start, shape
        count = 1
        for size in shape:
            count *= size
        start += -(-count * 8 // LINE) * LINE
    rows = []
    for s in of.statements:
        places = [x.at[s.name] if isinstance(x, Loop) else literal(x) for x in above[s.name]]
        time = compiled(places, s.dims, sizes)
        accesses = [(a, False) for a in s.reads] + [(a, True) for a in s.writes]
        touched = [(base[a.tensor], compiled(a.indices, s.dims, sizes), w) for a, w in accesses]
        inside = compiled([c.expr for c in s.domain], s.dims, sizes)
        for point in product(range(max(sizes.values()) + 1), repeat=len(s.dims)):
            if min(inside(*point), default=0) >= 0:
                rows.append((time(*point), touched, point))
    for _, touched, point in sorted(rows, key=lambda row: row[0]):
        for (first, shape), indices, write in touched:
            place = 0
            for index, size in zip(indices(*point), shape, strict=True):
                place = place * size + index
            yield (first + place * 8) // LINE, write


def compiled(
    values: Sequence[Expr], dims: Sequence[str], sizes: dict[str, int]
) -> Callable[..., tuple[int, ...]]:
    """The index expressions ``values`` as one function of the dims."""
    text = "".join(f"{scalar_text(value)}, " for value in values)
    return eval(f"lambda {', '.join(dims)}: ({text})", dict(sizes))  # type: ignore[no-any-return]


@cache
def _trace(case: str) -> tuple[tuple[int, bool], ...]:
    return tuple(_addresses(*_case(case)))


def _case(case: str) -> tuple[Scop, Tree, dict[str, int]]:
    name, tree, sizes = CASES[case]
    of = program(name)
    return of, tree or initial(of).tree, sizes


def _simulated(trace: Sequence[tuple[int, bool]], capacity: int, ways: int = 0) -> int:
    """Bytes in and out of a cache that forgets what was used longest ago; ``ways``: of a set, 0 for
    one set of all lines."""
    ways = ways or capacity // LINE
    sets: list[OrderedDict[int, bool]] = [OrderedDict() for _ in range(capacity // LINE // ways)]
    moved = 0
    for line, write in trace:
        lines = sets[line % len(sets)]
        dirty = lines.pop(line, None)
        if dirty is None:
            moved += LINE
            if len(lines) == ways:
                moved += LINE * lines.popitem(last=False)[1]
        lines[line] = bool(dirty) or write
    return moved + LINE * sum(sum(lines.values()) for lines in sets)


def _modelled(of: Scop, tree: Tree, sizes: dict[str, int], capacity: int, ways: int = 0) -> float:
    """``ways``: of a set; 0 for one set of all lines."""
    machine = Machine("any", 64, 32, (Cache(capacity, ways=ways or capacity // LINE),))
    return price(Scheduled(of, of, tree), machine, 1, sizes).moved["L1"]


def _gemm_tiled(size: int) -> Tree:
    return tiled(program("gemm"), BANDS["gemm"], (size, size, size))


CASES: dict[str, tuple[str, Tree | None, dict[str, int]]] = {
    "gemm as written": ("gemm", None, {"I": 16, "J": 32, "K": 24}),
    "gemm in tiles": ("gemm", _gemm_tiled(8), {"I": 16, "J": 32, "K": 24}),
    "lu as written": ("lu", None, {"N": 40}),
    "lu in tiles": ("lu", tiled(program("lu"), BANDS["lu"], (8, 8, 8)), {"N": 40}),
    "cholesky": ("cholesky", None, {"N": 40}),
    "jacobi-2d": ("jacobi-2d", None, {"T": 6, "N": 32}),
    "jacobi-2d in skewed tiles": (
        "jacobi-2d", tiled(program("jacobi-2d"), BANDS["jacobi-2d"], (8, 8, 8)), {"T": 8, "N": 32},
    ),
    "seidel-2d": ("seidel-2d", None, {"T": 6, "N": 32}),
    "trmm": ("trmm", None, {"M": 32, "N": 32}),
    "floyd-warshall": ("floyd-warshall", None, {"N": 24}),
    "durbin": ("durbin", None, {"N": 100}),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_within_a_factor_of_a_simulated_cache(case: str) -> None:
    """Within a factor of 2; where a working set just about fits, of a cache half or twice as large.
    Mostly much closer."""
    for capacity in (1024, 4096, 1 << 16):
        real = _simulated(_trace(case), capacity)
        least, most = (_modelled(*_case(case), c) for c in (2 * capacity, capacity // 2))
        assert least / 2 <= real <= 2 * most, (capacity, least, real, most)


def test_most_cases_are_close() -> None:
    close = 0
    for case in CASES:
        ratio = _modelled(*_case(case), 1 << 16) / _simulated(_trace(case), 1 << 16)
        close += 0.85 <= ratio <= 1.15
    assert close >= len(CASES) - 1


MATMUL = parse("mm", """
    for i in range(N):
        for j in range(N):
            for k in range(N):
                C[i, j] += A[i, k] * B[k, j]
    """, "N", {"A": "in N N", "B": "in N N", "C": "io N N"})  # fmt: skip
TRANSPOSE = parse("transpose", """
    for i in range(N):
        for j in range(N):
            B[j, i] = A[i, j]
    """, "N", {"A": "in N N", "B": "out N N"})  # fmt: skip
STENCIL = parse("stencil", """
    for i in range(1, N - 1):
        for j in range(1, N - 1):
            B[i, j] = A[i, j - 1] + A[i, j + 1] + A[i - 1, j] + A[i + 1, j]
    """, "N", {"A": "in N N", "B": "out N N"})  # fmt: skip

BUTTERFLY = parse("butterfly", """
    for i in range(N):
        X[i + N] = X[i] - X[i + N]
    """, "N", {"X": "io 2*N"})  # fmt: skip


@pytest.mark.parametrize(
    "of, n, size",
    [(MATMUL, n, size) for n in (24, 29) for size in (0, 4, 8)]
    + [(TRANSPOSE, n, size) for n in (40, 47) for size in (0, 4, 8)]
    + [(STENCIL, n, size) for n in (24, 47) for size in (0, 8)]
    + [(BUTTERFLY, n, size) for n in (300, 1000) for size in (0, 16)],
    ids=lambda x: x.name if isinstance(x, Scop) else str(x),
)
def test_small_caches_of_eight_ways(of: Scop, n: int, size: int) -> None:
    """Within a factor of 1.5; where a tile just about fits (up to half of a cache more or less),
    of a cache half or twice as large."""
    made = initial(of)
    if size:
        made = tile(made, dict.fromkeys([loop.name for loop in made.loops()], size))
    trace = tuple(_addresses(of, made.tree, {"N": n}))
    for capacity in (2048, 4096, 8192):
        real = _simulated(trace, capacity, 8)
        about = (
            _modelled(of, made.tree, {"N": n}, c, 8)
            for c in (capacity // 2, capacity, 2 * capacity)
        )
        most, found, least = about
        assert least / 1.5 <= real <= 1.5 * most, (capacity, least, real, most)
        if least == most:
            assert found / 1.5 <= real <= 1.5 * found


def test_rows_a_power_of_two_apart_share_few_sets() -> None:
    """Columns of 64 rows of 512 bytes: 8 KiB in 8 ways hold 64 of them, if there are 65 of 520."""
    for n, fits in ((64, False), (65, True)):
        tree = initial(TRANSPOSE).tree
        real = _simulated(tuple(_addresses(TRANSPOSE, tree, {"N": n})), 8192, 8)
        found = _modelled(TRANSPOSE, tree, {"N": n}, 8192, 8)
        assert found == pytest.approx(real, rel=0.25)
        assert (real < 4 * 8 * n * n) == fits


def test_matrix_multiplication() -> None:
    """Three loops read B anew for each row of C; tiles of 32 read a 32nd of that."""
    of, sizes = program("gemm"), {"I": 512, "J": 513, "K": 514}
    plain = _modelled(of, initial(of).tree, sizes, 32 << 10)
    assert plain == pytest.approx(8 * 512 * 513 * 514, rel=0.05)
    small = _modelled(of, tiled(of, BANDS["gemm"], (32, 32, 32)), sizes, 32 << 10)
    assert small == pytest.approx(2 * 8 * 512 * 513 * 514 / 32, rel=0.5)


def test_a_time_tile_reads_the_grid_less_often() -> None:
    of, sizes = program("jacobi-2d"), {"T": 1000, "N": 2800}
    plain = _modelled(of, initial(of).tree, sizes, 1 << 20)
    skewed = _modelled(of, tiled(of, BANDS["jacobi-2d"], (32, 64, 64)), sizes, 1 << 20)
    assert plain == pytest.approx(1000 * 2800**2 * 48, rel=0.4)
    assert skewed < plain / 5


def test_data_dependent_accesses_count_as_anywhere() -> None:
    anywhere = Access("A", (literal(0),), may=True, body_indices=(Load(0, (), dtypes.int64),))
    of = parse("p", """
        for i in range(N):
            Y[i] = X[i]
        """, "N M", {"X": "in N", "Y": "out N", "A": "in M"})  # fmt: skip
    reads = (*of.statements[0].reads, anywhere)
    of = replace(of, statements=(replace(of.statements[0], reads=reads),))
    for m in (100, 100_000):
        moved = _modelled(of, initial(of).tree, {"N": 10_000, "M": m}, 1 << 10)
        least = 3 * 8 * 10_000
        assert least + min(8 * m, 64 * 10_000) / 2 < moved < least + 64 * 10_000 * 1.1
