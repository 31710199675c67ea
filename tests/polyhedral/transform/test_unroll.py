"""Writing iterations out."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import PROGRAMS, matmul, read
from tests.polyhedral.transform.machine_code import computes, outline
from weft.codegen.from_schedule import build_kernel
from weft.codegen.optimise_kernel import optimise_kernel
from weft.ir.errors import IllegalScheduleError
from weft.ir.loop_ir import For, walk
from weft.ir.scalar_expr import literal
from weft.ir.scop import Scop
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.unroll import unroll


def band(width: int = 3) -> Scop:
    return read(
        f"""
        for i in range(N):
            for j in range(i, i + {width}):
                B[i] += A[j] * A[i]
        """, A=f"in N+{width}", B="io N",
    )  # fmt: skip


def test_golden() -> None:
    now = unroll(initial(matmul()), "k", 4)
    assert outline(now) == "i j { S0; k_t k_p!unrolled { S1 } }"
    computes(now)


def test_as_a_whole() -> None:
    """Bounds may move, as long as there are as many iterations each time."""
    now = unroll(initial(band()), "j")
    assert outline(now) == "i j!unrolled { S0 }"
    computes(now)


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS)
def test_every_loop(program: str) -> None:
    start = initial(PROGRAMS[program]())
    for loop in [x.name for x in start.loops()]:
        start = unroll(start, loop, 2)
    computes(start)


def test_errors() -> None:
    with pytest.raises(IllegalScheduleError, match="E0462") as caught:
        unroll(initial(matmul()), "k")
    assert caught.value.why == "their number depends on sizes"
    assert caught.value.hint == 'unroll("k", 4) writes out four at a time'
    with pytest.raises(IllegalScheduleError, match="E0462") as caught:
        unroll(initial(band(65)), "j")
    assert caught.value.why == "65 of at most 64"
    with pytest.raises(IllegalScheduleError, match="E0462"):
        unroll(initial(matmul()), "k", 65)
    with pytest.raises(IllegalScheduleError, match="E0460"):
        unroll(initial(matmul()), "k", 0)
    with pytest.raises(IllegalScheduleError, match=r"E0450.*'x'"):
        unroll(initial(matmul()), "x", 2)


def test_it_is_written_out() -> None:
    """The emitter unrolls loops of constant bounds; that of the band moves along with i."""
    now = unroll(initial(band()), "j")
    kernel = optimise_kernel(build_kernel(now.scop, now.tree, "test"))
    (unrolled,) = [s for s in walk(kernel.body) if isinstance(s, For) and s.kind == "unrolled"]
    assert (unrolled.lower, unrolled.upper) == (literal(0), literal(3))
