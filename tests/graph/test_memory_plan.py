import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.graph.memory_plan import Lifetime, plan, verify_places
from weft.ir.build import var
from weft.ir.errors import InternalError
from weft.ir.scalar_interpreter import evaluate

lifetimes = st.lists(
    st.tuples(st.integers(0, 5000), st.integers(0, 12), st.integers(0, 5)), max_size=25
).map(lambda rows: [Lifetime(f"v{k}", n, a, a + d) for k, (n, a, d) in enumerate(rows)])


def overlaps(members, offsets, sizes):
    return [
        (a.name, b.name)
        for k, a in enumerate(members)
        for b in members[:k]
        if a.first <= b.last and b.first <= a.last
        and offsets[a.name] < offsets[b.name] + sizes[b.name]
        and offsets[b.name] < offsets[a.name] + sizes[a.name]
    ]  # fmt: skip


def most_live(members):
    """Bytes that no plan can do without: those of all values that live at one step."""
    return max(
        (sum(-(-t.bytes // 64) * 64 for t in members if t.first <= step <= t.last)
         for step in {t.first for t in members}),
        default=0,
    )  # fmt: skip


@given(lifetimes)
def test_live_values_never_overlap(members):
    offsets, total = plan(members)
    places = {name: offset.value for name, offset in offsets.items()}
    sizes = {t.name: t.bytes for t in members}
    assert not overlaps(members, places, sizes)
    assert all(place % 64 == 0 for place in places.values())
    assert all(places[t.name] + t.bytes <= total.value for t in members)
    assert total.value >= most_live(members)


@given(lifetimes, st.integers(0, 7))
@settings(max_examples=50)
def test_symbolic_sizes_never_overlap_at_any_size(members, n):
    symbol = var("n")
    forms = [lambda b: b, lambda b: symbol * b, lambda b: (symbol + 3) * b, lambda b: symbol // 2]
    mixed = [
        Lifetime(t.name, forms[k % 4](t.bytes), t.first, t.last) for k, t in enumerate(members)
    ]
    offsets, total = plan(mixed)
    at = {"n": np.int64(n)}
    places = {name: int(evaluate(offset, at)) for name, offset in offsets.items()}
    sizes = {
        t.name: t.bytes if isinstance(t.bytes, int) else int(evaluate(t.bytes, at)) for t in mixed
    }
    assert not overlaps(mixed, places, sizes)
    assert all(place % 64 == 0 for place in places.values())
    assert all(places[t.name] + sizes[t.name] <= evaluate(total, at) for t in mixed)


def test_a_chain_of_equal_values_takes_two_places():
    members = [Lifetime(f"v{k}", 1000, k, k + 1) for k in range(100)]
    assert plan(members)[1].value == 2 * 1024 == most_live(members)


def test_values_of_one_symbolic_size_share_memory():
    n = var("n")
    members = [Lifetime(f"v{k}", n * 4 * (k % 3 + 1), k, k + 1) for k in range(60)]
    fours = -(-100 * 4 // 64) * 64  # 4·n and 3·4·n share, 8·n is apart
    eights = -(-100 * 8 // 64) * 64
    assert evaluate(plan(members)[1], {"n": np.int64(100)}) == (1 + 3) * fours + eights


def test_symbolic_sizes_take_no_more_than_they_hold():
    n = var("n")
    for bytes_ in (1, 2, 4, 8, 12, 24, 40, 64, 192):
        total = plan([Lifetime("v", n * n * bytes_, 0, 1)])[1]
        for size in (8, 100):
            room = int(evaluate(total, {"n": np.int64(size)}))
            assert 0 <= room - size * size * bytes_ < 64 * max(1, bytes_ // 8)


def test_residual_networks_reach_the_bound():
    members = []
    for block in range(8):
        size, step = 802_816 >> (block // 2), 3 * block
        members += [
            Lifetime(f"a{block}", size, step, step + 1),
            Lifetime(f"b{block}", size, step + 1, step + 2),
            Lifetime(f"skip{block}", size, step, step + 2),
        ]
    assert plan(members)[1].value == most_live(members)


def test_plans_repeat_and_empty_ones_are_empty():
    members = [Lifetime(f"v{k}", (k * 37) % 11 * 100, k % 7, k % 7 + k % 3) for k in range(40)]
    assert plan(members) == plan(members)
    offsets, total = plan([])
    assert offsets == {} and total.value == 0


def test_bad_lifetimes_and_places_are_refused():
    with pytest.raises(InternalError, match="WEFT-E0310"):
        plan([Lifetime("a", 1, 0, 1), Lifetime("a", 1, 2, 3)])
    with pytest.raises(InternalError, match="WEFT-E0310"):
        plan([Lifetime("a", 1, 1, 0)])
    two = [(Lifetime("a", 64, 0, 1), 64), (Lifetime("b", 128, 1, 2), 128)]
    with pytest.raises(InternalError, match="overlap in the arena"):
        verify_places(two, [64, 0])
    with pytest.raises(InternalError, match="not aligned"):
        verify_places(two, [0, 65])
    verify_places(two, [128, 0])
