"""What a schedule costs: formulas that hold, a roofline, and text; never an error."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.loop_programs import PROGRAMS, program
from tests.polyhedral.loop_schedules import BANDS, tiled
from tests.polyhedral.scops import Constraint, Var, literal
from tests.polyhedral.transform.harness import chain, lowered, matmul
from weft.codegen.machines.named import target_named
from weft.ir import build as w
from weft.ir import dtypes
from weft.ir.machine import Cache, Machine
from weft.ir.scalar_expr import Expr, Load
from weft.ir.schedule_tree import Tree
from weft.ir.scop import Body, Scop
from weft.polyhedral.analysis.costs import Costs, costs
from weft.polyhedral.schedule_loops import schedule_loops
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.isolate import isolate
from weft.polyhedral.transform.scheduled import Scheduled

MACHINE = Machine("any", 64, 32, (Cache(32 << 10), Cache(1 << 20, bandwidth=48.0)))
SIZES = {"I": 100, "J": 200, "K": 300}


def costs_of(of: Scop, tree: Tree, machine: Machine, sizes: dict[str, int] | None = None) -> Costs:
    return costs(Scheduled(of, of, tree), machine, sizes)


def _gemm() -> Scop:
    """With bodies that compute: C = beta C, C += alpha A B."""
    of = program("gemm")
    loads = [Load(k, (), dtypes.float64) for k in range(3)]
    bodies = (loads[0] * loads[1], loads[0] * loads[1] * loads[2])
    return replace(of, statements=tuple(
        replace(s, body=Body((), (body,))) for s, body in zip(of.statements, bodies, strict=True)
    ))  # fmt: skip


def test_operations_and_instances() -> None:
    of = _gemm()
    found = costs_of(of, initial(of).tree, MACHINE)
    assert {s: str(n) for s, n in found.instances.items()} == {"S0": "I*J", "S1": "I*J*K"}
    kinds = {kind: str(n) for kind, n in found.operations.items()}
    assert kinds == {"fma": "I*J*K", "mul": "I*J*K + I*J"}
    assert str(found.flops) == "3*I*J*K + I*J"
    assert found.exact and not found.missing


@pytest.mark.parametrize("target, points", [("sapphirerapids", 16 * 16 * 64), ("znver4", 16 * 4)])
def test_instructions_that_do_several_products_at_once_take_their_own_time(
    target: str, points: int
) -> None:
    machine = target_named(target).machine
    (own, *_) = (x for x in machine.extensions if x.name in ("tdpbssd", "vpdpbusd"))
    a, b = (w.placeholder((640, 640), dtype=dtypes.int8, name=name) for name in "AB")
    r = w.reduce_axis((0, 640), name="r")

    def product(i: Expr, j: Expr) -> Expr:
        return w.sum(a[i, r].astype(dtypes.int32) * b[r, j].astype(dtypes.int32), r)

    of = lowered(w.compute((640, 640), product, name="C"), inputs=(a, b))
    found = costs(schedule_loops(of, machine), machine).roofline()
    least = 640**3 / points * own.cycles / machine.frequency
    assert found.parts["arithmetic"] == pytest.approx(least, rel=0.02)


def test_parts_of_a_statement_count_as_the_whole() -> None:
    of = program("lu")
    i, k = Var("i"), Var("k")
    apart, _ = isolate(of, "S0", (Constraint(i // 8 - k // 8 - 1),))
    assert len(apart.statements) == 4
    band = {s.name: BANDS["lu"][s.name.removesuffix("_edge")] for s in apart.statements}
    found = costs(Scheduled(of, apart, tiled(apart, band, (8, 8, 8))), MACHINE)
    assert found.exact
    assert {s: str(n) for s, n in found.instances.items()} == {
        "S0": "N**3/6 - N**2/2 + N/3", "S1": "N**2/2 - N/2", "S2": "N**3/6 - N/6",
    }  # fmt: skip


def test_what_parts_of_a_statement_touch_is_counted_once() -> None:
    of = program("lu")
    scheduled = schedule_loops(of, MACHINE)
    assert len(scheduled.scop.statements) > len(of.statements)
    found = costs(scheduled, MACHINE)
    assert {t: str(n) for t, n in found.touched.items()} == {"A": "8*N**2"}


def test_touched_bytes_are_counted_once() -> None:
    of = program("cholesky")
    found = costs_of(of, initial(of).tree, MACHINE)
    assert {t: str(n) for t, n in found.touched.items()} == {"A": "4*N**2 + 4*N"}


def test_levels() -> None:
    of = _gemm()
    found = costs_of(of, tiled(of, BANDS["gemm"], (256, 256, 256), (32, 32, 32)), MACHINE)
    first, second = found.levels
    assert (first.name, second.name) == ("L1", "L2")
    assert first.bandwidth == 48.0 * MACHINE.frequency
    assert second.bandwidth == MACHINE.memory_bandwidth
    assert str(first.moved["B"]) == "I*J*K/4" and str(second.moved["B"]) == "I*J*K/32"
    tile = 3 * 32 * 32 * 8
    assert tile <= found.tiles["c2_1"] <= tile + 64


def test_parallel_loops() -> None:
    of = _gemm()
    tree = tiled(of, BANDS["gemm"], (32, 32, 32), kinds="ppsp")
    found = costs_of(of, tree, MACHINE)
    assert {name: str(n) for name, n in found.parallel.items()} == {"c0": "32", "c1": "1024"}
    flat = costs_of(of, tiled(of, BANDS["gemm"], kinds="pps"), MACHINE)
    assert {name: str(n) for name, n in flat.parallel.items()} == {"c0": "I", "c1": "I*J"}
    assert flat.parallelism == 1e6 and costs_of(of, initial(of).tree, MACHINE).parallelism == 1
    tiles = {s: (v[0] // 32, *v) for s, v in BANDS["gemm"].items()}
    outer = costs_of(of, tiled(of, tiles, kinds="p"), MACHINE)
    assert {name: str(n) for name, n in outer.parallel.items()} == {"c0": "I/32"}


def test_roofline() -> None:
    of = _gemm()
    found = costs_of(of, initial(of).tree, MACHINE, SIZES)
    roof = found.roofline()
    assert roof.sizes == SIZES and roof.flops == 3 * 100 * 200 * 300 + 100 * 200
    vectors = (2 * 100 * 200 * 300 + 100 * 200) / 8
    assert roof.parts["arithmetic"] == pytest.approx(vectors / 2 / 3e9)
    moved = {level.name: float(level.total.value(SIZES)) for level in found.levels}
    assert roof.parts["into L1"] == pytest.approx(moved["L1"] / (48 * 3e9))
    assert roof.parts["into L2"] == pytest.approx(moved["L2"] / 12e9)
    assert roof.seconds == max(roof.parts.values()) == roof.parts[roof.bound]
    bigger = found.roofline({"I": 1000, "J": 2000, "K": 3000})
    assert bigger.parts["arithmetic"] == pytest.approx(1000 * roof.parts["arithmetic"], rel=0.01)


def test_threads_help_where_loops_are_parallel() -> None:
    of = _gemm()
    serial = costs_of(of, initial(of).tree, MACHINE, SIZES)
    parallel = costs_of(of, tiled(of, BANDS["gemm"], kinds="pss"), MACHINE, SIZES)
    arithmetic = serial.roofline().parts["arithmetic"]
    assert serial.roofline(threads=4).parts["arithmetic"] == arithmetic
    assert parallel.roofline(threads=4).parts["arithmetic"] == pytest.approx(arithmetic / 4)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_has_costs(name: str) -> None:
    of = program(name)
    trees = [initial(of).tree]
    if name in BANDS:
        trees.append(tiled(of, BANDS[name], (16,) * len(next(iter(BANDS[name].values())))))
    for tree in trees:
        found = costs_of(of, tree, MACHINE)
        assert not found.missing and found.exact
        text = found.text()
        assert (
            "operations: " in text
            and "into L2 (1 MiB): about " in text
            and "for sizes like" in text
        )
        assert all(level.total.terms for level in found.levels)
        assert {t.name for t in of.tensors} == set(found.touched)


def test_tensor_programs() -> None:
    for of in (chain(8), chain(Var("n")), matmul(9, 7, 5)):
        found = costs_of(of, initial(of).tree, MACHINE)
        assert not found.missing and "at least" in found.text()
    assert costs_of(chain(8), initial(chain(8)).tree, MACHINE).roofline().sizes == {}


def test_derived_sizes_are_written_out() -> None:
    of = program("jacobi-1d")
    both = replace(of, parameters=("T", "N", "M"), derived=(("N", Var("M") * Var("M")),))
    found = costs_of(both, initial(both).tree, MACHINE, {"T": 10, "M": 7})
    assert str(found.instances["S0"]) == "M**2*T - 2*T"
    assert found.roofline().sizes == {"M": 7, "T": 10}


def test_no_estimate_is_said_and_nothing_raised() -> None:
    of = program("jacobi-1d")
    endless = replace(of.statements[0], domain=(Constraint(Var("i")), Constraint(Var("t"))))
    broken = replace(of, statements=(endless, *of.statements[1:]))
    found = costs_of(broken, initial(broken).tree, MACHINE)
    assert found.missing and found.text().startswith("no estimate: ")
    assert found.roofline().seconds == 0 and found.parallelism == 1
    never = replace(of.statements[0], domain=(*of.statements[0].domain, Constraint(literal(-1))))
    empty = replace(of, statements=(never,))
    assert str(costs_of(empty, initial(empty).tree, MACHINE).instances["S0"]) == "0"
    nothing = replace(of, statements=(), tensors=())
    assert not costs_of(nothing, initial(nothing).tree, MACHINE).missing
