"""Random products, a few of ``python -m tests.properties.fuzz --products``."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests.properties import products
from tests.properties.products import examine, random_case


@pytest.mark.parametrize("first", [0, 8])
@pytest.mark.long
def test_cases(first: int) -> None:
    kinds = Counter[str]()
    for seed in range(first, first + 7):
        outcome = examine(seed)
        assert not outcome.problem, f"seed {seed}: {outcome.problem}"
        kinds[outcome.kind] += 1
    assert kinds["compiled"] == 7


def test_cases_differ_and_come_again() -> None:
    cases = [random_case(seed) for seed in range(200)]
    assert cases == [random_case(seed) for seed in range(200)] and len({*cases}) > 190
    assert {c.types[0] for c in cases} == {"float32", "float64", "bfloat16", "int8", "uint8"}
    assert any(0 in c.sizes for c in cases) and any(all(c.open) for c in cases)


def test_wrong_elements_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    real = products.oracle

    def oracle(case: products.Case, *given: Any) -> Any:
        expected, bound = real(case, *given)
        expected.flat[-1] += 1
        return expected, bound

    monkeypatch.setattr(products, "oracle", oracle)
    seed = next(s for s in range(99) if 0 not in random_case(s).sizes)
    assert "1 of" in examine(seed).problem


def test_bounds_are_tight() -> None:
    """One step of a sum less is seen."""
    for seed in range(60):
        case = random_case(seed)
        if 0 in case.sizes or case.end == "relu":
            continue
        a, b, bias = products.arrays(case, np.random.default_rng(seed))
        whole, bound = products.oracle(case, a, b, bias)
        first = (slice(None),) * (a.ndim - 1), (slice(None),) * (a.ndim - 2)
        less = a.copy()
        less[(*first[1], 0) if case.turned[0] else (*first[0], 0)] = 0
        part, _ = products.oracle(case, less, b, bias)
        assert (np.abs(whole - part) > bound).mean() > 0.5, case


def test_crashes_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*given: Any, **named: Any) -> None:
        raise KeyError("x")

    monkeypatch.setattr(products, "expression", crash)
    assert examine(5).kind == "crash"
