import networkx as nx
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.graph.partition import Merge, Quotient


@st.composite
def dags(draw):
    n = draw(st.integers(2, 14))
    pairs = [(a, b) for b in range(n) for a in range(b)]
    return n, draw(st.lists(st.sampled_from(pairs), unique=True, max_size=3 * n))


def contracted(n, edges, find):
    graph = nx.DiGraph()
    graph.add_nodes_from({find(k) for k in range(n)})
    graph.add_edges_from({(find(a), find(b)) for a, b in edges if find(a) != find(b)})
    return graph


@given(dags(), st.data())
@settings(max_examples=150)
def test_merges_exactly_what_stays_acyclic(dag, data):
    n, edges = dag
    quotient = Quotient(n, edges)
    for _ in range(n):
        a, b = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, n - 1))
        before = [quotient.find(k) for k in range(n)]
        x, y = before[a], before[b]

        def joined(k, before=before, x=x, y=y):
            return x if before[k] == y else before[k]

        legal = nx.is_directed_acyclic_graph(contracted(n, edges, joined))
        assert quotient.merge(a, b) is (Merge.DONE if legal else Merge.CYCLE)
        graph = contracted(n, edges, quotient.find)
        assert set(graph.edges) == {(p, c) for p in graph for c in quotient.after[p]}
        assert all(quotient.order[p] < quotient.order[c] for p, c in graph.edges)
        assert len({quotient.order[k] for k in graph}) == len(graph)


def test_merging_through_what_lies_between():
    quotient = Quotient(4, [(0, 1), (1, 2), (0, 2), (2, 3)])
    assert quotient.merge(0, 2) is Merge.CYCLE
    assert quotient.merge(0, 2, through=(1,)) is Merge.DONE
    assert quotient.find(0) == quotient.find(1) == quotient.find(2) != quotient.find(3)


def test_a_search_beyond_the_budget_is_given_up():
    fan = [(0, k) for k in range(1, 9)] + [(9, 10), (0, 10)]
    assert Quotient(11, fan, search=4).merge(0, 10) is Merge.TOO_FAR
    assert Quotient(11, fan, search=9).merge(0, 10) is Merge.DONE
