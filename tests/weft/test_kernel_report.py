"""What ``explain`` says of a loop kernel is said once, and in words."""

# ruff: noqa: F821, B007
# mypy: disable-error-code="name-defined, valid-type, no-untyped-def, index"

from pathlib import Path

import pytest

import weft
from weft.driver.explain import STRATEGIES
from weft.polyhedral.schedule_loops import STRATEGIES as CHOSEN


@weft.kernel(options=weft.Options(cache=False, threads=1))
def smooth(A: weft.f64["N"], B: weft.f64["N"], x: weft.f64["N"], y: weft.f64["N"], steps: weft.i64):
    for i in range(N):
        x[i] = 2.0 * i
    for i in range(N):
        y[i] = x[N - 1 - i]
    for t in range(steps):
        for i in range(1, N - 1):
            B[i] = A[i - 1] + A[i] + A[i + 1]
        for i in range(1, N - 1):
            A[i] = B[i - 1] + B[i] + B[i + 1]


def section(name: str) -> list[str]:
    lines = smooth.explain().splitlines()
    begin = next(k for k, line in enumerate(lines) if line.startswith(f"  {name}")) + 1
    inside = [line.startswith("    ") for line in lines[begin:]]
    return [line.strip() for line in lines[begin : begin + inside.index(False)]]


def test_each_dependence_is_listed_once() -> None:
    found = section("dependences")
    assert len(set(found)) == len(found)
    assert "flow S2 -> S3 on B  (3 pairs of accesses)" in found
    assert "flow S0 -> S1 on x" in found


def test_what_a_strategy_does_is_said_once_in_words() -> None:
    found = section("schedule")
    (single,) = [line for line in found if line.startswith("single: ")]
    assert single == f"single: S0, S1  ({STRATEGIES['single']})"


@weft.kernel(options=weft.Options(cache=False, threads=1))
def product(A: weft.f64["M", "K"], B: weft.f64["K", "N"], C: weft.f64["M", "N"]):
    for i in range(M):
        for j in range(N):
            for k in range(K):
                C[i, j] += A[i, k] * B[k, j]


def test_copies_are_listed_with_their_layout() -> None:
    found = product.schedule().pack("B", "S0", "", {0: 2, 1: 8}).compile().explain()
    layout = "temp B_packed: float64[(K + 1) // 2, (N + 7) // 8, 2, 8] local"
    assert f"  memory of its own\n    {layout}\n" in found


def test_every_strategy_has_words() -> None:
    names = {name for name, _ in CHOSEN}
    assert STRATEGIES.keys() == names | {"one loop", "as written"}


@pytest.mark.long
def test_a_kernel_from_the_cache_explains_itself_as_well(tmp_path: Path) -> None:
    options = weft.Options(cache_dir=str(tmp_path / "cache"), threads=1)
    made, found = (product.compile(options=options) for _ in range(2))
    assert found.stats["from_cache"] and "from_cache" not in made.stats
    assert found.explain() == made.explain() == product.explain()
    found.save(tmp_path / "product.weft")
    assert weft.load(tmp_path / "product.weft").explain() == made.explain()
