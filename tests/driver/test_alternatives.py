"""What ``explain`` says of alternatives is what a plan that takes them leads to."""

# ruff: noqa: F821, UP037
# mypy: disable-error-code="name-defined, valid-type, no-untyped-def, index"

from __future__ import annotations

import re
from pathlib import Path

import pytest

import weft
from weft.driver import alternatives
from weft.ir.errors import CallError, PlanError

OPTIONS = weft.Options(threads=1, cache=False, workers=0, target="x86-64-v3")


@weft.kernel
def product(A: weft.f64["N", "K"], B: weft.f64["K", "M"], C: weft.f64["N", "M"]):
    for i in range(N):
        for j in range(M):
            for k in range(K):
                C[i, j] += A[i, k] * B[k, j]


@weft.kernel
def known(A: weft.f64[400, 410], B: weft.f64[410, 420], C: weft.f64[400, 420]):
    for i in range(400):
        for j in range(420):
            for k in range(410):
                C[i, j] += A[i, k] * B[k, j]


@weft.kernel
def scan(A: weft.f64["N", "M"]):
    for i in range(1, N):
        for j in range(M):
            A[i, j] += A[i - 1, j]


@weft.kernel
def small_before_large(x: weft.f64["N"], A: weft.f64["N", "N"]):
    for i in range(N):
        x[i] = 2.0 * x[i]
    for i in range(1, N):
        for j in range(N):
            A[i, j] += A[i - 1, j]


def line(text: str, name: str) -> str:
    (found,) = (part.strip() for part in text.splitlines() if part.strip().startswith(f"{name}: "))
    return found


def priced(said: str) -> dict[str, str]:
    """Value → estimate, of a decision in words."""
    return dict(re.findall(r"(?:: |else |, )([^,()]+?) \(([^)]*)\)", said))


def estimate(run: weft.Executable) -> str:
    found = re.search(r"estimate (\S+ \S?s)\b", run._compiled.explain())  # no alternatives
    assert found
    return found[1]


@pytest.mark.long
@pytest.mark.parametrize(
    ("kernel", "name"),
    [(known, "S0.pack_once_B"), (known, "S0.j_tile"), (scan, "S0.vector")],
)
def test_estimates_are_those_of_the_plans(kernel: weft.Kernel, name: str) -> None:
    run = weft.compile(kernel, options=OPTIONS)
    found = priced(line(run.explain(details=True), name))
    assert len(found) > 1
    for value, cost in found.items():
        plan = {name: int(value) if value.isdigit() else value}
        assert estimate(weft.compile(kernel, options=OPTIONS, plan=plan)) == cost


@pytest.mark.parametrize("kernel", [known, scan])
def test_strategies_are_those_that_plans_may_ask_for(kernel: weft.Kernel) -> None:
    run = weft.compile(kernel, options=OPTIONS)
    text = run.explain(details=True)
    (decision,) = (d for d in run.plan.decisions if d.name == "S0.strategy")
    applies, not_ = set(), set()
    for option in decision.options:
        try:
            weft.compile(kernel, options=OPTIONS, plan={decision.name: option.value})
            applies.add(option.value)
        except PlanError:
            not_.add(option.value)
    assert not_ and set(priced(line(text, decision.name))) == applies
    below = text.partition("S0.strategy: ")[2].splitlines()[1:]
    told = [re.match(r" +not (.*): WEFT-E0028", text) for text in below[: len(not_)]]
    assert {found[1] for found in told if found} == not_
    assert "  not " not in run.explain() and not priced(line(run.explain(), decision.name))


def test_what_is_not_the_cheapest_says_why_and_other_sizes_have_no_price() -> None:
    run = weft.compile(product, options=OPTIONS)
    text = run.explain(details=True)
    for d in run.plan.decisions:
        costs = {v: seconds(cost) for v, cost in priced(line(text, d.name)).items()}
        if costs:
            least = min(costs.values())
            assert ("; not by the estimate: " in line(text, d.name)) == (
                least < 0.99 * costs[str(d.chosen)]
            )
    assert priced(line(text, "S0.i_tile")) and not priced(line(text, "S0_few_rows.i_tile"))


def test_estimates_are_for_the_sizes_that_are_asked_for() -> None:
    run = weft.compile(product, options=OPTIONS)
    bounds = {}
    for n in (500, 1000):
        text = run.explain(sizes={"N": n, "M": n})
        assert f" for N = {n}, K = 1000, M = {n}: " in text
        found = re.search(r"bound (\S+ \S?s), by arithmetic", text)
        assert found
        bounds[n] = seconds(found[1])
    assert bounds[1000] == pytest.approx(4 * bounds[500], rel=0.01)
    few = run.explain(details=True, sizes={"N": 3})
    assert priced(line(few, "S0_few_rows.i_tile")) and not priced(line(few, "S0.i_tile"))


@pytest.mark.parametrize("sizes", [{"Q": 3}, {"N": -1}, {"N": 1 << 40}, {"N": 1.5}, {"N": True}])
def test_sizes_that_are_none_are_refused(sizes: dict[str, int]) -> None:
    run = weft.compile(product, options=OPTIONS)
    with pytest.raises(CallError, match="WEFT-E0609"):
        run.explain(sizes=sizes)


def test_models_have_no_sizes_to_estimate_for() -> None:
    x = weft.placeholder((4,), name="x")
    run = weft.compile(weft.compute((4,), lambda i: x[i] + 1, name="y"), options=OPTIONS)
    with pytest.raises(CallError, match="WEFT-E0609"):
        run.explain(sizes={"x": 3})


def test_what_takes_most_is_weighed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alternatives, "MOST", 8)
    run = weft.compile(small_before_large, options=OPTIONS)
    text = run.explain(details=True)
    assert priced(line(text, "S1.strategy")) and not priced(line(text, "S0.strategy"))
    assert re.search("without estimates, beyond 8 of them: .*S0.strategy", text)


def seconds(text: str) -> float:
    number, unit = text.split()
    return float(number) * {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[unit]


def test_the_cache_and_saved_programs(tmp_path: Path) -> None:
    options = weft.Options(threads=1, cache_dir=str(tmp_path / "cache"), target="x86-64-v3")
    made = weft.compile(scan, options=options)
    found = weft.compile(scan, options=options)
    assert found.stats["from_cache"] and found.explain(details=True) == made.explain(details=True)
    made.save(tmp_path / "scan.weft")
    loaded = weft.load(tmp_path / "scan.weft")  # without prices: saving takes no seconds
    assert loaded.explain(details=True) == loaded.explain() == made.explain()
