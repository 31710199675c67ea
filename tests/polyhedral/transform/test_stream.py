"""Stores past the caches, by the names of tensors."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import matmul, read
from tests.polyhedral.transform.machine_code import computes
from tests.polyhedral.transform.test_tensorize import tiled
from weft.codegen.from_schedule import build_kernel
from weft.codegen.software_prefetch import software_prefetch
from weft.codegen.stream_stores import stream_stores
from weft.ir.errors import IllegalScheduleError
from weft.ir.loop_ir import Kernel, Store, walk
from weft.ir.schedule_printer import print_schedule
from weft.ir.schedule_tree import payloads, statements_below
from weft.ir.scop import Scop
from weft.polyhedral.analysis.nests import nests
from weft.polyhedral.proof.legality import check
from weft.polyhedral.transform.cut import cut
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import Scheduled
from weft.polyhedral.transform.set_kinds import set_kinds, vectorize
from weft.polyhedral.transform.stream import stream
from weft.polyhedral.transform.tensorize import tensorize

CHAIN = """
    for i in range(N):
        Y[i] = X[i] + 1
    for i in range(N):
        Z[i] = Y[i] * 2
"""


def chain() -> Scheduled:
    scop: Scop = read(CHAIN, X="in N", Y="io N", Z="io N")
    return vectorize(vectorize(initial(scop), "i"), "i_2")


def kernel_of(now: Scheduled) -> Kernel:
    return stream_stores(software_prefetch(build_kernel(now.scop, now.tree, "test")), 64)


def past_caches(kernel: Kernel) -> set[str]:
    return {s.buffer for s in walk(kernel.body) if isinstance(s, Store) and s.streams is not None}


def test_nests_that_read_it_store_it_as_before() -> None:
    """Y is stored by one nest and read by the other; a kernel of both reads it."""
    now = stream(stream(chain(), "Y"), "Z", 4096, 512)
    assert [str(step) for step in now.steps[-2:]] == ['stream("Y")', 'stream("Z", 4096, 512)']
    first, second = nests(now.scop, now.tree)
    assert "mark Streamed('Y', nest=0, own=0)\n    S0" in print_schedule(first)
    assert "mark Streamed('Z', nest=4096, own=512)\n    S1" in print_schedule(second)
    computes(now)


@pytest.mark.parametrize(("n", "past"), [(1023, False), (1024, True)])
def test_sizes_decide(n: int, past: bool) -> None:
    """X and Y are 16 bytes an element, Y 8."""
    text = CHAIN.split("    for")[1].replace("N", str(n))
    scop = read("for" + text, X=f"in {n}", Y=f"io {n}")
    for nest, own in ((16 * 1024 - 1, 0), (0, 8 * 1024 - 1)):
        now = stream(vectorize(initial(scop), "i"), "Y", nest, own)
        assert past_caches(kernel_of(now)) == ({"Y"} if past else set())


def test_register_tiles_stream_and_stay_tiles() -> None:
    before = stream(tensorize(tiled(), ["k"], ["i_S1_p"], "j_S1_p"), "C")
    after = tensorize(stream(tiled(), "C"), ["k"], ["i_S1_p"], "j_S1_p")
    assert before.tree == after.tree
    computes(before)
    plain = set_kinds(before, {"k": "serial"})
    computes(plain)
    assert len(payloads(plain.tree)) == 1


def test_the_last_word_counts() -> None:
    assert stream(stream(chain(), "Y", 8), "Y", 9).tree == stream(chain(), "Y", 9).tree


def test_a_part_that_is_cut_off_is_no_longer_marked() -> None:
    now = cut(stream(chain(), "Z"), "S1", ["i < 3"])
    check(now.scop, now.tree)
    assert "Streamed" not in print_schedule(now.tree)
    assert len(statements_below(now.tree)) == 3


def test_errors() -> None:
    with pytest.raises(IllegalScheduleError, match=r"E0452.*'W'"):
        stream(chain(), "W")
    for sizes in ((-1, 0), (0, True), (0, "1")):
        with pytest.raises(IllegalScheduleError, match="E0460"):
            stream(chain(), "Y", *sizes)  # type: ignore[arg-type]
    for tensor, now in (("X", chain()), ("A", initial(matmul()))):
        with pytest.raises(IllegalScheduleError, match="E0425") as caught:
            stream(now, tensor)
        assert caught.value.why == "no nest writes it without reading it"


def test_several_tensors_in_one_step() -> None:
    now = chain()
    both = stream(now, ["Y", "Z"], 8, 8)
    assert both.tree == stream(stream(now, "Y", 8, 8), "Z", 8, 8).tree
    assert str(both.steps[-1]) == 'stream(["Y", "Z"], 8, 8)'
    with pytest.raises(IllegalScheduleError, match="WEFT-E0452"):
        stream(now, [])
    with pytest.raises(IllegalScheduleError, match="WEFT-E0452"):
        stream(now, ["Y", "W"])
