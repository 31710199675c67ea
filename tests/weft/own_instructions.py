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


def pairs_of(first: str, extended: str) -> weft.Instruction:
    """Eight sums of two products of ``first``, "i8" or "u8", and i8."""
    emit = weft.Pattern(
        f"""
  %wide_a = {extended} <16 x i8> %a to <16 x i32>
  %wide_b = sext <16 x i8> %b to <16 x i32>
  %products = mul <16 x i32> %wide_a, %wide_b
  %even = shufflevector <16 x i32> %products, <16 x i32> poison,
    <8 x i32> <i32 0, i32 2, i32 4, i32 6, i32 8, i32 10, i32 12, i32 14>
  %odd = shufflevector <16 x i32> %products, <16 x i32> poison,
    <8 x i32> <i32 1, i32 3, i32 5, i32 7, i32 9, i32 11, i32 13, i32 15>
  %two = add <8 x i32> %even, %odd
  %sum = add <8 x i32> %acc, %two
  ret <8 x i32> %sum
""",
        ("acc", "a", "b"),
    )
    if first == "i8":

        @weft.instruction(emit=emit, cycles=1 / 64)
        def pairs(acc: weft.i32[8], a: weft.i8[2], b: weft.i8[8, 2]):
            for lane in range(8):
                for q in range(2):
                    acc[lane] += weft.i32(a[q]) * weft.i32(b[lane, q])

    else:

        @weft.instruction(emit=emit, cycles=1 / 64)
        def pairs(acc: weft.i32[8], a: weft.u8[2], b: weft.i8[8, 2]):
            for lane in range(8):
                for q in range(2):
                    acc[lane] += weft.i32(a[q]) * weft.i32(b[lane, q])

    return pairs


@weft.kernel
def both_signs(
    A: weft.i8["N", "K"], U: weft.u8["N", "K"], B: weft.i8["K", "M"],
    C: weft.i32["N", "M"], D: weft.i32["N", "M"],
):  # fmt: skip
    for i in range(N):
        for j in range(M):
            for k in range(K):
                C[i, j] += weft.i32(A[i, k]) * weft.i32(B[k, j])
                D[i, j] += weft.i32(U[i, k]) * weft.i32(B[k, j])
