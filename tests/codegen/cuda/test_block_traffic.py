"""Bytes by level: counted by hand for products in tiles, and for a kernel without tiles."""

from __future__ import annotations

import pytest

import weft
from weft.codegen.cuda.block_traffic import BlockTraffic, block_traffic
from weft.codegen.from_schedule import build_kernel
from weft.driver.gpu_code import launches
from weft.ir.scalar_interpreter import evaluate

TWIN = weft.Options(target="cuda-twin:sm_80", workers=0)
ROWS, LANES, DEPTH = 32, 32, 32


@weft.kernel
def product(A: weft.f16[n, h], B: weft.f16[h, m], C: weft.f32[n, m]):  # noqa: F821
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            for k in range(A.shape[1]):
                C[i, j] += weft.float32(A[i, k]) * weft.float32(B[k, j])


@weft.kernel
def rows(A: weft.f64[n, m], B: weft.f64[n]):  # noqa: F821
    for i in range(A.shape[0]):
        B[i] = A[i, 0] + A[i, 1]


def traffic(s: weft.Schedule) -> BlockTraffic:
    made = s.scheduled
    (found,) = block_traffic(launches(build_kernel(made.scop, made.tree, "f"))[0])
    return found


def at(value, **sizes: int) -> int:
    assert value is not None
    return int(evaluate(value, sizes))


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_a_product_in_tiles(stages: int) -> None:
    s = weft.schedule(product, options=TWIN).tile({"i": ROWS, "j": LANES})
    s = s.reorder(["i_t", "j_t", "k", "i_p", "j_p"])
    how = {"warps": (2, 2), "depth": DEPTH, "stages": stages, "instruction": "mma.m16n8k16.f16"}
    s = s.tensorize(["k"], {"i_p": ROWS}, {"j_p": LANES}, **how)
    found = traffic(s.set_kinds({"i_t": "grid", "j_t": "grid"}))
    sizes = {"n": 100, "m": 70, "h": 8 * DEPTH}
    assert at(found.blocks, **sizes) == 4 * 3
    panels, tile = (ROWS + LANES) * DEPTH * 2, ROWS * LANES * 4
    steps = 8 + stages - 1  # copies ahead of the first step; those beyond the last do not happen
    assert at(found.read["device"], **sizes) == steps * panels + tile
    assert at(found.written["device"], **sizes) == tile
    assert at(found.written["shared"], **sizes) == steps * panels
    twice = 2  # two warps side by side read the same rows, two below each other the same columns
    assert at(found.read["shared"], **sizes) == 8 * panels * twice


def test_a_kernel_without_shared_memory() -> None:
    s = weft.schedule(rows, options=TWIN).tile({"i": 64})
    found = traffic(s.set_kinds({"i_t": "grid", "i_p": "block"}))
    assert at(found.blocks, n=130) == 3
    assert at(found.read["device"]) == 64 * 16 and at(found.written["device"]) == 64 * 8
    assert "shared" not in {**found.read, **found.written}
