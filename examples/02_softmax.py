"""An operator is a function that returns tensors: softmax, and what is fused around it."""

import numpy as np

import weft


def softmax(x: weft.Tensor) -> weft.Tensor:
    """Softmax along the last of two axes, stable: the greatest element is subtracted first."""
    rows, columns = x.shape
    k, r = weft.reduce_axis((0, columns), name="k"), weft.reduce_axis((0, columns), name="r")
    top = weft.compute((rows,), lambda i: weft.max_over(x[i, k], axis=k), name="top")
    e = weft.compute((rows, columns), lambda i, j: weft.exp(x[i, j] - top[i]), name="e")
    total = weft.compute((rows,), lambda i: weft.sum(e[i, r], axis=r), name="total")
    return weft.compute((rows, columns), lambda i, j: e[i, j] / total[i], name="softmax")


scores = weft.placeholder((64, 100), name="scores")
scaled = weft.compute((64, 100), lambda i, j: scores[i, j] * 0.125, name="scaled")
program = weft.compile(softmax(scaled))

x = np.random.default_rng(0).standard_normal((64, 100), dtype=np.float32)
y = program(x)
e = np.exp(x.astype(np.float64) * 0.125)
assert np.allclose(y, e / e.sum(axis=1, keepdims=True), rtol=1e-5)

stats = program.stats
print(f"{stats['operators']} operators in {stats['kernels']} kernels")
print(program.explain())
