"""An instruction: what it computes, and what to emit for it, here in LLVM IR."""

import weft

emit = weft.Pattern(
    """
  %wide_a = sext <4 x i8> %a to <4 x i32>
  %wide_b = sext <4 x i8> %b to <4 x i32>
  %products = mul <4 x i32> %wide_a, %wide_b
  %even = shufflevector <4 x i32> %products, <4 x i32> poison, <2 x i32> <i32 0, i32 2>
  %odd = shufflevector <4 x i32> %products, <4 x i32> poison, <2 x i32> <i32 1, i32 3>
  %pairs = add <2 x i32> %even, %odd
  %sum = add <2 x i32> %acc, %pairs
  ret <2 x i32> %sum
""",
    ("acc", "a", "b"),
)


@weft.instruction(emit=emit, name="example-pairs", cycles=0.01)
def pairs(acc: weft.i32[2], a: weft.i8[2], b: weft.i8[2, 2]):
    for lane in range(2):
        for q in range(2):
            acc[lane] += weft.i32(a[q]) * weft.i32(b[lane, q])
