"""Intervals that dims stay in."""

from __future__ import annotations

from tests.polyhedral.transform.integer_programs import read
from weft.ir.scalar_affine import Affine
from weft.ir.scop import Statement
from weft.polyhedral.analysis.intervals import certain, extents, facts, ranges_of, restricted


def triangle() -> tuple[Statement, dict[str, object]]:
    scop = read("for i in range(2, 9):\n for j in range(i, N):\n  A[i] = B[j]", A="io 9", B="in N")
    (s,) = scop.statements
    return s, {"scop": scop}


def test_ranges_of_a_triangle() -> None:
    s, more = triangle()
    ranges = ranges_of(more["scop"], s)  # type: ignore[arg-type]
    assert (ranges["i"], ranges["j"]) == ((2, 8), (2, None))
    assert extents(["i"], ranges) == [7] and extents(["i", "j"], ranges) is None
    cut = ranges_of(more["scop"], s, [Affine((("j", -1),), 5)])  # type: ignore[arg-type]
    assert (cut["i"], cut["j"]) == ((2, 5), (2, 5))
    assert extents(["i", "j"], cut) == [4, 4]
    assert certain(Affine((("i", 1),), -2), cut) and not certain(Affine((("i", 1),), -3), cut)


def test_restricted_replaces_what_constants_alone_bound() -> None:
    s, more = triangle()
    cut = restricted(s, {"i": (3, 5), "j": (3, None)})
    assert len(cut.domain) == len(s.domain) + 1  # two ends of i, one of j; j >= i and j < N stay
    ranges = ranges_of(more["scop"], cut)  # type: ignore[arg-type]
    assert (ranges["i"], ranges["j"]) == ((3, 5), (3, None))
    assert set(facts(s.domain)) - set(facts(cut.domain)) == {
        Affine((("i", 1),), -2),
        Affine((("i", -1),), 8),
    }
