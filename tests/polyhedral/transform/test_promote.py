"""Temporaries that become local to an iteration."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.polyhedral.transform.harness import (
    AWKWARD,
    chain,
    i,
    matmul,
    promise,
    random_scops,
    refusal,
    stencil,
)
from tests.polyhedral.transform.test_share import fused
from weft.ir import build as w
from weft.ir.errors import IllegalScheduleError
from weft.ir.scalar_expr import Expr, literal
from weft.ir.schedule_tree import Sequence
from weft.ir.scop import Scop
from weft.ir.scop_printer import scop_text
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.promote import promote
from weft.polyhedral.transform.scheduled import Scheduled
from weft.polyhedral.transform.sink import sink
from weft.polyhedral.transform.tile import tile


def tiled(of: Scop, size: int = 4) -> Scheduled:
    return sink(tile(fused(of), {"s0": size}), ["s0_p"])


def test_golden() -> None:
    now = promote(tiled(chain()), "T", ["s0_t"])
    assert scop_text(now.scop) == (
        "scop test()\n"
        "  input X: int64[8]\n"
        "  output Y: int64[8]\n"
        "  temp T: int64[2, 4] local, contracted 1\n"
        "  T[i] at (0, i, 0)\n"
        "    where i >= 0 and 7 - i >= 0\n"
        "    r0 = X[i]\n"
        "    T[i // 4, i % 4] = r0 * 2\n"
        "    for 'T'\n"
        "  Y[i] at (1, i, 0)\n"
        "    where i >= 0 and 7 - i >= 0\n"
        "    r0 = T[i // 4, i % 4]\n"
        "    Y[i] = r0 + 1\n"
        "    for 'Y'\n"
    )


def test_an_untiled_loop_takes_a_whole_dimension() -> None:
    local = promote(fused(matmul(), 2), "C", ["s0", "s1"], scope="register").scop.tensor("C")
    assert (len(local.shape), local.contracted, local.scope) == (2, 2, "register")


def test_the_innermost_dimension() -> None:
    """A register tile that is contiguous along the vector, whatever the tensor's own order."""
    of = matmul(9, 8, 3)
    now = sink(tile(fused(of, 2), {"s0": 4, "s1": 2}), ["s0_p", "s1_p"])
    now = promote(now, "C", ["s0_t", "s1_t"], innermost="s0_t")
    assert [str(getattr(s, "value", s)) for s in now.scop.tensor("C").shape] == ["3", "4", "2", "4"]
    promise(of, now)


@pytest.mark.parametrize("n", AWKWARD)
def test_sizes(n: int) -> None:
    of = chain(n)
    promise(of, promote(tiled(of), "T", ["s0_t"]))
    of = matmul(n, 3, 2)
    promise(of, promote(fused(of, 2), "C", ["s0", "s1"]))


def test_a_symbolic_size() -> None:
    of = chain(w.var("n"))
    promise(of, promote(tiled(of), "T", ["s0_t"]), *({"n": n} for n in AWKWARD))


def test_storage_that_another_tile_still_needs_is_refused() -> None:
    """All of T is written before any of Y reads: one tile's storage is not enough."""
    now = promote(tiled(chain()), "T", ["s0_t"])
    apart = Sequence(initial(chain()).tree.children)  # type: ignore[union-attr]
    assert "WEFT-E0423" in refusal(chain(), replace(now, tree=apart))


def _broken(now: Scheduled, *indices: Expr) -> Scheduled:
    """``now`` with Y reading T at other indices."""
    y = now.scop.statement("Y")
    reads = (replace(y.reads[0], indices=indices),)
    statements = tuple(replace(s, reads=reads) if s is y else s for s in now.scop.statements)
    return replace(now, scop=replace(now.scop, statements=statements))


def test_broken_indices_are_refused() -> None:
    now = promote(tiled(chain()), "T", ["s0_t"])
    text = refusal(chain(), _broken(now, i // 4, literal(3) - i % 4))
    assert "WEFT-E0440" in text and "what Y reads of T" in text
    assert re.search(r"Y\[i=(.)\] reads .*: it sees T\[i=.\], but should see T\[i=\1\]", text)
    text = refusal(chain(), _broken(now, i // 4, i % 4 + 1))
    assert "WEFT-E0430" in text and "Y[i=3] touches T[0, 4] of shape [2, 4]" in text
    assert refusal(chain(), _broken(now, (i + 1) // 4, i % 4))
    assert refusal(chain(), _broken(now, literal(0), i % 4))


def test_random_programs() -> None:
    """All that ``promote`` accepts under fused loops is legal and computes the same."""
    promoted = 0
    for of, sizes in random_scops(20, seed=600):
        names = [s.name for s in of.statements]
        for first, second in pairwise(names):
            try:
                now = tile(fused(of, 1, (first, second)), {"s0": 3})
            except (IllegalScheduleError, IndexError):
                continue
            for t in of.tensors:
                if t.role != "temp":
                    continue
                try:
                    after = promote(now, t.name, ["s0_t"])
                except IllegalScheduleError:
                    continue
                if not refusal(of, replace(now, scop=of)):
                    promoted += 1
                    promise(of, after, sizes)
    assert promoted > 2


def test_errors() -> None:
    of = chain()
    with pytest.raises(IllegalScheduleError, match=r"E0452.*Y is no temporary"):
        promote(fused(of), "Y", ["s0"])
    with pytest.raises(IllegalScheduleError, match=r"E0452.*T is local already"):
        promote(promote(fused(of), "T", ["s0"]), "T", ["s0"])
    with pytest.raises(IllegalScheduleError, match=r"E0453.*not private.*loop i"):
        promote(initial(of), "T", ["i"])
    with pytest.raises(IllegalScheduleError, match=r"E0453"):
        promote(fused(stencil()), "T", ["s0"])
    with pytest.raises(IllegalScheduleError, match=r"E0450"):
        promote(fused(of), "T", ["x"])
