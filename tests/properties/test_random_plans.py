"""Random plans: whatever they decide, results are right, or the plan is refused by type."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import random

import numpy as np
import pytest

import weft
from weft.benchmarks.polybench.run import SUITE
from weft.ir.dtypes import as_dtype
from weft.ir.plan import Plan, Value

SIZES = (1, 9, 20, 33, 70)
ODD = (1, 3, 7, 100)


def otherwise(plan: Plan, rng: random.Random) -> dict[str, Value]:
    """One to three decisions of ``plan``, each another way."""
    found: dict[str, Value] = {}
    for d in rng.sample(plan.decisions, min(len(plan.decisions), rng.randint(1, 3))):
        options = [o.value for o in d.options if o.value != d.chosen]
        options += [rng.choice(ODD)] if d.size else []
        if options:
            found[d.name] = rng.choice(options)
    return found


@pytest.mark.parametrize("name", SUITE)
@pytest.mark.long
def test_whatever_is_decided_it_computes_the_same(name: str) -> None:
    rng = random.Random(name)
    benchmark = SUITE[name]
    kernel = benchmark.make(as_dtype(benchmark.dtype))
    options = weft.Options(threads=rng.choice((1, 2)), cache=False, texts=False)
    plan = kernel.compile(options=options).plan
    for _ in range(3):
        changed = otherwise(plan, rng)
        try:
            run = weft.compile(kernel, options=options, plan=changed)
        except weft.PlanError:
            continue
        assert {n: run.plan[n] for n in changed} == changed
        sizes = {n: 5 if n.startswith("T") else rng.choice(SIZES) for n in benchmark.names}
        make = benchmark.regular or benchmark.inputs
        arguments = make(np.dtype(benchmark.dtype), **sizes)
        wanted = benchmark.oracle(**{k: np.copy(v) for k, v in arguments.items()})
        run(*arguments.values())
        near = 1e-8 if np.dtype(benchmark.dtype).itemsize == 8 else 1e-4
        for key, value in wanted.items():
            np.testing.assert_allclose(
                arguments[key], value, rtol=near, atol=near, err_msg=str(changed)
            )
