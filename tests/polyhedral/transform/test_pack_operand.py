"""Packing operands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.transform.harness import (
    AWKWARD,
    lowered,
    matmul,
    promise,
    random_scops,
    refusal,
    tensor,
)
from tests.polyhedral.transform.test_inline_producer import gathered, overwritten, padded
from weft.errors import IllegalScheduleError
from weft.frontend import build as w
from weft.frontend.scalar_expr import Var, literal
from weft.polyhedral.scop import Constraint, Scop
from weft.polyhedral.scop_printer import scop_text
from weft.polyhedral.transform.pack_operand import pack_operand, why_not_pack

ORDER = ("i", "j", "r")


def packed(of: Scop, operand: int = 1, dim: str = "j", width: int = 4) -> Scop:
    return pack_operand(of, "C_add", operand, dim, width, ORDER)[0]


def test_golden() -> None:
    lines = scop_text(packed(matmul(4, 6, 3, relu=False))).splitlines()
    assert lines[4:8] == [
        "  temp B_packed: int64[2, 3, 4]",
        "  pack_B[tile, r, lane] at (0, tile, 0, r, 0, lane, 0)",
        "    where tile >= 0 and lane >= 0 and 3 - lane >= 0 and 5 - (tile * 4 + lane) >= 0"
        " and r >= 0 and 2 - r >= 0",
        "    r0 = B[r, tile * 4 + lane]",
    ]
    assert "    r1 = B_packed[j // 4, r, j % 4]" in lines


@pytest.mark.parametrize("n", AWKWARD)
@pytest.mark.parametrize("width", [1, 4, 8])
def test_sizes(n: int, width: int) -> None:
    of = matmul(3, n, 2, relu=False)
    promise(of, packed(of, width=width))


@pytest.mark.parametrize("operand, dim", [(0, "i"), (0, "r"), (1, "r"), (1, "j")])
def test_either_operand_along_either_dim(operand: int, dim: str) -> None:
    of = matmul(5, 3, 7, relu=False)
    promise(of, packed(of, operand, dim))


def test_symbolic_sizes_and_awkward_names() -> None:
    """Parameters may be called like the dims of the copy."""
    of = matmul(w.var("m"), w.var("tile"), w.var("lane"), relu=False)
    sizes = ({"m": 2, "tile": n, "lane": 3} for n in AWKWARD)
    promise(of, packed(of), *sizes)


def test_a_tensor_that_is_computed_first() -> None:
    x, b = tensor("X", 3, 4), tensor("B", 5, 4)
    r = w.reduce_axis((0, 4), name="r")
    t = w.compute((5, 4), lambda i, j: b[i, j] * 2, name="T")
    c = w.compute((3, 5), lambda i, j: w.sum(x[i, r] * t[j, r], r), name="C")
    of = lowered(c, inputs=(x, b))
    now = packed(of)
    names = [s.name for s in now.statements]
    assert names.index("T") < names.index("pack_T") < names.index("C_add")
    promise(of, now)


def test_a_bound_that_is_off_by_one_is_refused() -> None:
    of = matmul(4, 6, 3, relu=False)
    now = packed(of)
    copy = now.statement("pack_B")

    def changed(limit: int) -> Scop:
        end = literal(limit) - (Var("tile") * 4 + Var("lane"))
        domain = (*copy.domain[:3], Constraint(end), *copy.domain[4:])
        return replace(
            now, statements=(replace(copy, domain=domain), *(s for s in now.statements[1:]))
        )

    assert refusal(of, changed(5)) == ""
    text = refusal(of, changed(4))
    assert "WEFT-E0440" in text and "what C_add reads of" in text and "j=5" in text
    text = refusal(of, changed(6))
    assert "WEFT-E0430" in text and "touches B[" in text and ", 6] of shape [3, 6]" in text


def test_a_copy_from_elsewhere_is_refused() -> None:
    of = matmul(4, 6, 3, relu=False)
    now = packed(of)
    copy = now.statement("pack_B")
    swapped = (
        replace(copy.reads[0], indices=(Var("r"), literal(5) - (Var("tile") * 4 + Var("lane")))),
    )
    text = refusal(of, replace(now, statements=(replace(copy, reads=swapped), *now.statements[1:])))
    assert "WEFT-E0440" in text and "sees B[" in text and "should see B[" in text


def test_random_programs() -> None:
    """Every operand along every dim that ``why_not_pack`` lets through."""
    done = 0
    for of, sizes in random_scops(15, seed=900):
        now = of
        for s in of.statements:
            for operand in range(len(s.reads)):
                dim = next((d for d in s.dims if not why_not_pack(now, s.name, operand, d)), None)
                if dim is not None and s.update is not None:
                    now, _ = pack_operand(now, s.name, operand, dim, 3, s.dims[::-1])
                    done += 1
        if now is not of:
            promise(of, now, sizes)
    assert done > 5


def square() -> Scop:
    """C[i] = sum over r of A[r, r] + i: a diagonal."""
    a = tensor("A", 4, 4)
    r = w.reduce_axis((0, 4), name="r")
    return lowered(w.compute((3,), lambda i: w.sum(a[r, r] + i, r), name="C"), inputs=(a,))


@pytest.mark.parametrize(
    "of, statement, dim, reason",
    [
        (matmul, "C_add", "i", "B is not read along i"),
        (square, "C_add", "r", "not read along r"),
        (lambda: gathered(at_first=False), "Y", "i", "under a condition or at data-dependent"),
        (padded, "Y", "i", "under a condition"),
        (overwritten, "T", "i", "X is written in or after the nest"),
    ],
)
def test_refusals(of, statement: str, dim: str, reason: str) -> None:  # type: ignore[no-untyped-def]
    scop = of()
    operand = len(scop.statement(statement).reads) - 1
    assert reason in why_not_pack(scop, statement, operand, dim)
    with pytest.raises(IllegalScheduleError, match=r"WEFT-E0456") as caught:
        pack_operand(scop, statement, operand, dim, 4, ())
    assert reason in caught.value.why


def test_a_dim_that_an_index_names_in_vain() -> None:
    of = matmul(5, 3, 7, relu=False)
    add = of.statement("C_add")
    in_vain = replace(add.reads[1], indices=(Var("i") - Var("i") + Var("r"), Var("j")))
    vain = replace(add, reads=(add.reads[0], in_vain))
    changed = replace(of, statements=tuple(vain if s is add else s for s in of.statements))
    promise(of, packed(changed))
