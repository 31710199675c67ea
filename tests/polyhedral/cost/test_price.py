"""Estimates against enumeration, each other, and what has to hold whatever the model says."""

# ruff: noqa: F821  (sizes of a signature are names in the function's body)

from dataclasses import replace
from math import isfinite

import pytest

import weft
from tests.polyhedral.cost.test_traffic import MATMUL, TRANSPOSE
from tests.polyhedral.loop_programs import PROGRAMS, program
from tests.polyhedral.loop_schedules import BANDS, tiled
from tests.polyhedral.scops import Constraint, Var
from tests.polyhedral.transform.harness import chain, matmul
from tests.properties.random_schedules import random_pair
from weft.ir import dtypes
from weft.ir.errors import CompileError
from weft.ir.machine import Cache, Machine
from weft.ir.scalar_expr import Load
from weft.ir.scop import Body, Scop
from weft.ir.scop_interpreter import domain_points
from weft.polyhedral.cost.price import Price, price, prices
from weft.polyhedral.cost.text import price_lines, told
from weft.polyhedral.schedule_loops import schedule_loops
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.reorder import reorder
from weft.polyhedral.transform.scheduled import Scheduled
from weft.polyhedral.transform.set_kinds import parallel, vectorize
from weft.polyhedral.transform.tile import tile

MACHINE = Machine("any", 64, 32, (Cache(32 << 10), Cache(1 << 20, bandwidth=48.0)))
SIZES = (0, 1, 2, 7, 13)
PRIMES = (1, 3, 7, 13, 29, 61, 127, 251)


def _gemm() -> Scop:
    """With bodies that compute: C = beta C, C += alpha A B."""
    of = program("gemm")
    loads = [Load(k, (), dtypes.float64) for k in range(3)]
    bodies = (loads[0] * loads[1], loads[0] * loads[1] * loads[2])
    return replace(of, statements=tuple(
        replace(s, body=Body((), (body,))) for s, body in zip(of.statements, bodies, strict=True)
    ))  # fmt: skip


def _schedules(of: Scop, name: str) -> list[Scheduled]:
    made = [initial(of)]
    if name in BANDS:
        values = BANDS[name]
        depth = len(next(iter(values.values())))
        made += [Scheduled(of, of, tiled(of, values, (size,) * depth)) for size in (8, 32)]
    return made


@pytest.mark.parametrize("n", SIZES)
def test_operations_are_those_of_all_instances(n: int) -> None:
    of, sizes = _gemm(), {"I": n, "J": n + 1, "K": 3}
    each = {"S0": 1, "S1": 3}  # beta C; alpha A, and one multiplication and addition
    real = sum(each[s.name] * len(domain_points(s, sizes)[""]) for s in of.statements)
    for scheduled in (*_schedules(of, "gemm"), schedule_loops(of, MACHINE)):
        found = price(scheduled, MACHINE, 1, sizes)
        more = found.operations - real  # copies of operands multiply by alpha apart from B
        assert more == 0 if scheduled.scop is of else abs(more) <= real + 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_has_a_price_that_no_bound_exceeds(name: str) -> None:
    of = program(name)
    for scheduled in _schedules(of, name):
        for n in (*SIZES, 100):
            found = price(scheduled, MACHINE, 1, dict.fromkeys(of.parameters, n))
            assert 0 <= found.bound <= found.estimate and isfinite(found.estimate)
            assert all(part >= 0 for part in (*found.parts.values(), *found.moved.values()))
            if n == 0 and name != "durbin":
                assert found.operations == 0


@pytest.mark.parametrize("name", PROGRAMS)
def test_more_takes_longer(name: str) -> None:
    of = program(name)
    for scheduled in _schedules(of, name)[:2]:
        every = [price(scheduled, MACHINE, 1, dict.fromkeys(of.parameters, n)) for n in PRIMES]
        estimates, bounds = [p.estimate for p in every], [p.bound for p in every]
        assert estimates == sorted(estimates) and bounds == sorted(bounds)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("seed", range(15))
def test_random_programs_under_random_schedules(seed: int) -> None:
    """Copies, skews, whatever moves make: each has a finite price, none below its bound."""
    made = random_pair(seed).scheduled
    for n in (0, 1, 5, 50):
        found = price(made, MACHINE, 2, dict.fromkeys(made.scop.parameters, n))
        assert 0 <= found.bound <= found.estimate and isfinite(found.estimate)


def test_together_as_alone() -> None:
    """Candidates of several shapes, sizes of tiles, and programs at once."""
    of, sizes = _gemm(), {"I": 100, "J": 90, "K": 80}
    begun = initial(of)
    names = [loop.name for loop in begun.loops()]
    candidates = [tile(begun, {names[-1]: size, names[-2]: other})
                  for size in (4, 8, 16) for other in (8, 24)]  # fmt: skip
    candidates += [begun, schedule_loops(of, MACHINE), tile(begun, {names[-1]: 7})]
    assert prices(candidates, MACHINE, 1, sizes) == [
        price(c, MACHINE, 1, sizes) for c in candidates
    ]
    assert prices([], MACHINE) == []


def test_candidates_that_copy_tiles_of_their_own() -> None:
    """Their Scops differ in numbers as well."""
    of, sizes = program("gemm"), {"I": 64, "J": 64, "K": 64}
    made = [schedule_loops(of, replace(MACHINE, caches=(Cache(32 << 10), Cache(size << 10))))
            for size in (256, 512, 1024)]  # fmt: skip
    assert prices(made, MACHINE, 1, sizes) == [price(c, MACHINE, 1, sizes) for c in made]


def test_a_missing_size_is_refused() -> None:
    with pytest.raises(CompileError, match="WEFT-E0480") as caught:
        price(initial(_gemm()), MACHINE, 1, {"I": 3, "K": 4})
    assert "J" in str(caught.value)
    of = program("jacobi-1d")
    endless = replace(of.statements[0], domain=(Constraint(Var("i")), Constraint(Var("t"))))
    broken = replace(of, statements=(endless, *of.statements[1:]))
    with pytest.raises(CompileError, match="WEFT-E0480"):
        price(initial(broken), MACHINE, 1, {"T": 3, "N": 4})
    assert price_lines(told(initial(broken), MACHINE))[0].startswith("no estimate: WEFT-E0480")


def test_derived_sizes_follow() -> None:
    of = program("jacobi-1d")
    both = replace(of, parameters=("T", "N", "M"), derived=(("N", Var("M") * Var("M")),))
    sizes = {"T": 10, "M": 7}
    assert price(initial(both), MACHINE, 1, sizes) == price(
        initial(of), MACHINE, 1, {"T": 10, "N": 49}
    )


def _order(of: Scop, order: str, vector: str = "") -> Price:
    made = reorder(initial(of), list(order))
    made = vectorize(made, vector) if vector else made
    return price(made, MACHINE, 1, {"N": 300})


def test_what_is_known_to_be_faster_is_estimated_to_be() -> None:
    """Matrix products: rows before columns, vectors along rows, tiles of both."""
    ikj, ijk, jki = (_order(MATMUL, order).estimate for order in ("ikj", "ijk", "jki"))
    assert ikj < ijk < jki
    assert _order(MATMUL, "ikj", "j").estimate < ikj / 4
    sizes = {"N": 2000}
    plain = price(initial(TRANSPOSE), MACHINE, 1, sizes)
    cut = price(tile(initial(TRANSPOSE), {"i": 16, "j": 16}), MACHINE, 1, sizes)
    assert cut.estimate < plain.estimate and cut.pages < plain.pages


@weft.kernel
def multiplied(C: weft.f64["N", "N"], A: weft.f64["N", "N"], B: weft.f64["N", "N"]):
    for i in range(N):
        for k in range(N):
            for j in range(N):
                C[i, j] += A[i, k] * B[k, j]


def _in_tiles(rows: int, lanes: int) -> Price:
    """Of 192 by 192 in register tiles of that size, without edges."""
    blocks = {"i_r": f"i // {rows}", "j_r": f"j // {lanes}", "k": "k"}
    points = {"i_p": f"i - {rows}*(i // {rows})", "j_p": f"j - {lanes}*(j // {lanes})"}
    scheduled = weft.schedule(multiplied).nest("S0", blocks | points)
    scheduled = scheduled.tensorize(["k"], {"i_p": rows}, {"j_p": lanes})
    return price(scheduled.scheduled, MACHINE, sizes={"N": 192})


def test_sums_beyond_the_registers_are_loaded_and_stored_in_each_step() -> None:
    """Of 32 registers of 8 lanes: 24 and 28 sums fit beside a row of operands, 48 and 96 do not."""
    fit, spilled = [(8, 24), (6, 32)], [(16, 24), (8, 48), (16, 48)]
    best = max(_in_tiles(*size).estimate for size in fit)
    assert all(_in_tiles(*size).estimate > 1.3 * best for size in spilled)


def test_threads_share_parallel_loops_and_meet() -> None:
    made, sizes = parallel(initial(MATMUL), "i"), {"N": 100}
    one, four = (price(made, MACHINE, threads, sizes) for threads in (1, 4))
    assert one.parts["threads"] == 0
    begun = (MACHINE.barrier + MACHINE.wake) * MACHINE.frequency
    assert four.parts["threads"] == pytest.approx(begun)
    assert four.estimate - begun == pytest.approx(one.estimate / 4, rel=0.05)
    assert four.bound == pytest.approx(one.bound / 4)
    inner = parallel(initial(MATMUL), "j")
    assert price(inner, MACHINE, 4, sizes).parts["threads"] == pytest.approx(
        (100 * MACHINE.barrier + MACHINE.wake) * MACHINE.frequency
    )
    serial = initial(MATMUL)
    assert price(serial, MACHINE, 4, sizes).estimate == price(serial, MACHINE, 1, sizes).estimate


def test_what_stays_in_a_cache_is_there() -> None:
    small, large = (price(initial(chain(n)), MACHINE) for n in (1000, 1_000_000))
    assert small.moved["L1"] == pytest.approx(5 * 8000, rel=0.05) and not small.parts["L1"]
    assert large.parts["L1"] and large.parts["L2"]


def test_the_lines_of_explain() -> None:
    lines = price_lines(told(initial(matmul(9, 7, 5)), MACHINE))
    assert len(lines) == 3
    assert lines[0].startswith("estimate ") and lines[1].startswith(
        "operations 693; bytes into L1 "
    )
    assert lines[2].startswith("bound ")
    jacobi = program("jacobi-1d")
    at = ", ".join(f"{name} = 1000" for name in jacobi.parameters)
    assert f" for {at}: " in price_lines(told(initial(jacobi), MACHINE))[0]
