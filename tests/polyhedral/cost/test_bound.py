"""Lower bounds against enumeration: what is counted is there, each element once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.loop_programs import PROGRAMS, program
from tests.polyhedral.scops import Constraint, Var, evaluate
from tests.polyhedral.transform.harness import chain, lowered, matmul, stencil
from weft.codegen.machines.named import target_named
from weft.ir import build as w
from weft.ir.machine import Cache, Machine, Peaks
from weft.ir.scalar_expr import Expr
from weft.ir.scop import Scop
from weft.ir.scop_interpreter import domain_points
from weft.polyhedral.cost.bound import before_running, bound_of, instances, whole_statements
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.isolate import isolate
from weft.polyhedral.transform.scheduled import Scheduled

PEAKS = Peaks(1e9, 2.0, 4.0, 2.0, (1e9, 1e8))
MACHINE = Machine("any", 64, 32, (Cache(1 << 10), Cache(1 << 14)), frequency=1e9, peaks=PEAKS)


def _bound(of: Scop, sizes: dict[str, int], machine: Machine = MACHINE) -> dict[str, float]:
    return dict(bound_of(initial(of), machine, 1, sizes))


def _bytes(of: Scop, sizes: dict[str, int], *, writes: bool) -> int:
    """Of elements of inputs that are read, or of results that are written, by enumeration."""
    touched: dict[str, set[tuple[int, ...]]] = {}
    for s in of.statements:
        points = domain_points(s, sizes)
        for access in s.writes if writes else s.reads:
            if of.tensor(access.tensor).role in (("output", "inout") if writes else ("input",)):
                for n in range(len(points[""])):
                    env = sizes | {d: int(points[d][n]) for d in s.dims}
                    place = tuple(evaluate(index, env) for index in access.indices)
                    touched.setdefault(access.tensor, set()).add(place)
    return sum(len(found) * of.tensor(name).dtype.itemsize for name, found in touched.items())


@pytest.mark.parametrize("n", [0, 1, 2, 7, 11])
@pytest.mark.parametrize("name", PROGRAMS)
def test_instances_are_exact_or_not_known(name: str, n: int) -> None:
    of = program(name)
    sizes = dict.fromkeys(of.parameters, n)
    for s in of.statements:
        assert instances(s.dims, s.domain, sizes) in (None, len(domain_points(s, sizes)[""]))
        if n == 11:
            assert instances(s.dims, s.domain, sizes) is not None


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_more_bytes_than_are_touched(name: str) -> None:
    of = program(name)
    for n in (1, 2, 7):
        sizes = dict.fromkeys(of.parameters, n)
        seconds = _bound(of, sizes)["loads and stores"]
        real = sum(_bytes(of, sizes, writes=w) for w in (False, True))
        assert round(seconds * 64 * 2 * 1e9) <= real


@pytest.mark.parametrize("of", [chain(8), chain(1), matmul(9, 7, 5), stencil(9, 3, 3)])
def test_all_bytes_of_boxes(of: Scop) -> None:
    seconds = _bound(of, {})["loads and stores"]
    real = sum(_bytes(of, {}, writes=w) for w in (False, True))
    counted = round(seconds * 64 * 2 * 1e9)
    assert counted == real if of.statements[-1].name != "Y" else counted >= real * 0.6


def _product(m: int, n: int, h: int) -> Scop:
    a, b = (
        w.placeholder(shape, "float64", name=name) for shape, name in (((m, h), "A"), ((h, n), "B"))
    )
    r = w.reduce_axis((0, h), name="r")
    return lowered(
        w.compute((m, n), lambda i, j: w.sum(a[i, r] * b[r, j], r), name="C"), inputs=(a, b)
    )


def test_arithmetic_at_the_peak() -> None:
    """One multiplication, one addition each: the additions come with the multiplications."""
    found = _bound(_product(30, 40, 50), {})
    assert found["arithmetic"] == pytest.approx(30 * 40 * 50 / 8 / 2 / 1e9)


def test_what_a_cache_cannot_hold_comes_from_beyond() -> None:
    found = _bound(_product(30, 40, 50), {})
    read = 8 * (30 * 50 + 50 * 40)
    assert found["L2"] == pytest.approx((read - 1024) / 1e9)
    assert found["memory"] == pytest.approx((read - (1 << 14)) / 1e8)
    unknown = replace(MACHINE, peaks=Peaks())
    assert set(_bound(_product(30, 40, 50), {}, unknown)) == {"arithmetic", "loads and stores"}


def test_what_may_be_moved_out_of_a_loop_does_not_count() -> None:
    """x[j] * x[j] is the same for every i."""
    x = w.placeholder((50,), "float64", name="x")
    of = lowered(w.compute((40, 50), lambda i, j: x[j] * x[j], name="Y"), inputs=(x,))
    assert _bound(of, {})["arithmetic"] == 0


def test_the_same_operation_counts_once() -> None:
    """(x + y) * (x + y), and once more in another statement; numbers that count loops do not."""
    x, y = (w.placeholder((800,), "float64", name=name) for name in "xy")
    both = w.compute((800,), lambda i: (x[i] + y[i]) * (x[i] + y[i]), name="Z")
    again = w.compute((800,), lambda j: x[j] + y[j], name="V")
    counted = w.compute((800,), lambda i: i * i + i, name="U")
    of = lowered(both, again, counted, inputs=(x, y))
    assert _bound(of, {})["arithmetic"] == pytest.approx(800 / 8 / 2 / 1e9)
    sums = lowered(again, inputs=(x, y))
    assert _bound(sums, {})["arithmetic"] == pytest.approx(800 / 8 / 4 / 1e9)


def test_branches_that_data_decide_do_not_count() -> None:
    x, y = (w.placeholder((50,), "float64", name=name) for name in "xy")
    of = lowered(
        w.compute((50,), lambda i: w.select(x[i] > 0.0, y[i] * x[i], 0.0), name="Z"), inputs=(x, y)
    )
    found = _bound(of, {})
    assert found["arithmetic"] == 0
    assert found["loads and stores"] == pytest.approx(2 * 400 / 128 / 1e9)  # x and Z


def test_what_depends_on_constants_alone_runs_before() -> None:
    of = chain(8)
    constant = replace(of, tensors=tuple(
        replace(t, role="constant") if t.role == "input" else t for t in of.tensors
    ))  # fmt: skip
    assert before_running(of) == frozenset()
    assert before_running(constant) == {of.statements[0].name}


def test_parts_of_a_statement_count_as_the_whole() -> None:
    of = program("lu")
    i, k = Var("i"), Var("k")
    apart, _ = isolate(of, "S0", (Constraint(i // 8 - k // 8 - 1),))
    assert len(apart.statements) == 4
    whole = whole_statements(Scheduled(of, apart, initial(of).tree))
    sizes = {"N": 20}
    assert sorted(len(names) for _, names in whole) == [1, 1, 2]
    assert {s.name: instances(s.dims, s.domain, sizes) for s, _ in whole} == {
        s.name: len(domain_points(s, sizes)[""]) for s in of.statements
    }


def _product_of(dtype: str) -> Scop:
    a, b = (w.placeholder((8, 32), dtype, name=name) for name in "ab")
    k = w.reduce_axis((0, 32), name="k")

    def sums(i: Expr, j: Expr) -> Expr:
        return w.sum(a[i, k].astype("float32") * b[j, k].astype("float32"), k)

    return lowered(w.compute((8, 8), sums, name="c"), inputs=(a, b))


@pytest.mark.parametrize(("dtype", "halved"), [("float32", False), ("bfloat16", True)])
def test_instructions_bound_what_they_can_compute(dtype: str, halved: bool) -> None:
    """One that multiplies pairs of bfloat16 is nothing to products of float32."""
    known = target_named("znver5").machine.extensions
    instruction = next(x for x in known if x.name == "vdpbf16ps")
    able = replace(MACHINE, extensions=(instruction,))
    plain, found = (_bound(_product_of(dtype), {}, m)["arithmetic"] for m in (MACHINE, able))
    assert plain > 0
    assert found == (plain / 2 if halved else plain)
