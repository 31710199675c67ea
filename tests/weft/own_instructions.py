"""An instruction of a user's, and a program that it computes."""

# ruff: noqa: F821  (sizes of a signature are names in the function's body)

import weft

FMA = weft.Intrinsic("llvm.fma.v8f32", ("a", "b", "acc"))
WIDE = weft.Assembly("vfmadd231ps $2, $1, $0", "=v,v,v,0", ("a", "b", "acc"))


def fused(emit: object = FMA, name: str = "fused", cycles: float = 0.5) -> weft.Instruction:
    @weft.instruction(emit=emit, name=name, cycles=cycles)  # type: ignore[arg-type]
    def step(acc: weft.f32[8], a: weft.f32[1], b: weft.f32[8]):
        for lane in range(8):
            acc[lane] += a[0] * b[lane]

    return step


@weft.kernel
def multiply(A: weft.f32["M", "K"], B: weft.f32["K", "N"], C: weft.f32["M", "N"]):
    for i in range(M):
        for j in range(N):
            for k in range(K):
                C[i, j] += A[i, k] * B[k, j]
