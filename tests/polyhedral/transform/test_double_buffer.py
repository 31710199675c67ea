"""Copies that run an iteration ahead."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.transform.integer_programs import every, gemm, lu, promise, read, refusal
from tests.polyhedral.transform.machine_code import computes
from weft.ir.errors import IllegalScheduleError
from weft.ir.scalar_expr import Literal
from weft.ir.scop import Scop
from weft.polyhedral.transform.cache_read import cache_read
from weft.polyhedral.transform.double_buffer import double_buffer
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import Scheduled, replace_loop
from weft.polyhedral.transform.set_kinds import set_kinds
from weft.polyhedral.transform.tile import tile


def tiled() -> Scheduled:
    return cache_read(tile(initial(gemm()), {"i": 4, "j": 4, "k": 2}), "A", "S0", "k_t", name="L")


def test_two_halves() -> None:
    now = double_buffer(tiled(), "L")
    buffer = now.scop.tensor("L")
    assert [getattr(s, "value", None) for s in buffer.shape[2:]] == [2, 4, 2]
    assert buffer.contracted == 2
    assert isinstance(buffer.shape[2], Literal)
    computes(now, *every(gemm(), (0, 1, 5, 9)))


def test_one_loop() -> None:
    scop = read("for i in range(N):\n B[i] = A[i] * 2", A="in N", B="io N")
    now = double_buffer(cache_read(tile(initial(scop), {"i": 4}), "A", "S0", "i_t"), "A_tile")
    computes(now, *every(scop, (0, 1, 4, 5, 9)))


def test_one_half_is_not_enough() -> None:
    """Early, but into the buffer that is being read."""
    now = double_buffer(tiled(), "L")

    def single(scop: Scop) -> Scop:
        def first(access):  # type: ignore[no-untyped-def]
            if access.tensor != "L":
                return access
            return replace(access, indices=(*access.indices[:2], access.indices[2] * 0,
                                            *access.indices[3:]))  # fmt: skip

        statements = (
            replace(s, reads=tuple(map(first, s.reads)), writes=tuple(map(first, s.writes)))
            for s in scop.statements
        )
        return replace(scop, statements=tuple(statements))

    assert "E0440" in refusal(replace(now, scop=single(now.scop)))


def test_two_iterations_ahead() -> None:
    now = double_buffer(tiled(), "L")
    loop = now.loop("k_t")
    farther = replace(loop, at={**loop.at, "copy_L": loop.at["copy_L"] - 1})
    assert "E0440" in refusal(replace(now, tree=replace_loop(now.tree, "k_t", farther)))


def test_what_is_not_final_an_iteration_before() -> None:
    now = initial(lu())
    early = cache_read(now, "A", "S1", "k", operand=1, name="row")
    promise(early, {"N": 5})
    assert "E0440" in refusal(double_buffer(early, "row"))


def test_refusals() -> None:
    with pytest.raises(IllegalScheduleError, match="WEFT-E0468"):
        double_buffer(tiled(), "A")
    with pytest.raises(IllegalScheduleError, match="no tensor 'nothing'"):
        double_buffer(tiled(), "nothing")
    with pytest.raises(IllegalScheduleError, match="is parallel"):
        double_buffer(set_kinds(tiled(), {"k_t": "parallel"}), "L")
    twice = double_buffer(tiled(), "L")
    with pytest.raises(IllegalScheduleError, match="no loop around"):
        double_buffer(_contracted(twice, 3), "L")


def _contracted(now: Scheduled, count: int) -> Scheduled:
    tensors = tuple(replace(t, contracted=count) if t.name == "L" else t for t in now.scop.tensors)
    return replace(now, scop=replace(now.scop, tensors=tensors))
