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
from weft.ir.scalar_expr import Expr
from weft.ir.scalar_printer import scalar_text
from weft.ir.schedule_times import paths
from weft.ir.schedule_tree import Loop, Tree
from weft.ir.scop import Access, Scop
from weft.polyhedral.analysis.counting import Counter
from weft.polyhedral.analysis.traffic import Traffic
from weft.polyhedral.transform.initial import initial

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


def _simulated(case: str, capacity: int) -> int:
    """Bytes in and out of a fully associative cache that forgets what was used longest ago."""
    lines: OrderedDict[int, bool] = OrderedDict()
    moved = 0
    for line, write in _trace(case):
        dirty = lines.pop(line, None)
        if dirty is None:
            moved += LINE
            if len(lines) == capacity // LINE:
                moved += LINE * lines.popitem(last=False)[1]
        lines[line] = bool(dirty) or write
    return moved + LINE * sum(lines.values())


def _modelled(of: Scop, tree: Tree, sizes: dict[str, int], capacity: int) -> float:
    traffic = Traffic(of, tree, Counter(sizes), LINE)
    return float(sum(total.value(sizes) for total in traffic.into(capacity).values()))


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
        real = _simulated(case, capacity)
        least, most = (_modelled(*_case(case), c) for c in (2 * capacity, capacity // 2))
        assert least / 2 <= real <= 2 * most, (capacity, least, real, most)


def test_most_cases_are_close() -> None:
    close = 0
    for case in CASES:
        ratio = _modelled(*_case(case), 1 << 16) / _simulated(case, 1 << 16)
        close += 0.85 <= ratio <= 1.15
    assert close >= len(CASES) - 1


def test_formulas_for_matrix_multiplication() -> None:
    """Three loops read B anew for each row of C; tiles of 32 read a 32nd of that."""
    of = program("gemm")
    plain = Traffic(of, initial(of).tree, Counter()).into(32 << 10)
    assert str(plain["B"]) == "8*I*J*K" and str(plain["A"]) == "8*I*K"
    small = Traffic(of, tiled(of, BANDS["gemm"], (32, 32, 32)), Counter()).into(32 << 10)
    assert str(small["B"]) == str(small["A"]) == "I*J*K/4"
    assert str(small["C"]) == "16*I*J"


def test_a_time_tile_reads_the_grid_less_often() -> None:
    of, sizes = program("jacobi-2d"), {"T": 1000, "N": 2800}
    plain = _modelled(of, initial(of).tree, sizes, 1 << 20)
    skewed = _modelled(of, tiled(of, BANDS["jacobi-2d"], (32, 64, 64)), sizes, 1 << 20)
    assert plain == pytest.approx(1000 * 2800**2 * 48, rel=0.4)
    assert skewed < plain / 5


def test_data_dependent_accesses_count_as_anywhere() -> None:
    anywhere = Access("A", (), may=True, body_indices=(literal(0),))
    of = parse("p", """
        for i in range(N):
            Y[i] = X[i]
        """, "N M", {"X": "in N", "Y": "out N", "A": "in M"})  # fmt: skip
    reads = (*of.statements[0].reads, anywhere)
    of = replace(of, statements=(replace(of.statements[0], reads=reads),))
    moved = Traffic(of, initial(of).tree, Counter()).into(1 << 10)
    assert str(moved["Y"]) == "16*N" and 0 < moved["A"].value({"N": 100, "M": 100}) <= 64 * 100
