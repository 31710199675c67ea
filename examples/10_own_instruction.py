"""An instruction in a few lines: what it computes, how to emit it; Weft finds the loops for it."""

# ruff: noqa: F821  (sizes of a signature are names in the function's body)

import numpy as np

import weft

# How to emit it: here, in LLVM IR that every processor has code for. `weft.Intrinsic` names one of
# LLVM's intrinsics (or any function), `weft.Assembly` is a line of the processor's own.
emit = weft.Pattern(
    """
  %wide_a = sext <16 x i8> %a to <16 x i32>
  %wide_b = sext <16 x i8> %b to <16 x i32>
  %products = mul <16 x i32> %wide_a, %wide_b
  %even = shufflevector <16 x i32> %products, <16 x i32> poison,
    <8 x i32> <i32 0, i32 2, i32 4, i32 6, i32 8, i32 10, i32 12, i32 14>
  %odd = shufflevector <16 x i32> %products, <16 x i32> poison,
    <8 x i32> <i32 1, i32 3, i32 5, i32 7, i32 9, i32 11, i32 13, i32 15>
  %pairs = add <8 x i32> %even, %odd
  %sum = add <8 x i32> %acc, %pairs
  ret <8 x i32> %sum
""",
    ("acc", "a", "b"),
)


@weft.instruction(emit=emit)
def pairs(acc: weft.i32[8], a: weft.i8[2], b: weft.i8[8, 2]):
    """Eight sums of two products, one pair of numbers the same for all eight."""
    for lane in range(8):
        for q in range(2):
            acc[lane] += weft.i32(a[q]) * weft.i32(b[lane, q])


@weft.kernel
def grouped(
    X: weft.i8["G", "C", "H"], W: weft.i8["G", "K", "C", 3], Y: weft.i32["G", "K", "H - 2"]
):
    """A convolution in groups: no loop of it is called like one of the instruction's."""
    for g in range(G):
        for k in range(K):
            for h in range(H - 2):
                for c in range(C):
                    for r in range(3):
                        Y[g, k, h] += weft.i32(X[g, c, h + r]) * weft.i32(W[g, k, c, r])


mappings = weft.map_instruction(grouped, pairs)
print("\n".join(line for line in str(mappings).splitlines() if " not " not in line))
print("…", mappings.refusals[0])

run = grouped.compile(options=weft.Options(instructions=(pairs,)))
rng = np.random.default_rng(0)
X = rng.integers(-128, 128, (2, 8, 30)).astype(np.int8)
W = rng.integers(-128, 128, (2, 16, 8, 3)).astype(np.int8)
Y = np.zeros((2, 16, 28), np.int32)
run(X, W, Y)

windows = np.lib.stride_tricks.sliding_window_view(X.astype(np.int32), 3, axis=2)
assert (np.einsum("gchr,gkcr->gkh", windows, W.astype(np.int32)) == Y).all()
print("the same as NumPy")
