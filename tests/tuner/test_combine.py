"""The search for a combination, on prices that are made up: what is measured, and what is taken."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from math import comb
from typing import Any

import numpy as np
import pytest

import weft
from weft.graph.from_program import from_program
from weft.ir.errors import ProviderError
from weft.tuner import combine
from weft.tuner.combine import COMBINATION, Combination, decided, lower_limit, quiet
from weft.tuner.prices import Measured, Plan, Run, Setting, Spot
from weft.tuner.subgraphs import Units

Cost = Callable[[Run, str], float | None]


def chain(n: int) -> Units:
    """Units that differ: the k-th adds k."""
    last = weft.placeholder((4,), "float32", name="x")
    for k in range(n):
        last = _added(last, k, f"v{k}")
    graph = from_program(weft.program(last))
    return Units(graph, tuple((node,) for node in graph.nodes))


def _added(x: weft.Tensor, k: int, name: str) -> weft.Tensor:
    return weft.compute((4,), lambda i: x[i] + (k + 1), name=name)


class Laboratory:
    """Stands in for processes that measure; ``asked``: what for."""

    def __init__(self, cost: Cost) -> None:
        self.cost, self.asked = cost, list[tuple[tuple[int, ...], str]]()

    def priced(
        self, setting: Setting, turns: Sequence[Sequence[Spot]], seconds: float
    ) -> Measured[Spot]:
        return self._measured({spot: [spot] for turn in turns for spot in turn})

    def compared(
        self, setting: Setting, plans: Mapping[str, Plan], seconds: float
    ) -> Measured[str]:
        return self._measured(plans)

    def _measured(self, plans: Mapping[Any, Plan]) -> Measured[Any]:
        found = Measured[Any]()
        for key, plan in plans.items():
            costs = [self.cost(run, name) for run, name in plan]
            self.asked += [(tuple(sorted(run)), name) for run, name in plan]
            if None in costs:
                where = f"provider {plan[0][1]}, node"
                found.refused[key] = ProviderError("WEFT-E1515", "it is wrong", where=where)
            else:
                found.times[key] = [sum(filter(None, costs))] * 5
        return found


def search(
    monkeypatch: pytest.MonkeyPatch, n: int, cost: Cost, seconds: float = 60.0
) -> tuple[Combination, Laboratory]:
    laboratory = Laboratory(cost)
    monkeypatch.setattr(combine, "step_seconds", lambda setting: 0.0)
    monkeypatch.setattr(combine, "priced", laboratory.priced)
    monkeypatch.setattr(combine, "compared", laboratory.compared)
    providers = {"b": lambda part: None, "c": lambda part: None}
    values = {"x": np.ones(4, np.float32)}
    setting = Setting(chain(n), providers, lambda run: print, values, 1, None, 1.0)  # type: ignore[arg-type]
    return Combination(setting, seconds), laboratory


def test_a_unit_goes_where_it_is_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = ["weft", "weft", "b", "b", "weft"]

    def cost(run: Run, name: str) -> float:
        return 0.1 + sum(1.0 if fast[u] == name else 3.0 for u in run)

    found, _ = search(monkeypatch, 5, cost)
    final = found.best()
    plan = [(sorted(run), name) for run, name in final.plan]
    assert plan == [([0, 1], "weft"), ([2, 3], "b"), ([4], "weft")]
    assert final.taken == COMBINATION and final.proved
    assert final.combination == pytest.approx(5.3)
    assert final.gain == pytest.approx(min(final.singles.values()) / 5.3)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("some_die", [False, True])
def test_as_good_as_all_combinations(
    monkeypatch: pytest.MonkeyPatch, seed: int, some_die: bool
) -> None:
    """Units cost less among others, by a share of each provider's. It finds the best of all, or
    where some die, and nothing is known of whole models, one as good as any provider."""
    rng, n, names = random.Random(seed), 4, ("weft", "b", "c")
    units = {name: [rng.uniform(0.5, 4) for _ in range(n)] for name in names}
    died = {(u, k) for u in range(n) for k in "bc" if some_die and rng.random() < 0.2}
    share = {name: rng.uniform(0.6, 1.0) for name in names}

    def cost(run: Run, name: str) -> float | None:
        if any((u, name) in died for u in run):
            return None
        own, call = [units[name][u] for u in run], min(units[name])
        return own[0] if len(own) == 1 else call + share[name] * sum(u - call for u in own)

    found, laboratory = search(monkeypatch, n, cost)
    monkeypatch.setattr(combine, "GAIN", 1.0)
    final = found.best()
    least = min(cost_of(plan, cost) for plan in all_plans(n))
    if some_die:
        assert least - 1e-9 <= cost_of(final.plan, cost) <= min(final.singles.values())
    else:
        assert cost_of(final.plan, cost) == pytest.approx(least)
        assert len(laboratory.asked) < 3 * 10 + 3 * 3 + 3 * n  # not all of the runs
    assert {e.where for e in found.refused} >= {f"provider {name}, node" for _, name in died}


def cost_of(plan: Plan, cost: Cost) -> float:
    costs = [cost(run, name) for run, name in plan]
    return float("inf") if None in costs else sum(filter(None, costs))


def all_plans(n: int) -> list[Plan]:
    found = []
    for cuts in product((False, True), repeat=n - 1):
        edges = [0, *(k + 1 for k, cut in enumerate(cuts) if cut), n]
        runs = [frozenset(range(a, b)) for a, b in pairwise(edges)]
        names = product(("weft", "b", "c"), repeat=len(runs))
        found += [list(zip(runs, each, strict=True)) for each in names]
    return found


def test_a_run_that_disappoints_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone b is faster at two units, together it is slow: that is measured, and known."""

    def cost(run: Run, name: str) -> float:
        if name == "b" and run == frozenset([1, 2]):
            return 50.0
        return 1.0 if name == "b" and len(run) == 1 and 0 not in run else 2.0 * len(run)

    found, laboratory = search(monkeypatch, 4, cost)
    final = found.best()
    assert ((1, 2), "b") in laboratory.asked
    assert (frozenset([1, 2]), "b") not in final.plan
    assert final.combination is not None and final.combination < min(final.singles.values())


def test_a_part_costs_what_python_takes_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that would gain less than that are none."""

    def cost(run: Run, name: str) -> float:
        return sum(0.9 if (name == "b") == (u == 1) else 1.0 for u in run)

    for step, parts in ((0.01, 3), (0.2, 1)):
        found, _ = search(monkeypatch, 3, cost)
        found.step = step
        final = found.best()
        assert (final.combination is not None) == (parts > 1)


def test_a_combination_that_loses_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever prices of parts say, what counts is measured whole."""

    def cost(run: Run, name: str) -> float:
        return 4.0 if len(run) == 4 else 0.5

    found, _ = search(monkeypatch, 4, cost)
    monkeypatch.setattr(combine, "GAIN", 10.0)
    final = found.best()
    assert final.taken in ("weft", "b", "c") and len(final.plan) == 1


def test_nobody_but_weft_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = search(monkeypatch, 3, lambda run, name: 1.0 if name == "weft" else None)
    final = found.best()
    assert (final.taken, final.combination) == ("weft", None)
    assert {error.code for error in found.refused} == {"WEFT-E1515"}


def test_nobody_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = search(monkeypatch, 2, lambda run, name: None)
    assert found.best().plan == [(frozenset([0, 1]), "weft")]


def test_without_time_what_is_measured_is_combined(monkeypatch: pytest.MonkeyPatch) -> None:
    found, laboratory = search(monkeypatch, 4, lambda run, name: 1.0 * len(run), seconds=0.0)
    found.best()
    assert {len(run) for run, _ in laboratory.asked} == {1, 4}


def test_what_is_equal_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found, laboratory = search(monkeypatch, 3, lambda run, name: 1.0 * len(run))
    sums = weft.placeholder((4,), "float32", name="x")
    for name in "abc":
        sums = _added(sums, 6, name)
    graph = from_program(weft.program(sums))
    units = Units(graph, tuple((node,) for node in graph.nodes))
    found = Combination(replace(found.setting, units=units), 60.0)
    found.best()
    alone = [spot for spot in laboratory.asked[:6] if len(spot[0]) == 1]
    assert sorted(alone) == [((0,), "b"), ((0,), "c"), ((0,), "weft")]
    assert all(found.price(frozenset([k]), "b") for k in range(3))


def test_many_short_parts_do_not_seem_faster_than_a_long_one() -> None:
    """Noise of other programs, now and then: to one by one the same happens as to all at once."""
    rng = random.Random(3)
    spots = [(frozenset([k]), "weft") for k in range(50)]
    rounds = [[1.0 + (rng.random() < 0.3) for _ in spots] for _ in range(40)]
    whole = (frozenset(range(50)), "weft")
    times = {spot: [each[k] for each in rounds] for k, spot in enumerate(spots)}
    alone = quiet(spots, times)
    together = quiet([whole], {whole: [sum(each) for each in rounds]})
    assert sum(alone.values()) == pytest.approx(together[whole])
    assert sum(map(min, times.values())) < 0.9 * together[whole]
    assert quiet([*spots[:2], whole], {spots[0]: [3.0, 1.0, 2.0]}) == {spots[0]: 1.0}
    assert quiet([whole], {}) == {}


# ---- who wins ------------------------------------------------------------------------------------

WHOLE = frozenset([0])
PLANS: dict[str, Plan] = {name: [(WHOLE, name)] for name in ("weft", "b", COMBINATION)}


def test_the_limit_is_that_of_the_sign_test() -> None:
    """Against its definition: the k-th smallest lies below the median with at least 95%."""
    for n in range(1, 60):
        ordered = [1.0 + 0.01 * k for k in range(n)]
        good = [k for k in range(1, n + 1) if sum(comb(n, j) for j in range(k)) / 2**n <= 0.05]
        assert lower_limit(ordered) == (ordered[max(good) - 1] if good else 0.0)


def test_a_gain_within_the_noise_is_none() -> None:
    rng = random.Random(1)
    noise = {name: [1.0 + 0.1 * rng.random() for _ in range(30)] for name in PLANS}
    assert decided(PLANS, noise, True).taken != COMBINATION
    faster = noise | {COMBINATION: [t / 1.3 for t in noise["weft"]]}
    final = decided(PLANS, faster, False)
    assert (final.taken, final.proved) == (COMBINATION, False)
    assert 1.02 < final.low <= final.gain


def test_one_wild_round_decides_nothing() -> None:
    times = {name: [1.0] * 9 for name in PLANS}
    times[COMBINATION] = [0.01, *[1.0] * 8]
    assert decided(PLANS, times, True).taken == "weft"
    few = {name: [1.0] * 3 for name in PLANS} | {COMBINATION: [0.1] * 3}
    assert decided(PLANS, few, True).taken != COMBINATION  # too few to be sure of anything


def test_false_wins_are_rare() -> None:
    """The same program under two names, with noise of 10% and drift: at most 1% are wins."""
    rng, wins = random.Random(7), 0
    for _ in range(1000):
        drift = [1.0 + 0.5 * rng.random() for _ in range(30)]
        times = {name: [d * rng.lognormvariate(0, 0.1) for d in drift] for name in PLANS}
        wins += decided(PLANS, times, True).taken == COMBINATION
    assert wins <= 10
