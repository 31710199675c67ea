"""A matrix product for all sizes, compiled once, in the field's own notation."""

import numpy as np

import weft

m, n, h = weft.var("m"), weft.var("n"), weft.var("h")  # sizes that the calls will bring
A = weft.placeholder((m, h), name="A")
B = weft.placeholder((n, h), name="B")
k = weft.reduce_axis((0, h), name="k")
C = weft.compute((m, n), lambda i, j: weft.sum(A[i, k] * B[j, k], axis=k), name="C")

matmul = weft.compile([C])
print(matmul)

rng = np.random.default_rng(0)
for sizes in ((1, 1, 1), (3, 0, 5), (128, 96, 200)):
    rows, columns, depth = sizes
    a = rng.standard_normal((rows, depth), dtype=np.float32)
    b = rng.standard_normal((columns, depth), dtype=np.float32)
    c = matmul(a, b)  # in the order in which the placeholders were made; or matmul(B=b, A=a)
    assert np.allclose(c, a @ b.T, rtol=1e-4, atol=1e-4)
    print(f"({rows} × {depth}) · ({depth} × {columns}) = {c.shape}")
