"""A reduction of one's own: mean and variance in one pass, as a fold over triples (Chan)."""

import numpy as np

import weft

parts = ("count", "mean", "square")  # the last is the sum of squared distances from the mean
left = count, mean, square = [weft.Var(f"left_{part}", weft.float32) for part in parts]
right = count2, mean2, square2 = [weft.Var(f"right_{part}", weft.float32) for part in parts]

both = count + count2
share = count2 / weft.maximum(both, 1.0)  # of nothing and nothing: 0
delta = mean2 - mean
combined = (both, mean + delta * share, square + square2 + delta * delta * count * share)

# Declared associative and commutative, so that the compiler may split and reorder it.
moments = weft.Monoid("moments", tuple(left), tuple(right), combined, identity=(0.0, 0.0, 0.0))

rows, columns = weft.var("rows"), weft.var("columns")
x = weft.placeholder((rows, columns), name="x")
k = weft.reduce_axis((0, columns), name="k")
one, zero = weft.literal(1.0, "float32"), weft.literal(0.0, "float32")


def of_row(i):
    n, average, squares = weft.reduce(moments, (one, x[i, k], zero), axis=k)
    return average, squares / weft.maximum(n, 1.0)


means, variances = weft.computes((rows,), of_row, name="moments")
program = weft.compile([means, variances])

data = np.random.default_rng(0).standard_normal((17, 1000), dtype=np.float32) + 100
found_mean, found_variance = program(data)
exact = data.astype(np.float64)
assert np.allclose(found_mean, exact.mean(axis=1), rtol=1e-5)
assert np.allclose(found_variance, exact.var(axis=1), rtol=1e-3)
print("row 0: mean", found_mean[0], "variance", found_variance[0])
