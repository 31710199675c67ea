"""Two products with folds between them go in two sweeps of one launch; what stands against it is
told, and then each product has a launch of its own."""

from __future__ import annotations

import pytest

import weft
from weft.codegen.machines.nvidia import H100
from weft.ir.schedule_tree import marked_tiles
from weft.polyhedral.policy.gpu import schedule_gpu
from weft.polyhedral.proof.prove import prove

N, M, D, WIDE = 8192, 4096, 64, 512


@weft.kernel
def plain(q: weft.f16[N, D], k: weft.f16[M, D], v: weft.f16[M, D], y: weft.f32[N, D]):
    s = weft.empty((N, M), weft.f32)
    top = weft.empty((N,), weft.f32)
    p = weft.empty((N, M), weft.f16)
    for i in range(N):
        for j in range(M):
            s[i, j] = 0.0
            for d in range(D):
                s[i, j] += weft.float32(q[i, d]) * weft.float32(k[j, d])
    for i in range(N):
        top[i] = 0.0
        for j in range(M):
            top[i] = max(top[i], s[i, j])
    for i in range(N):
        for j in range(M):
            p[i, j] = weft.float16(s[i, j] - top[i])
    for i in range(N):
        for e in range(D):
            y[i, e] = 0.0
            for j in range(M):
                y[i, e] += weft.float32(p[i, j]) * weft.float32(v[j, e])


@weft.kernel
def wide(q: weft.f16[N, D], k: weft.f16[M, D], v: weft.f16[M, WIDE], y: weft.f32[N, WIDE]):
    s = weft.empty((N, M), weft.f32)
    p = weft.empty((N, M), weft.f16)
    for i in range(N):
        for j in range(M):
            s[i, j] = 0.0
            for d in range(D):
                s[i, j] += weft.float32(q[i, d]) * weft.float32(k[j, d])
            p[i, j] = weft.float16(s[i, j])
    for i in range(N):
        for e in range(WIDE):
            y[i, e] = 0.0
            for j in range(M):
                y[i, e] += weft.float32(p[i, j]) * weft.float32(v[j, e])


@weft.kernel
def first_score(
    q: weft.f16[N, D], k: weft.f16[M, D], v: weft.f16[M, D], y: weft.f32[N, D], z: weft.f32[N]
):
    s = weft.empty((N, M), weft.f32)
    p = weft.empty((N, M), weft.f16)
    for i in range(N):
        for j in range(M):
            s[i, j] = 0.0
            for d in range(D):
                s[i, j] += weft.float32(q[i, d]) * weft.float32(k[j, d])
            p[i, j] = weft.float16(s[i, j])
    for i in range(N):
        z[i] = s[i, 0]
    for i in range(N):
        for e in range(D):
            y[i, e] = 0.0
            for j in range(M):
                y[i, e] += weft.float32(p[i, j]) * weft.float32(v[j, e])


@weft.kernel
def first_result(
    q: weft.f16[N, D], k: weft.f16[M, D], v: weft.f16[M, D], y: weft.f32[N, D], z: weft.f32[N]
):
    s = weft.empty((N, M), weft.f32)
    p = weft.empty((N, M), weft.f16)
    for i in range(N):
        for j in range(M):
            s[i, j] = 0.0
            for d in range(D):
                s[i, j] += weft.float32(q[i, d]) * weft.float32(k[j, d])
            p[i, j] = weft.float16(s[i, j])
    for i in range(N):
        for e in range(D):
            y[i, e] = 0.0
            for j in range(M):
                y[i, e] += weft.float32(p[i, j]) * weft.float32(v[j, e])
    for i in range(N):
        z[i] = y[i, 0]


@weft.kernel
def folded_results(
    q: weft.f16[N, D], k: weft.f16[M, D], v: weft.f16[M, D], y: weft.f32[N, D], z: weft.f32[N]
):
    s = weft.empty((N, M), weft.f32)
    p = weft.empty((N, M), weft.f16)
    for i in range(N):
        for j in range(M):
            s[i, j] = 0.0
            for d in range(D):
                s[i, j] += weft.float32(q[i, d]) * weft.float32(k[j, d])
            p[i, j] = weft.float16(s[i, j])
    for i in range(N):
        for e in range(D):
            y[i, e] = 0.0
            for j in range(M):
                y[i, e] += weft.float32(p[i, j]) * weft.float32(v[j, e])
    for i in range(N):
        z[i] = 0.0
        for e in range(D):
            z[i] += y[i, e]


@weft.kernel
def met(q: weft.f16[N, D], k: weft.f16[D, D], v: weft.f16[D, D], y: weft.f32[N, D]):
    s = weft.empty((N, D), weft.f32)
    p = weft.empty((N, D), weft.f16)
    o = weft.empty((N, D), weft.f32)
    for i in range(N):
        for j in range(D):
            s[i, j] = 0.0
            for d in range(D):
                s[i, j] += weft.float32(q[i, d]) * weft.float32(k[j, d])
            p[i, j] = weft.float16(s[i, j])
    for i in range(N):
        for e in range(D):
            o[i, e] = 0.0
            for j in range(D):
                o[i, e] += weft.float32(p[i, j]) * weft.float32(v[j, e])
    for i in range(N):
        for e in range(D):
            y[i, e] = o[i, e] + s[i, e]


def told(kernel: weft.Kernel) -> tuple[str, int]:
    """What is said of sweeps in ``kernel``, which is scheduled and proved, and how many tiles warps
    multiply."""
    made = schedule_gpu(kernel.scop, H100)
    prove(kernel.scop, made.scop, made.tree)
    (note,) = (note for note in made.notes if "sweeps" in note)
    return note, len(marked_tiles(made.tree))


def test_scores_are_multiplied_twice_in_sweeps() -> None:
    note, tiles = told(plain)
    assert note.startswith("sweeps: S1, S6: ") and tiles == 3


AGAINST = {
    "what touches scores does not move with one dim along them": first_score,
    "what touches results does not move with a dim along them": first_result,
    "scores and results meet outside the second product": met,
    "results are folded": folded_results,
    "a thread's registers do not hold a row of results": wide,
}


@pytest.mark.parametrize("why", AGAINST)
def test_what_stands_against_sweeps_is_told(why: str) -> None:
    note, tiles = told(AGAINST[why])
    assert note == f"no sweeps, because {why}" and tiles == 2
