from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.graph_examples import Maker, random_graphs, random_inputs, run_clusters
from weft.graph.canonical import canonical_text
from weft.graph.cluster_program import cluster_program
from weft.graph.fusion_rules import Limits
from weft.graph.partition import partition
from weft.ir.build import var
from weft.ir.graph_interpreter import interpret_graph

limits = st.builds(
    Limits,
    statements=st.integers(1, 30),
    contractions=st.integers(0, 3),
    values=st.integers(3, 40),
    rereads=st.sampled_from([0.5, 1.5, 100.0]),
    parallelism=st.sampled_from([1, 3, 16]),
    l2=st.sampled_from([16, 1 << 22]),
    l1=st.sampled_from([0, 1 << 15]),
    search=st.sampled_from([0, 4096]),
)


@given(random_graphs(), limits)
@settings(max_examples=80)
def test_clusters_cover_the_graph_in_order_and_compute_the_same(graph, chosen):
    result = partition(graph, chosen)
    covered = [node for cluster in result.clusters for node in cluster.nodes]
    assert sorted(n.name for n in covered) == sorted(n.name for n in graph.nodes)
    inputs = random_inputs(graph)
    values = run_clusters(graph, result, inputs)  # KeyError if not in order
    for value, expected in zip(graph.outputs, interpret_graph(graph, inputs), strict=True):
        np.testing.assert_array_equal(values[value.name], expected)


@given(random_graphs(), limits)
@settings(max_examples=40)
def test_every_pair_of_neighbours_has_a_true_decision_with_a_reason(graph, chosen):
    result = partition(graph, chosen)
    home = {n.name: c.name for c in result.clusters for n in c.nodes}
    maker = {v.name: n.name for n in graph.nodes for v in n.outputs}
    pairs = {(maker[v.name], n.name) for n in graph.nodes for v in n.inputs if v.name in maker}
    assert {(d.producer, d.consumer) for d in result.decisions} == pairs
    assert len(result.decisions) == len(pairs)
    for decision in result.decisions:
        assert decision.fused == (home[decision.producer] == home[decision.consumer])
        assert decision.reason


def ops_of(result):
    return ["+".join(n.op for n in c.nodes) + ("!" if c.is_view else "") for c in result.clusters]


def reason(result, producer, consumer):
    return next(
        d.reason for d in result.decisions if (d.producer, d.consumer) == (producer, consumer)
    )


def test_contractions_take_in_what_is_pointwise_after_them_and_no_second_one():
    m = Maker()
    x, w = m.input((256, 256)), m.constant((256, 256))
    y = m.call("relu", m.call("add", m.call("matmul", x, w), m.constant((256,))))
    result = partition(m.graph(m.call("matmul", y, w)))
    assert ops_of(result) == ["matmul+add+relu", "matmul"]
    assert "would lose a loop" in reason(result, "relu2", "matmul3")


def test_a_contraction_keeps_its_loops():
    m = Maker()
    y = m.call("matmul", m.input((256, 256)), m.constant((256, 256)))
    result = partition(m.graph(m.call("softmax", y, axes=(1,))))
    assert ops_of(result) == ["matmul", "softmax"]
    assert "all of dimension 1 of" in reason(result, "matmul0", "softmax1")


@pytest.mark.parametrize("empty", range(5))
def test_products_without_elements(empty):
    """Nothing is shared out among no turns: of rows, columns, sums or either batch."""
    b, c, m, k, n = (0 if d == empty else size for d, size in enumerate((7, 3, 7, 8, 7)))
    maker = Maker()
    x, y = maker.input((b, c, m, k)), maker.input((c, k, n))
    product = maker.call("matmul", x, y)
    graph = maker.graph(maker.call("softmax", product, axes=(3,)))
    (result,) = interpret_graph(graph, random_inputs(graph))
    assert result.shape == (b, c, m, n)
    clusters = partition(graph).clusters
    assert [node.name for cluster in clusters for node in cluster.nodes] == ["matmul0", "softmax1"]


def test_rows_are_normalised_together_with_what_makes_them():
    m = Maker()
    x = m.input((512, 256))
    y = m.call("add", x, m.input((512, 256)))
    mean = m.call("reduce_mean", y, axes=(1,))
    centred = m.call("sub", y, mean)
    scale = m.call("sqrt", m.call("reduce_mean", m.call("mul", centred, centred), axes=(1,)))
    result = partition(m.graph(m.call("div", centred, scale)))
    assert len(result.clusters) == 1


def test_reductions_of_both_dimensions_leave_no_common_loop():
    m = Maker()
    rows = m.call("softmax", m.input((512, 512)), axes=(1,))
    result = partition(m.graph(m.call("softmax", rows, axes=(0,))))
    assert ops_of(result) == ["softmax", "softmax"]
    assert "1 common outer iterations are left of 262144" in reason(result, "softmax0", "softmax1")


def attention(heads, n, d):
    """Two products with a softmax between them, scaled before and transposed after."""
    m = Maker()
    q, k, v = m.input((heads, n, d)), m.input((heads, d, n)), m.input((heads, n, d))
    scores = m.call("mul", m.call("matmul", q, k), m.constant((1,)))
    y = m.call("matmul", m.call("softmax", scores, axes=(2,)), v)
    return partition(m.graph(m.call("transpose", y, perm=(1, 0, 2))))


@pytest.mark.parametrize("shape", [(12, 128, 32), (8, 1024, 64), (1, 1024, 64), (3, 733, 19)])
def test_attention_is_one_cluster_where_tiles_of_its_rows_stay_in_a_cache(shape):
    result = attention(*shape)
    assert ops_of(result) == ["matmul+mul+softmax+matmul+transpose"]
    for pair in (("mul1", "softmax2"), ("softmax2", "matmul3")):
        assert reason(result, *pair).endswith(
            " need not go through memory, tiles of whose rows stay in a cache"
        )


@pytest.mark.parametrize(
    "shape, why",
    [
        ((4, 128, 32), "between them stay in a cache as they are"),
        ((var("n"), 128, 64), "how many of its rows stay in a cache is not known"),
        ((2, 20000, 64), "would not stay in a cache of 1.05 MB with the 5.12 MB that all of them"),
    ],
)
def test_attention_that_gains_nothing_from_tiles_of_rows_stays_apart(shape, why):
    result = attention(*shape)
    assert ops_of(result) == ["matmul+mul", "softmax", "matmul+transpose"]
    assert why in reason(result, "mul1", "softmax2")


@pytest.mark.parametrize(
    "sizes, clusters",
    [((4096, 64, 256, 64), 1), ((4096, 384, 1536, 384), 2), ((128, 9, 3000, 9), 2)],
)
def test_chains_of_two_products(sizes, clusters):
    rows, a, b, c = sizes
    m = Maker()
    y = m.call("relu", m.call("matmul", m.input((rows, a)), m.constant((a, b))))
    result = partition(m.graph(m.call("matmul", y, m.constant((b, c)))))
    assert len(result.clusters) == clusters


def test_two_products_beside_each_other_share_no_tiles():
    m = Maker()
    x = m.input((4096, 64))
    sides = [m.call("matmul", x, m.constant((64, 256))) for _ in range(2)]
    result = partition(m.graph(m.call("add", *sides)))
    assert sorted(ops_of(result)) == ["matmul", "matmul+add"]
    assert "together 2 contractions" in reason(result, "matmul0", "add2")


def test_what_is_read_many_times_is_stored():
    m = Maker()
    x = m.call("tanh", m.input((256, 256)))
    result = partition(m.graph(m.call("matmul", x, m.constant((256, 256)))))
    assert ops_of(result) == ["tanh", "matmul"]
    assert "is read about 256 times" in reason(result, "tanh0", "matmul1")


def test_moves_before_a_contraction_are_part_of_its_reads():
    m = Maker()
    x = m.call("transpose", m.input((256, 256)), perm=(1, 0))
    assert len(partition(m.graph(m.call("matmul", x, m.constant((256, 256))))).clusters) == 1


def test_indices_that_depend_on_data_need_all_of_what_they_read():
    m = Maker()
    table = m.call("tanh", m.input((5000, 64)))
    result = partition(m.graph(m.call("gather", table, m.input((10,), "int64"), axis=0)))
    assert ops_of(result) == ["tanh", "gather"]
    assert "depend on data" in reason(result, "tanh0", "gather1")


def test_heads_split_and_transposed_after_a_projection_are_its_epilogue():
    m = Maker()
    y = m.call("matmul", m.input((1, 128, 384)), m.constant((384, 384)))
    split = m.call("reshape", y, shape=(1, 128, 12, 32))
    result = partition(m.graph(m.call("transpose", split, perm=(0, 2, 1, 3))))
    assert ops_of(result) == ["matmul+reshape+transpose"]


def test_a_view_is_an_alias_unless_it_is_an_output():
    m = Maker()
    x = m.input((8, 4))
    flat = m.call("reshape", x, shape=(32,))
    y = m.call("tanh", flat)
    assert ops_of(partition(m.graph(y))) == ["reshape!", "tanh"]
    assert ops_of(partition(m.graph(y, flat))) == ["reshape+tanh"]  # a copy, with its reader


def test_no_cycle_through_an_operator_outside():
    m = Maker()
    x = m.call("tanh", m.input((256, 256)))
    y = m.call("softmax", m.call("matmul", x, m.constant((256, 256))))
    result = partition(m.graph(m.call("add", x, y)))
    assert ops_of(result) == ["tanh", "matmul", "softmax+add"]
    assert "before the cluster" in reason(result, "tanh0", "add3")


def test_a_third_operator_does_not_join_what_is_better_apart():
    m = Maker()
    x = m.call("tanh", m.input((256, 256)))
    product = m.call("matmul", x, m.constant((256, 256)))
    result = partition(m.graph(m.call("add", x, product)))
    assert ops_of(result) == ["tanh", "matmul+add"]
    assert "tanh0 and matmul1 are better apart" in reason(result, "tanh0", "add2")


def test_a_long_chain_becomes_equal_clusters_fast():
    m = Maker()
    y = m.input((64, 64))
    for k in range(1200):
        y = m.call(("relu", "neg", "exp", "tanh", "sin")[k % 5], y)
    result = partition(m.graph(y))
    texts = {canonical_text(cluster_program(c).program) for c in result.clusters}
    assert len(result.clusters) == 60 and len(texts) == 1


def test_symbolic_sizes():
    m = Maker()
    n = var("n")
    y = m.call("add", m.call("matmul", m.input((n, 64)), m.constant((64, 64))), m.constant((64,)))
    assert ops_of(partition(m.graph(m.call("relu", y)))) == ["matmul+add+relu"]


def test_the_names_of_operators_do_not_matter():
    m = Maker()
    x, w = m.input((256, 256)), m.constant((256, 256))
    y = m.call("relu", m.call("matmul", x, w))
    graph = m.graph(m.call("matmul", y, w))
    renamed = replace(
        graph, nodes=tuple(replace(n, op="thing", attributes={}) for n in graph.nodes)
    )
    sizes = [len(c.nodes) for c in partition(graph).clusters]
    assert [len(c.nodes) for c in partition(renamed).clusters] == sizes == [2, 1]


@pytest.mark.parametrize("contractions, expected", [(1, 2), (2, 2)])
def test_limits_are_parameters(contractions, expected):
    m = Maker()
    y = m.call("matmul", m.input((256, 256)), m.constant((256, 256)))
    z = m.call("matmul", y, m.constant((256, 256)))
    assert len(partition(m.graph(z), Limits(contractions=contractions)).clusters) == expected
