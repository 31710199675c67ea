"""Reads that go to a local copy of a tile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.polyhedral.transform.blocked_lu import left_looking, right_looking
from tests.polyhedral.transform.integer_programs import (
    every,
    gemm,
    matmul,
    promise,
    read,
    refusal,
    stencil,
    triangular,
)
from tests.polyhedral.transform.machine_code import computes
from weft.ir.errors import IllegalScheduleError
from weft.ir.scalar_expr import Literal, Var
from weft.ir.schedule_tree import Sequence, Tree, statements_below
from weft.ir.scop import Scop, Statement
from weft.ir.scop_printer import statement_text
from weft.polyhedral.transform.cache_read import cache_read
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import Scheduled, rewrite
from weft.polyhedral.transform.set_kinds import set_kinds
from weft.polyhedral.transform.tile import tile


def tiled() -> Scheduled:
    return tile(initial(gemm()), {"i": 4, "j": 4, "k": 2})


def stored(now: Scheduled, name: str) -> list[object]:
    """The sizes that have storage; None: parametric."""
    t = now.scop.tensor(name)
    return [int(s.value) if isinstance(s, Literal) else None for s in t.shape[t.contracted :]]


def test_golden() -> None:
    now = cache_read(tiled(), "A", "S0", "k_t", name="L")
    assert statement_text(now.scop.statements[-1]) == (
        "copy_L[i_t, j_t, k_t, L_0, L_1] at ()\n"
        "  where i_t >= 0 and j_t >= 0 and N - j_t * 4 - 1 >= 0 and k_t >= 0 and L_0 >= 0"
        " and 3 - L_0 >= 0 and M - L_0 - i_t * 4 - 1 >= 0 and L_1 >= 0 and 1 - L_1 >= 0"
        " and K - L_1 - k_t * 2 - 1 >= 0\n"
        "  r0 = A[L_0 + i_t * 4, L_1 + k_t * 2]\n"
        "  L[i_t, j_t, k_t, L_0, L_1] = r0"
    )
    assert [str(step) for step in now.steps][-1] == 'cache_read("A", "S0", "k_t", name="L")'


LAYOUTS: dict[str, dict[str, object]] = {
    "as it is": {},
    "transposed": {"order": [1, 0]},
    "panels": {"panels": {0: 2}},
    "panels of a transposed tile": {"order": [1, 0], "panels": {0: 3}},
    "padded": {"panels": {0: 3, 1: 2}, "pad": True},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str) -> None:
    now = cache_read(tiled(), "A", "S0", "k_t", **LAYOUTS[layout])  # type: ignore[arg-type]
    now = cache_read(now, "B", "S0", "j_t", **LAYOUTS[layout])  # type: ignore[arg-type]
    computes(now, *every(now.original, (0, 1, 5)))


def test_sizes_of_buffers() -> None:
    now = tiled()
    assert stored(cache_read(now, "A", "S0", "k_t"), "A_tile") == [4, 2]
    assert stored(cache_read(now, "A", "S0", "j_t"), "A_tile") == [4, None]
    assert stored(cache_read(now, "A", "S0", "i_p"), "A_tile") == [2]
    assert stored(cache_read(now, "A", "S0", "k_p"), "A_tile") == []
    assert stored(cache_read(now, "A", "S0", "k_t", panels={0: 3}), "A_tile") == [2, 2, 3]
    panels = cache_read(now, "A", "S0", "k_t", order=[1, 0], panels={0: 2})
    assert stored(panels, "A_tile") == [2, 2, 2]


def test_two_levels() -> None:
    """What is read of a copy may be copied again."""
    now = cache_read(tile(tiled(), {"i_p": 2}), "A", "S0", "k_t", name="L2")
    now = cache_read(now, "L2", "S0", "i_p_t", name="L1")
    promise(now, *every(now.original, (0, 1, 7)))


def test_a_parallel_loop_outside() -> None:
    now = cache_read(set_kinds(tiled(), {"i_t": "parallel"}), "B", "S0", "k_t")
    computes(now, *every(now.original, (1, 5)))


def test_halo() -> None:
    """A tile of a stencil reads its neighbours too; in place, the copy keeps old values only of
    what nobody changes meanwhile."""
    now = tile(initial(stencil()), {"i": 4})
    now = cache_read(now, "A", "S0", "i_t", name="L")
    assert stored(now, "L") == [6]
    computes(now, *every(now.original, (0, 1, 2, 9)))


def test_triangle() -> None:
    now = tile(initial(triangular()), {"k": 4})
    promise(cache_read(now, "A", "S0", "k_t"), *every(now.original, (0, 1, 6)))
    promise(cache_read(now, "B", "S0", "k_t"), *every(now.original, (0, 1, 6)))


@pytest.mark.parametrize("lu", [left_looking, right_looking])
def test_lu_in_place(lu: Callable[[], Scheduled]) -> None:
    """The blocks that an update reads are final when it starts."""
    now = cache_read(lu(), "A", "S1", "k_t", operand=0, order=[1, 0], panels={0: 4})
    now = cache_read(now, "A", "S1", "k_t", operand=1)
    computes(now, {"N": 0}, {"N": 9}, {"N": 13})


def test_a_copy_that_comes_too_early() -> None:
    """Before the panel is factored, its elements are not final."""
    for where in ({"before": "S0"}, {"after": "S1"}):
        now = cache_read(right_looking(), "A", "S1", "k_t", operand=1, **where)  # type: ignore
        assert "E0440" in refusal(now)
    good = cache_read(right_looking(), "A", "S1", "k_t", operand=1, after="S1_edge_2")
    promise(good, {"N": 9})
    assert "E0440" in refusal(cache_read(left_looking(), "A", "S1", "i_t", operand=0))
    promise(cache_read(left_looking(), "A", "S1", "j_t", operand=0), {"N": 9})


def test_what_changes_within_the_iteration() -> None:
    scop = read("for i in range(1, N):\n A[i] = A[i - 1] + B[i]", A="io N", B="in N")
    assert "E0440" in refusal(cache_read(tile(initial(scop), {"i": 4}), "A", "S0", "i_t"))
    promise(cache_read(tile(initial(scop), {"i": 4}), "B", "S0", "i_t"), *every(scop))


def broken(now: Scheduled, change: Callable[[Scop], Scop]) -> Scheduled:
    return replace(now, scop=change(now.scop))


def test_mutations_are_caught() -> None:
    """A halo that is too small, a copy elsewhere, a read next to where it should be."""
    now = cache_read(tile(initial(stencil()), {"i": 4}), "A", "S0", "i_t", name="L")
    assert refusal(now) == ""

    def smaller(scop: Scop) -> Scop:
        copy = scop.statements[-1]
        last = 4 - Var("L_0")  # 5 of 6 elements
        return _with(scop, replace(copy, domain=(*copy.domain, type(copy.domain[0])(last))))

    def displaced(scop: Scop) -> Scop:
        copy = scop.statements[-1]
        (access,) = copy.reads
        moved = replace(access, indices=tuple(i + 1 for i in access.indices))
        return _with(scop, replace(copy, reads=(moved,)))

    def misread(scop: Scop) -> Scop:
        reader = scop.statement("S0")
        reads = (replace(reader.reads[0], indices=reader.reads[1].indices), *reader.reads[1:])
        return _with(scop, replace(reader, reads=reads))

    assert "E0440" in refusal(broken(now, smaller))
    assert "E04" in refusal(broken(now, displaced))
    assert "E0440" in refusal(broken(now, misread))

    def behind(node: Tree) -> Tree | None:
        if isinstance(node, Sequence) and ("copy_L",) in map(statements_below, node.children):
            return Sequence(tuple(reversed(node.children)))
        return None

    assert "E0440" in refusal(replace(now, tree=rewrite(now.tree, behind)))


def _with(scop: Scop, changed: Statement) -> Scop:
    return replace(
        scop, statements=tuple(changed if s.name == changed.name else s for s in scop.statements)
    )


def test_a_parallel_loop_needs_a_copy_of_its_own() -> None:
    """Shared by the threads, one buffer would hold two tiles at a time."""
    now = cache_read(tiled(), "B", "S0", "k_t", name="L")
    shared = replace(now.scop.tensor("L"), contracted=0)
    tensors = tuple(shared if t.name == "L" else t for t in now.scop.tensors)
    wide = replace(now, scop=replace(now.scop, tensors=tensors))
    promise(set_kinds(wide, {"i_t": "parallel"}), {"M": 5, "N": 5, "K": 3})

    def one_for_all(scop: Scop) -> Scop:
        """Without i_t among its dims."""

        def drop(a):  # type: ignore[no-untyped-def]
            return replace(a, indices=a.indices[1:]) if a.tensor == "L" else a

        tensors = tuple(
            replace(t, shape=t.shape[1:], contracted=t.contracted - 1) if t.name == "L" else t
            for t in scop.tensors
        )
        statements = tuple(
            replace(s, reads=tuple(map(drop, s.reads)), writes=tuple(map(drop, s.writes)))
            for s in scop.statements
        )
        return replace(scop, tensors=tensors, statements=statements)

    assert refusal(broken(now, one_for_all)) == ""  # each thread has its own anyway
    leaky = replace(broken(wide, one_for_all), tree=set_kinds(wide, {"i_t": "parallel"}).tree)
    assert "E04" in refusal(leaky)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("A", "S1", "k_t"), "E0451"),
        (("A", "S0", "z"), "E0450"),
        (("C", "S0", "k_t"), "does not read it"),
        (("A", [], "k_t"), "no statement"),
    ],
)
def test_refusals(arguments: tuple[str, str, str], reason: str) -> None:
    with pytest.raises(IllegalScheduleError, match=reason):
        cache_read(tiled(), *arguments)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"order": [0]}, "does not name each"),
        ({"panels": {2: 4}}, "cut into panels"),
        ({"panels": {0: 0}}, "cut into panels"),
        ({"operand": 1}, "as operand 1"),
        ({"before": "S7"}, "E0470"),
    ],
)
def test_wrong_options(options: dict[str, object], reason: str) -> None:
    with pytest.raises(IllegalScheduleError, match=reason):
        cache_read(tiled(), "A", "S0", "k_t", **options)  # type: ignore[arg-type]


def test_reads_that_share_no_box() -> None:
    with pytest.raises(IllegalScheduleError, match="no box of closed form") as caught:
        cache_read(left_looking(), "A", "S1", "k_t")  # A[i, k] and A[k, j]
    assert caught.value.code == "WEFT-E0465"


def test_outside_the_loop() -> None:
    now = tile(initial(matmul()), {"k": 2})
    with pytest.raises(IllegalScheduleError, match="E0470"):
        cache_read(now, "C", "S0", "k_t")
