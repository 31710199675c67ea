"""Schedules: in which order and how statements run, as values that are checked step by step."""

# ruff: noqa: F821, B007  (sizes of a signature are names in the body; a time loop only counts)

import numpy as np

import weft


@weft.kernel
def smooth(A: weft.f64["N"], B: weft.f64["N"], T: weft.i64):
    """T sweeps of a three-point average, from A to B and back."""
    for t in range(T):
        for i in range(1, N - 1):
            B[i] = (A[i - 1] + A[i] + A[i + 1]) / 3
        for i in range(1, N - 1):
            A[i] = (B[i - 1] + B[i] + B[i + 1]) / 3


s = weft.schedule(smooth)  # the order of the source
print(s.show())  # the loops, by the names that the steps below use

# Both sweeps in one loop? Not as they stand: two instances in conflict, and what would help.
print(s.why_not("fuse", "i", "i_2"))
try:
    s.fuse("i", "i_2")
except weft.IllegalScheduleError as error:
    assert error.code == "WEFT-E0420"

# One behind the other, time steps side by side, in tiles that stay in the cache.
tiled = s.fuse("i", "i_2", shift=1).skew("i", "t", 2).tile({"t": 16, "i": 256})
print(tiled.show())

script = str(tiled)  # the Python that rebuilds it
print(script)
assert weft.Schedule.from_script(script, smooth) == tiled
print(tiled.diff(tiled.unroll("i_p", 4)))

# Legal schedules compute the same, for all sizes.
run = tiled.compile()
for n, steps in ((0, 3), (3, 1), (1000, 50)):
    A = np.random.default_rng(n).normal(size=n)
    B = A.copy()
    wanted = A.copy()
    smooth.python(wanted, wanted.copy(), steps)
    run(A, B, steps)
    np.testing.assert_allclose(A, wanted, atol=1e-12)

print(s.automatic())  # what Weft chooses by itself: a schedule like any other
report = smooth.explain()
print(report[report.index("  costs") :])  # what that costs before it runs, in the symbolic sizes
