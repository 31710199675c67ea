"""The conditions on the way to a node hold wherever the node is evaluated."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.ir import dtypes
from weft.ir.scalar_expr import Load, Var, select
from weft.ir.scalar_interpreter import evaluate
from weft.ir.scalar_paths import path_guards, walk_scalar

i, j = Var("i"), Var("j")


def load(number):
    return Load(number, (i, j), dtypes.float32)


def test_branches_shared_nodes_and_shared_conditions():
    a, b, shared = load(0), load(1), load(2)
    c, d = i > 0, j > 0
    both = select(c, select(d, a, shared), b) + select(c, shared, 0.0)
    guards = path_guards(both)
    assert list(guards[id(a)]) == [(c, True), (d, True)]
    assert list(guards[id(b)]) == [(c, False)]
    assert list(guards[id(shared)]) == [(c, True)]
    assert list(guards[id(c)]) == [] and list(guards[id(both)]) == []
    assert all(guards[id(node)].exact for node in (a, b, shared))
    everywhere = path_guards(both, b * shared)[id(shared)]
    assert list(everywhere) == [] and everywhere.exact


def test_several_ways_keep_the_conditions_that_they_share():
    shared, other = load(0), load(1)
    first = select(j > 0, select(i > 0, select(j > 1, shared, other), 0.0), 0.0)
    again = select(i > 0, shared, select(i > 3, shared, 0.0))
    path = path_guards(first, select(i > 0, shared, 0.0))[id(shared)]
    assert list(path) == [(i > 0, True)] and not path.exact
    path = path_guards(first, again)[id(shared)]
    assert list(path) == [] and not path.exact


@settings(max_examples=100)
@given(st.data())
def test_guards_hold_where_loads_happen(data):
    pool = [load(0), load(1), load(2)]
    conditions = [i > 0, j > 0, (i + j) % 2 > 0, i.equal(j)]
    for _ in range(data.draw(st.integers(1, 8))):
        left, right = (data.draw(st.sampled_from(pool)) for _ in range(2))
        if data.draw(st.booleans()):
            pool.append(left - right)
        else:
            pool.append(select(data.draw(st.sampled_from(conditions)), left, right))
    expr = pool[-1]
    guards = path_guards(expr)
    loads = {n.source: n for n in walk_scalar(expr) if isinstance(n, Load)}

    def check(source, indices):
        at = dict(zip("ij", indices, strict=True))
        for condition, holds in guards[id(loads[source])]:
            assert (evaluate(condition, at) == holds).all()
        return np.float32(indices[0] + source)

    grid = np.indices((4, 4)).reshape(2, -1) - 1
    evaluate(expr, {"i": grid[0], "j": grid[1]}, check)
