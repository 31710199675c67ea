"""Bank conflicts of accesses whose number is known by hand, and of the main loops of products."""

from __future__ import annotations

import re

import pytest

import weft
from weft.codegen.cuda.bank_conflicts import bank_conflicts
from weft.ir.dtypes import DType, float16, float32, float64, int64
from weft.ir.loop_ir import Allocate, Block, Buffer, For, Kernel, Let, Store
from weft.ir.scalar_expr import Expr, Load, Var, literal

ZERO, ONE = literal(0), literal(1)
c, x = Var("c"), Var("x")


def kernel(index: Expr, dtype: DType) -> Kernel:
    """32 threads of a block write one element each."""
    shared = Buffer("s", dtype, (literal(4096),), (ONE,), "shared")
    stores = Block((Let("x", c * 2, Store("s", (index,), literal(0, dtype))),))
    return Kernel("f", ("n",), (), Allocate(shared, For("c", ZERO, literal(32), "block", stores)))


BY_HAND = {
    "neighbours": (c, float32, 1),
    "one word for all": (ZERO, float32, 1),
    "every other word": (x, float32, 2),
    "a column of 32": (c * 32, float32, 32),
    "a column of 33": (c * 33, float32, 1),
    "two threads a word": (c, float16, 1),
    "neighbours of two words": (c, float64, 1),
    "a column of 16 times two words": (c * 16, float64, 16),
    "from where the launch says": (c + Var("n"), float32, 1),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_patterns_whose_conflicts_are_known(name: str) -> None:
    index, dtype, times = BY_HAND[name]
    assert bank_conflicts(kernel(index, dtype)) == {"s": times}


def test_indices_by_data_are_left_out() -> None:
    assert bank_conflicts(kernel(Load("index", (c,), int64), float32)) == {}


def launched(layout: str, dtype: str, size: int) -> str:
    """What is told of the memory of a product, either operand as it lies or transposed."""
    k = weft.reduce_axis((0, size), name="k")
    shape = (size, size)
    a, b = (weft.placeholder(shape, dtype=dtype, name=name) for name in "AB")

    def body(i: Expr, j: Expr) -> Expr:
        left = a[k, i] if layout[0] == "T" else a[i, k]
        right = b[j, k] if layout[1] == "T" else b[k, j]
        wide = "int32" if dtype == "int8" else "float32"
        return weft.sum(left.astype(wide) * right.astype(wide), axis=k)

    program = weft.compile(
        weft.compute(shape, body, name="C"), options=weft.Options(target="sm_80")
    )
    assert ("fma.m32n32k2" if dtype == "float32" else "mma.m16n8k") in program.explain()
    return program.explain().split("memory that a block")[1].split("instructions that")[0]


@pytest.mark.parametrize("size", [64, 512, 4096])
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_products_of_16_bits_are_free_of_conflicts(layout: str, size: int) -> None:
    """Copies to shared memory and all that is read from there, in tiles of every size."""
    assert "bank conflicts of shared memory: none" in launched(layout, "float16", size)


@pytest.mark.parametrize("size", [64, 512])
def test_products_of_32_bits_wait_at_most_once(size: int) -> None:
    """Operands whose neighbours are steps: rows with a gap of 16 bytes share banks by twos."""
    told = {layout: launched(layout, "float32", size) for layout in ("NN", "NT", "TN", "TT")}
    assert "bank conflicts of shared memory: none" in told["TN"]
    for layout, text in told.items():
        steps = {name for name, way, own in zip("ab", layout, "NT", strict=True) if way == own}
        assert {name for name in "ab" if f"{name}.slots 2 at a time" in text} == steps
        assert not re.search(r"slots [3-9]", text)


def test_products_of_8_bits_are_where_steps_are_neighbours() -> None:
    assert "bank conflicts of shared memory: none" in launched("NT", "int8", 512)
    assert "b.slots 2 at a time" in launched("NN", "int8", 512)
