"""Sums in fragments: the loops around them compute what they did, and what cannot is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft
from weft.codegen.cuda.form_launches import form_launches
from weft.codegen.cuda.optimise_launches import optimise_launches
from weft.codegen.from_schedule import build_kernel
from weft.ir.errors import CompileError
from weft.ir.loop_interpreter import interpret
from weft.ir.loop_ir import Allocate, walk
from weft.ir.loop_verifier import verify_kernel

TWIN = weft.Options(target="cuda-twin:sm_80", workers=0)


@weft.kernel
def layer(A: weft.f16[20, 18], B: weft.f16[18, 25], b: weft.f32[25], D: weft.f32[20, 25]):
    C = weft.empty((20, 25), weft.f32)
    for i in range(20):
        for j in range(25):
            C[i, j] = b[j]
            for k in range(18):
                C[i, j] += weft.float32(A[i, k]) * weft.float32(B[k, j])
            D[i, j] = 2.0 * C[i, j]


@weft.kernel
def turned(A: weft.f16[20, 18], B: weft.f16[18, 20], D: weft.f32[20, 20]):
    C = weft.empty((20, 20), weft.f32)
    for i in range(20):
        for j in range(20):
            C[i, j] = 0.0
            for k in range(18):
                C[i, j] += weft.float32(A[i, k]) * weft.float32(B[k, j])
    for i in range(20):
        for j in range(20):
            D[i, j] = C[i, j] + C[j, i]


def tiled(block: bool = True) -> weft.Schedule:
    s = weft.schedule(layer, options=TWIN).tile({"i": 32, "j": 32}).distribute("i_p")
    s = s.reorder(["k", "i_p_S1", "j_p_S1"])
    how = {"warps": (2, 1), "depth": 16, "stages": 2, "instruction": "mma.m16n8k16.f16"}
    s = s.tensorize(["k"], {"i_p_S1": 32}, {"j_p_S1": 32}, **how)
    loops = ("i_p", "j_p", "i_p_S2", "j_p_S2") if block else ()
    return s.set_kinds({"i_t": "grid", "j_t": "grid", **dict.fromkeys(loops, "block")})


def test_the_loops_compute_the_layer_on_fragments() -> None:
    s = tiled().contract("C", scope="fragment").scheduled
    kernel = form_launches(optimise_launches(build_kernel(s.scop, s.tree, "layer")))
    held = [x.buffer for x in walk(kernel.body) if isinstance(x, Allocate) and x.buffer.name == "C"]
    assert [buffer.scope for buffer in held] == ["fragment"]
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(n).astype(np.float16) for n in (360, 450))
    bias, d = random.standard_normal(25).astype(np.float32), np.full(500, np.nan, np.float32)
    verify_kernel(kernel)
    interpret(kernel, {}, {"A": a, "B": b, "b": bias, "D": d})
    want = 2 * (a.reshape(20, 18).astype(float) @ b.reshape(18, 25).astype(float) + bias)
    np.testing.assert_allclose(d.reshape(20, 25), want, rtol=1e-4, atol=1e-4)


def in_registers_of_no_tile() -> None:
    s = weft.schedule(layer, options=TWIN).tile({"i": 32, "j": 32})
    s = s.set_kinds({"i_t": "grid", "j_t": "grid", "i_p": "block", "j_p": "block"})
    layer.compile(s.contract("C", scope="fragment"), options=TWIN)


def outside_block_loops() -> None:
    layer.compile(tiled(block=False).contract("C", scope="fragment"), options=TWIN)


REFUSED: dict[str, tuple[str, Callable[[], object]]] = {
    "no tile": ("no register tile of warps updates it", in_registers_of_no_tile),
    "serial loops": ("outside block loops", outside_block_loops),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_stay_in_fragments_is_refused(name: str) -> None:
    why, make = REFUSED[name]
    with pytest.raises(CompileError, match="WEFT-E0506") as caught:
        make()
    assert why in caught.value.why


def test_columns_as_rows_of_one_thread_go_through_memory() -> None:
    """C[j, i] is another thread's: C outlives its block, and stays in the memory of the device."""
    program = turned.compile(options=TWIN)
    random = np.random.default_rng(1)
    a, b = (random.standard_normal(n).astype(np.float16) for n in ((20, 18), (18, 20)))
    d = np.full((20, 20), np.nan, np.float32)
    program(a, b, d)
    c = a.astype(float) @ b.astype(float)
    np.testing.assert_allclose(d, c + c.T, rtol=1e-4, atol=1e-4)
    assert 'scope="fragment"' not in program.explain()
