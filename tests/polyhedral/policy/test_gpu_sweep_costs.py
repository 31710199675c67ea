"""One launch in sweeps copies what its loops copy, and what goes through memory costs its bytes.
Many rows go in sweeps, few rows over many scores do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

import weft
from tests.polyhedral.policy.test_gpu_sweeps import D, M, N, plain, told
from weft.codegen.cuda.block_traffic import DEVICE, block_traffic
from weft.codegen.from_schedule import build_kernel
from weft.codegen.machines.nvidia import GPUS, H100
from weft.driver.gpu_code import launches
from weft.ir.gpu import Gpu
from weft.ir.scalar_expr import literal
from weft.polyhedral.policy.gpu import schedule_gpu
from weft.polyhedral.policy.gpu_sweep_costs import SweepCosts, sweep_costs
from weft.polyhedral.policy.gpu_sweeps import find_sweeps


def costs(gpu: Gpu) -> SweepCosts:
    found = find_sweeps(plain.scop, gpu)
    assert found is not None
    return sweep_costs(plain.scop, found, gpu)


def test_bytes_of_a_block_are_those_that_its_loops_copy() -> None:
    """A second L2, half as fast, shows what is asked of it; no multiprocessor has two blocks."""
    made = schedule_gpu(plain.scop, H100)
    kernel, _ = launches(build_kernel(made.scop, made.tree, "f"))
    (traffic,) = block_traffic(kernel)
    slower = replace(H100, cache_rate=H100.cache_rate // 2)
    waited = costs(slower).together - costs(H100).together
    asked = waited * H100.cache_rate / H100.multiprocessors
    assert traffic.blocks == literal(N // 64) and H100.multiprocessors >= N // 64
    assert traffic.read[DEVICE] == literal(round(asked))


def test_scores_and_factor_are_written_and_read() -> None:
    slower = replace(H100, bandwidth=H100.bandwidth / 2)
    waited = (costs(slower).apart - costs(H100).apart) / H100.clock
    between, operands = 2 * N * M * (4 + 2), (N + 2 * M) * D * 2 + N * D * 4
    assert waited * H100.bandwidth == pytest.approx(between + operands)
    assert costs(slower).together == costs(H100).together


def test_more_blocks_than_multiprocessors_cover_each_others_copies() -> None:
    """Twice as many in each take less than twice as long, and no less than what is scarcer."""
    halved = replace(
        H100, multiprocessors=H100.multiprocessors // 2, cache_rate=H100.cache_rate // 2
    )
    one, two = costs(H100).together, costs(halved).together
    assert one < two < 2 * one


@weft.kernel
def weighed(q: weft.f16[N, D], k: weft.f16[M, D], v: weft.f16[M, D], y: weft.f32[N, D]):
    s = weft.empty((N, M), weft.f32)
    p = weft.empty((N, M), weft.f16)
    for i in range(N):
        for j in range(M):
            s[i, j] = 0.0
            for d in range(D):
                s[i, j] += weft.float32(q[i, d]) * weft.float32(k[j, d])
    for i in range(N):
        for j in range(M):
            p[i, j] = weft.float16(weft.tanh(s[i, j]) + weft.exp(s[i, j]))
    for i in range(N):
        for e in range(D):
            y[i, e] = 0.0
            for j in range(M):
                y[i, e] += weft.float32(p[i, j]) * weft.float32(v[j, e])


def test_functions_of_scores_wait_for_their_units() -> None:
    """A hyperbolic tangent needs them twice, an exponential once; a block has a multiprocessor."""
    found = find_sweeps(weighed.scop, H100)
    assert found is not None and H100.multiprocessors >= N // 64
    machines = H100, replace(H100, special={}), replace(H100, special_rate=1)
    made, none, slow = (sweep_costs(weighed.scop, found, gpu) for gpu in machines)
    assert made.together - none.together == pytest.approx(3 * 64 * M / H100.special_rate)
    moving = N * M * (4 + 2) / H100.bandwidth * H100.clock
    assert made.apart == none.apart  # memory is slower
    assert slow.apart - made.apart == pytest.approx(3 * N * M / H100.multiprocessors - moving)


@weft.kernel
def few_rows(q: weft.f16[16, D], k: weft.f16[M, D], v: weft.f16[M, D], y: weft.f32[16, D]):
    s = weft.empty((16, M), weft.f32)
    p = weft.empty((16, M), weft.f16)
    for i in range(16):
        for j in range(M):
            s[i, j] = 0.0
            for d in range(D):
                s[i, j] += weft.float32(q[i, d]) * weft.float32(k[j, d])
            p[i, j] = weft.float16(s[i, j])
    for i in range(16):
        for e in range(D):
            y[i, e] = 0.0
            for j in range(M):
                y[i, e] += weft.float32(p[i, j]) * weft.float32(v[j, e])


def test_few_rows_over_many_scores_go_through_memory() -> None:
    note, tiles = told(few_rows)
    assert note.startswith("no sweeps, because they are dearer: ") and tiles == 2


@pytest.mark.parametrize("name", GPUS)
def test_many_rows_go_in_one_launch(name: str) -> None:
    found = costs(GPUS[name])
    assert found.together < found.apart
