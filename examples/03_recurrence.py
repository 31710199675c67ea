"""Recurrences, and state that a call overwrites: an exponential filter over a signal in blocks."""

import itertools

import numpy as np

import weft

n = weft.var("n")
state = weft.placeholder((1,), name="state")
signal = weft.placeholder((n,), name="signal")


def step(itself, t):
    """filtered[t] = 0.9 · filtered[t - 1] + 0.1 · signal[t], before the block: ``state``."""
    before = weft.select(t.equal(0), state[0], itself(0, t - 1))
    return (before * 0.9 + signal[t] * 0.1,)


(filtered,) = weft.scan((n,), step, dtypes_=(weft.float32,), name="filtered")
# A block may be empty, and then there is no filtered[n - 1]: without this guard Weft refuses.
last = weft.compute((1,), lambda i: weft.select(n > 0, filtered[n - 1], state[0]), name="last")

# `last` is computed in the memory of `state`: the array that the caller passes.
program = weft.compile([filtered, last], in_place={"last": "state"})

memory = np.zeros(1, np.float32)
signal_data = np.sin(np.arange(30, dtype=np.float32))
cuts = [0, 7, 7, 20, 30]
blocks = [program(memory, signal_data[a:b])[0] for a, b in itertools.pairwise(cuts)]

expected, value = [], 0.0
for sample in signal_data.astype(np.float64):
    value = 0.9 * value + 0.1 * sample
    expected.append(value)
assert np.allclose(np.concatenate(blocks), expected, atol=1e-6)
assert np.isclose(memory[0], expected[-1], atol=1e-6)
print("filtered", len(expected), "samples in", len(blocks), "blocks; the state is now", memory[0])
