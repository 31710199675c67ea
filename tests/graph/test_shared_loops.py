import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.graph.graph_examples import Maker
from weft.graph.access_pattern import How, steps_of
from weft.graph.shared_loops import Nest, dimension_groups, extended


def nest_of(graph):
    nest = Nest()
    for node in graph.nodes:
        names = [v.name for v in node.inputs], [v.name for v in node.outputs]
        nest = extended([nest], node.program, steps_of(node.program), *names)
    return nest


def chain(shape, *calls):
    m = Maker()
    y = m.input(shape)
    for op, attributes in calls:
        y = m.call(op, y, **attributes)
    return nest_of(m.graph(y))


@pytest.mark.parametrize(
    "shape, calls, shared",
    [
        ((6, 8), [("relu", {})], None),
        ((6, 8), [("reduce_sum", {"axes": (1,)})], 6),
        ((6, 8), [("softmax", {}), ("tanh", {})], 6),
        ((6, 8), [("softmax", {}), ("softmax", {"axes": (0,)})], 1),
        ((6, 8), [("softmax", {}), ("transpose", {"perm": (1, 0)})], 6),
        ((6, 8), [("cum_sum", {"axis": 1}), ("relu", {})], 6),
        ((2, 3, 8), [("softmax", {}), ("reshape", {"shape": (6, 8)}), ("relu", {})], 6),
        ((6, 8), [("softmax", {}), ("reshape", {"shape": (2, 3, 8)}), ("relu", {})], 6),
        ((6, 8), [("softmax", {}), ("reshape", {"shape": (48,)}), ("relu", {})], 1),
        ((6, 8), [("softmax", {}), ("reshape", {"shape": (2, 24)}), ("relu", {})], 1),
    ],
)
def test_common_loops_of_a_chain(shape, calls, shared):
    nest = chain(shape, *calls)
    assert (None if nest.shared is None else nest.parallelism) == shared


def test_losses_say_where_and_how():
    nest = chain((6, 8), ("softmax", {}), ("softmax", {"axes": (0,)}))
    assert (nest.losses[0].dim, nest.losses[0].how) == (0, How.SWEPT)


def test_contractions_need_all_of_their_loops():
    m = Maker()
    y = m.call("matmul", m.input((6, 8)), m.constant((8, 5)))
    assert nest_of(m.graph(m.call("relu", y))).keeps_contractions
    assert not nest_of(m.graph(m.call("softmax", y))).keeps_contractions


sizes = st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=0, max_size=4)


@given(sizes, st.data())
def test_groups_of_dimensions_hold_the_same_elements(source, data):
    flat = [f for s in source for f in {1: [], 4: [2, 2], 6: [2, 3]}.get(s, [s])]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(flat)), max_size=3)))
    result = []
    for a, b in zip([0, *cuts], [*cuts, len(flat)], strict=True):
        size = 1
        for f in flat[a:b]:
            size *= f
        result.append(size)
    groups = dimension_groups(source, result)
    before = [d for group, _ in groups for d in group]
    after = [d for _, group in groups for d in group]
    assert before == [d for d, s in enumerate(source) if s != 1]
    assert after == [d for d, s in enumerate(result) if s != 1]
    for left, right in groups:
        product = [1, 1]
        for side, (dims, shape) in enumerate([(left, source), (right, result)]):
            for d in dims:
                product[side] *= shape[d]
        assert product[0] == product[1]
