"""Floors that a tile's loop decides: the same value wherever the loop goes, and no others."""

from __future__ import annotations

import random

import pytest

from weft.codegen.simplify import start, without_floors
from weft.ir import dtypes
from weft.ir.scalar_expr import Apply, Expr, Literal, Var, apply, literal, substitute, walk
from weft.ir.scalar_simplify import simplify


def _var(name: str) -> Expr:
    return Var(name, dtypes.int64)


T, K, N = _var("t"), _var("k"), _var("N")


def _value(expr: Expr, **values: int) -> int:
    found = simplify(substitute(expr, {n: literal(v) for n, v in values.items()}))
    assert isinstance(found, Literal)
    return int(found.value)


def _floors(expr: Expr) -> bool:
    return any(isinstance(n, Apply) and n.op == "floordiv" for n in walk(expr))


@pytest.mark.parametrize("size", [1, 2, 8, 384])
def test_inside_of_a_tile_its_number_is_known(size: int) -> None:
    begin, end = T * size, apply("min", T * size + size, N)
    near = start(begin, end, {}, {})
    found = without_floors(simplify(K - K // size * size), {}, {"k": near}) if near else K // size
    assert not _floors(found)
    for t in (0, 1, 5):
        for k in {t * size, t * size + size - 1}:
            assert _value(found, k=k, t=t) == k - t * size


def test_bounds_may_be_bound_by_lets() -> None:
    lets = {"a": T * 384, "b": apply("min", T * 384 + 384, N)}
    near = start(_var("a"), _var("b"), {}, lets)
    assert near is not None
    assert without_floors(K // 384, {}, {"k": near}) == T


@pytest.mark.parametrize("swapped", [False, True])
def test_a_loop_that_begins_at_the_greatest_of_two_values(swapped: bool) -> None:
    """Triangles: the steps of a tile, from a row of another one on."""
    parts = (_var("i") * 216 + 216, T * 384)
    begin = apply("max", *(parts[::-1] if swapped else parts))
    near = start(begin, apply("min", T * 384 + 384, N), {}, {})
    assert near is not None
    assert without_floors(K // 384, {}, {"k": near}) == T
    assert _floors(without_floors(K // 383, {}, {"k": near}))


def test_neither_of_two_values_bounds_the_loop() -> None:
    assert start(apply("max", T * 384, _var("i")), N, {}, {}) is None


def test_a_tile_of_tiles() -> None:
    near = start(T * 120, T * 120 + 120, {}, {})
    assert near is not None
    point = _var("i") + K * 8
    assert without_floors(point // 960, {"i": (0, 7)}, {"k": near}) == T
    assert _floors(without_floors(point // 960, {"i": (0, 8)}, {"k": near}))


def test_what_may_reach_the_next_tile_stays() -> None:
    for begin, end in [(T * 8, T * 8 + 9), (T * 8 + 1, T * 8 + 9), (T * 8, N), (T * 4, T * 4 + 8)]:
        near = start(begin, end, {}, {})
        starts = {} if near is None else {"k": near}
        assert _floors(without_floors(K // 8, {}, starts))


def test_random_tiles_keep_their_values() -> None:
    rng = random.Random(7)
    for _ in range(300):
        step, offset = rng.randint(1, 12), rng.randint(-5, 5)
        size, divisor = rng.randint(1, 12), rng.randint(2, 12)
        begin = T * step + offset
        near = start(begin, begin + size, {}, {})
        assert near is not None
        expr = (K * rng.choice([1, 2, 3]) + rng.randint(-9, 9)) // divisor + K // 3
        found = without_floors(simplify(expr), {}, {"k": near})
        for t in range(-3, 4):
            for k in range(t * step + offset, t * step + offset + size):
                assert _value(found, k=k, t=t) == _value(expr, k=k, t=t)
