"""What the compiler did: every IR as text, the reasons, the machine code, and typed errors."""

import numpy as np

import weft

x = weft.placeholder((256, 64), name="x")
w = weft.placeholder((64, 128), name="w")
k = weft.reduce_axis((0, 64), name="k")
product = weft.compute((256, 128), lambda i, j: weft.sum(x[i, k] * w[k, j], axis=k), name="product")
relu = weft.compute((256, 128), lambda i, j: weft.maximum(product[i, j], 0.0), name="relu")

lowered = weft.lower(relu)  # down to the host program, no machine code
print("stages:", ", ".join(lowered.stages))
print(lowered.as_text("scop"))  # affine statements
print(lowered.as_text("schedule"))  # how they are fused, tiled and vectorised: proved legal
print(lowered.as_text("loops"))  # the kernel

program = weft.compile(relu)
print(program.explain())
vector = [line for line in program.source("asm").splitlines() if "fma" in line]
print(len(vector), "fused multiply-adds, the first:", (vector or ["none"])[0].strip())

try:
    program(np.zeros((256, 64), np.float32), np.zeros((65, 128), np.float32))
except weft.CallError as error:
    print(error)  # what was expected, and the valid names
    assert error.code == "WEFT-E0605"
