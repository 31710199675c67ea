"""Operators → acyclic clusters, each of which becomes one fused program.

Operators come in topological order. Each joins the clusters of its producers that its accesses
allow and the cost model favours (``fusion_rules``), the largest intermediate first, as long as the
graph of clusters stays acyclic (``quotient``). Contractions take in what is pointwise after them
and what only moves elements before them; everything else grows along common outer loops. Nothing
is decided by the name of an operator, and every decision is recorded. Winograd and layouts have
rewritten the graph before; real loops are chosen in ``polyhedral/policy/fuse``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import networkx as nx

from weft.graph.canonical import canonical_text
from weft.graph.fusion_rules import (
    Draft,
    Facts,
    Limits,
    Passed,
    bytes_of,
    draft_of,
    facts_of,
    joined,
    objection,
    size_text,
)
from weft.ir.errors import InternalError
from weft.ir.operator_graph import Graph, Node, Value
from weft.ir.plan import Choose, by_default

# ---- An acyclic graph of clusters under merging, with its topological order kept up to date.
#
# Merging a and b, a before b, closes a cycle exactly if another path leads from a to b. All nodes
# on such a path lie between them in the order, so that only this region is searched, and only
# what is found there is moved (Pearce and Kelly, "A dynamic topological sort algorithm for
# directed acyclic graphs", 2006).


class Merge(Enum):
    DONE = "done"
    CYCLE = "cycle"
    TOO_FAR = "too far"


class Quotient:
    """Clusters are numbers; the first ones are the nodes ``0 … n-1`` in topological order."""

    def __init__(self, n: int, edges: Iterable[tuple[int, int]], *, search: int = 4096) -> None:
        """``search`` bounds the edges that one merge looks at, so that merging stays linear."""
        self.search = search
        self.order = list(range(n))
        self.parent = list(range(n))
        self.after: list[dict[int, None]] = [{} for _ in range(n)]
        self.before: list[dict[int, None]] = [{} for _ in range(n)]
        for a, b in edges:
            self.after[a][b] = None
            self.before[b][a] = None

    def find(self, node: int) -> int:
        """The cluster of ``node``."""
        root = node
        while self.parent[root] != root:
            root = self.parent[root]
        while self.parent[node] != root:
            self.parent[node], node = root, self.parent[node]
        return root

    def merge(self, left: int, right: int, through: Sequence[int] = ()) -> Merge:
        """Make one cluster of two, unless that closes a cycle or takes too long to find out.

        ``through`` are clusters that join them: each has no neighbours but these and the two.
        """
        a, b = sorted((self.find(left), self.find(right)), key=self.order.__getitem__)
        if a == b:
            return Merge.DONE
        whole = (a, b, *through)
        forward = self._reach(a, whole, self.after, self.order[a], self.order[b])
        backward = self._reach(b, whole, self.before, self.order[a], self.order[b])
        if forward is None or backward is None:
            return Merge.TOO_FAR
        if any(b in self.after[n] for n in forward):
            return Merge.CYCLE
        self._reorder(whole, forward, backward)
        for node in (b, *through):
            self._contract(self.find(a), node)
        return Merge.DONE

    def _reach(
        self,
        start: int,
        whole: Sequence[int],
        edges: Sequence[Mapping[int, None]],
        low: int,
        high: int,
    ) -> list[int] | None:
        """What ``start`` reaches strictly between ``low`` and ``high``; None beyond the budget."""
        found: dict[int, None] = {}
        stack = [start]
        looked_at = 0
        while stack:
            following = edges[stack.pop()]
            looked_at += len(following)
            if looked_at > self.search:
                return None
            for node in following:
                if low < self.order[node] < high and node not in found and node not in whole:
                    found[node] = None
                    stack.append(node)
        return list(found)

    def _reorder(self, whole: Sequence[int], forward: list[int], backward: list[int]) -> None:
        """What reaches b, then the merged cluster, then what a reaches, in the same places."""
        places = sorted(self.order[n] for n in (*whole, *forward, *backward))
        backward.sort(key=self.order.__getitem__)
        forward.sort(key=self.order.__getitem__)
        for node, place in zip(backward, places, strict=False):
            self.order[node] = place
        for node in whole:
            self.order[node] = places[len(backward)]
        for node, place in zip(forward, places[len(places) - len(forward) :], strict=True):
            self.order[node] = place

    def _contract(self, a: int, b: int) -> None:
        """``b`` becomes part of ``a``, or the other way round: fewer edges move."""
        if len(self.after[a]) + len(self.before[a]) < len(self.after[b]) + len(self.before[b]):
            a, b = b, a
        self.parent[b] = a
        for edges, back in ((self.after, self.before), (self.before, self.after)):
            for node in edges[b]:
                del back[node][b]
                if node != a:
                    edges[a][node] = None
                    back[node][a] = None
            edges[b] = {}


@dataclass(frozen=True, slots=True)
class Cluster:
    """``nodes`` in topological order; ``outputs`` are read by other clusters or are the graph's.

    ``is_view``: one node that gives its input another shape, whose output can be an alias of it.
    """

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    is_view: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether two neighbouring operators, by node name, were fused, and why or why not."""

    producer: str
    consumer: str
    fused: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Partition:
    """``clusters`` in an order in which they can run; every node is in exactly one."""

    clusters: tuple[Cluster, ...]
    decisions: tuple[Decision, ...]


def partition(graph: Graph, limits: Limits | None = None, choose: Choose = by_default) -> Partition:
    """The fused clusters of ``graph`` and, for each pair of neighbours, why they were fused or not.
    ``choose`` may leave apart what would be fused.

    Time grows about linearly with the number of nodes. Raises ``InternalError`` (E0320) if the
    clusters came out cyclic, which is checked independently at the end.
    """
    state = _Partitioner(graph, limits or Limits(), choose)
    for number in range(len(graph.nodes)):
        state.place(number)
    return Partition(state.clusters(), state.decisions())


@dataclass(slots=True)
class _Partitioner:
    graph: Graph
    limits: Limits
    choose: Choose
    facts: list[Facts] = field(init=False)
    maker: dict[str, int] = field(init=False)  # value name -> number of its node
    readers: dict[str, int] = field(init=False)  # value name -> how many nodes read it
    final: set[str] = field(init=False)
    quotient: Quotient = field(init=False)
    drafts: dict[int, Draft] = field(init=False)  # cluster -> draft
    cuts: frozenset[tuple[int, int]] = field(init=False)
    reasons: dict[tuple[int, int], str] = field(init=False)
    tiled: set[tuple[int, int]] = field(default_factory=set)  # fused for the sake of row tiles

    def __post_init__(self) -> None:
        nodes = self.graph.nodes
        self.facts = [facts_of(node) for node in nodes]
        self.maker = {v.name: n for n, node in enumerate(nodes) for v in node.outputs}
        self.readers = {name: len(found) for name, found in self.graph.consumers.items()}
        self.final = {v.name for v in self.graph.outputs}
        self.quotient = Quotient(len(nodes), self._edges(), search=self.limits.search)
        self.drafts = {n: draft_of(n, facts) for n, facts in enumerate(self.facts)}
        self.cuts = self._chain_cuts()
        self.reasons = {}

    def _edges(self) -> list[tuple[int, int]]:
        """(producer, consumer) once for each pair of neighbours."""
        found = {
            (self.maker[v.name], n): None
            for n, node in enumerate(self.graph.nodes)
            for v in node.inputs
            if v.name in self.maker
        }
        return list(found)

    def _chain_cuts(self) -> frozenset[tuple[int, int]]:
        following: dict[int, int] = {}
        for a, b in self._edges():
            makers = {
                self.maker[v.name] for v in self.graph.nodes[b].inputs if v.name in self.maker
            }
            only = sum(self.readers.get(v.name, 0) for v in self.graph.nodes[a].outputs) == 1
            if makers == {a} and only and self.facts[a].is_map and self.facts[b].is_map:
                following[a] = b
        chained = {*following, *following.values()}
        most = max((self.facts[n].statements for n in chained), default=1)
        capacity = max(1, self.limits.statements // max(most, 1))
        if len(following) < capacity:
            return frozenset()
        keys = {n: canonical_text(self.graph.nodes[n].program) for n in sorted(chained)}
        return cut_evenly(following, keys, capacity)

    def place(self, number: int) -> None:
        """Join the node with clusters of its producers, best first."""
        if self._is_alias(number):
            return  # unless its one reader joins the cluster of what it views
        accepted: list[Draft] = []
        for link in self._links(number):
            drafts = [*accepted, link.draft]
            reason = link.obstacle or self._rift(accepted, link.draft)
            reason = reason or self._objection(number, drafts)
            reason = reason or self._plan_objects(number, link)
            if not reason:
                reason = _MERGED[self.quotient.merge(link.base, number, link.views)]
            if not reason:
                accepted = drafts
                whole = joined(accepted, number, self.facts[number])
                self.drafts[self.quotient.find(number)] = whole
                if not whole.nest.keeps_contractions:
                    self.tiled |= {(producer, number) for producer in link.makers}
            for producer in link.makers:
                self.reasons[producer, number] = reason

    def _plan_objects(self, number: int, link: _Link) -> str:
        """Objects to what a plan leaves apart."""
        names = [self.graph.nodes[maker].name for maker in link.makers]
        name = f"{'+'.join(names)} -> {self.graph.nodes[number].name}.fusion"
        apart = self.choose(name, ("fused", "apart"), "fused") == "apart"
        return "the plan leaves them apart" if apart else ""

    def _is_alias(self, number: int) -> bool:
        """Whether the node is a view that needs no memory of its own."""
        facts = self.facts[number]
        return facts.is_view and not any(v.name in self.final for v in facts.node.outputs)

    def _links(self, number: int) -> list[_Link]:
        """The clusters that the node could join: largest intermediate first, then the latest."""
        if len(self.graph.nodes[number].inputs) > self.limits.values:
            return []
        found: dict[int, _Link] = {}
        for value in dict.fromkeys(self.graph.nodes[number].inputs):
            if value.name not in self.maker:
                continue
            maker = base = self.maker[value.name]
            views: tuple[int, ...] = ()
            while (
                self._is_alias(base) and self.readers[self.graph.nodes[base].outputs[0].name] == 1
            ):
                views = (base, *views)
                source = self.graph.nodes[base].inputs[0].name
                if source not in self.maker:
                    break
                base = self.maker[source]
            if self._is_alias(base):
                continue
            cluster = self.quotient.find(base)
            link = found.setdefault(cluster, _Link(base, self.drafts[cluster]))
            link.add(maker, views, bytes_of(value), self.facts)
            if (maker, number) in self.cuts:
                link.obstacle = "a long chain is cut into equal pieces, which are compiled once"
        order = self.quotient.order
        return sorted(found.values(), key=lambda k: (-k.bytes, -order[self.quotient.find(k.base)]))

    def _rift(self, accepted: Sequence[Draft], other: Draft) -> str:
        """Objects to a third operator that would bring together two that were left apart."""
        side = {n: 0 for draft in accepted for n in draft.nodes} | dict.fromkeys(other.nodes, 1)
        for consumer in side:
            for value in self.graph.nodes[consumer].inputs:
                producer = self.maker.get(value.name, consumer)
                if side.get(producer, side[consumer]) != side[consumer]:
                    names = self.graph.nodes[producer].name, self.graph.nodes[consumer].name
                    why = self.reasons.get((producer, consumer), "")
                    return f"{names[0]} and {names[1]} are better apart: {why}"
        return ""

    def _objection(self, number: int, drafts: Sequence[Draft]) -> str:
        facts = self.facts[number]
        inside = {name for draft in drafts for name in draft.results}
        values = {
            v.name: Passed(v, self.readers[v.name] > 1)
            for v in facts.node.inputs
            if v.name in inside
        }
        return objection(drafts, joined(drafts, number, facts), facts, values, self.limits)

    def groups(self) -> list[list[int]]:
        """The node numbers of each cluster."""
        found: dict[int, list[int]] = {}
        for number in range(len(self.facts)):
            found.setdefault(self.quotient.find(number), []).append(number)
        return list(found.values())

    def decisions(self) -> tuple[Decision, ...]:
        names = [node.name for node in self.graph.nodes]
        return tuple(
            Decision(names[a], names[b], *self._verdict(a, b)) for a, b in sorted(self._edges())
        )

    def _verdict(self, a: int, b: int) -> tuple[bool, str]:
        reason = self.reasons.get((a, b), "")
        if self.quotient.find(a) == self.quotient.find(b):
            if reason:
                return True, "both were fused with a third operator"
            values = self.graph.nodes[a].outputs
            moved = sum(bytes_of(v) for v in values if v in self.graph.nodes[b].inputs)
            how = ", tiles of whose rows stay in a cache" if (a, b) in self.tiled else ""
            return True, f"in one cluster: {size_text(moved)} need not go through memory{how}"
        if self._is_alias(a) or self._is_alias(b):
            return False, reason or "a view needs no work: it is another name for the same memory"
        return False, reason or f"more than {self.limits.values} values to read"

    def clusters(self) -> tuple[Cluster, ...]:
        made = [self._cluster(k, group) for k, group in enumerate(self._ordered(self.groups()))]
        return tuple(made)

    def _ordered(self, groups: list[list[int]]) -> list[list[int]]:
        """``groups`` in an order in which they can run, close to that of the nodes."""
        home = {node: g for g, group in enumerate(groups) for node in group}
        quotient: nx.DiGraph[int] = nx.DiGraph()
        quotient.add_nodes_from(range(len(groups)))
        quotient.add_edges_from((home[a], home[b]) for a, b in self._edges() if home[a] != home[b])
        if not nx.is_directed_acyclic_graph(quotient):
            raise InternalError("WEFT-E0320", "clusters form a cycle", where=self.graph.name)
        order = nx.lexicographical_topological_sort(quotient, key=lambda g: groups[g][-1])
        return [groups[g] for g in order]

    def _cluster(self, position: int, group: list[int]) -> Cluster:
        nodes = [self.graph.nodes[n] for n in group]
        made = {v.name for node in nodes for v in node.outputs}
        inputs = dict.fromkeys(v for node in nodes for v in node.inputs if v.name not in made)
        inner: dict[str, int] = {}
        for node in nodes:
            for name in {v.name for v in node.inputs}:
                inner[name] = inner.get(name, 0) + 1
        outputs = tuple(
            v
            for node in nodes
            for v in node.outputs
            if v.name in self.final or self.readers.get(v.name, 0) > inner.get(v.name, 0)
        )
        ops = "_".join(dict.fromkeys(node.op for node in nodes))[:40]
        is_view = len(group) == 1 and self._is_alias(group[0])
        return Cluster(f"k{position}_{ops}", tuple(nodes), tuple(inputs), outputs, is_view)


_MERGED = {
    Merge.DONE: "",
    Merge.CYCLE: "an operator outside would have to run both after and before the cluster",
    Merge.TOO_FAR: "too many operators lie between the two to be sure of the order",
}


@dataclass(slots=True)
class _Link:
    """A producer's cluster, as seen by a node: directly, or through views that only it reads."""

    base: int
    draft: Draft
    views: tuple[int, ...] = ()
    makers: tuple[int, ...] = ()
    bytes: int = 0
    obstacle: str = ""

    def add(self, maker: int, views: tuple[int, ...], n_bytes: int, facts: Sequence[Facts]) -> None:
        for view in views:
            self.draft = joined([self.draft], view, facts[view])
        self.views += views
        self.makers += (maker,)
        self.bytes += n_bytes


# ---- Long chains of elementwise operators, cut evenly, so that identical clusters repeat.


def cut_evenly(
    following: Mapping[int, int], keys: Mapping[int, Hashable], capacity: int
) -> frozenset[tuple[int, int]]:
    """The edges at which chains longer than ``capacity`` nodes are cut.

    ``following`` has each node's successor in its chain, ``keys`` what each node computes. Where a
    chain repeats a pattern, pieces are as many whole patterns as fit, so that all but the last are
    the same; otherwise they have about equal lengths.
    """
    inner = set(following.values())
    cuts: set[tuple[int, int]] = set()
    for start in following:
        if start in inner:
            continue
        chain = [start]
        while chain[-1] in following:
            chain.append(following[chain[-1]])
        if len(chain) > capacity:
            step = _piece([keys[node] for node in chain], capacity)
            cuts |= {(chain[n - 1], chain[n]) for n in range(step, len(chain), step)}
    return frozenset(cuts)


def _piece(keys: Sequence[Hashable], capacity: int) -> int:
    pattern = period(keys)
    if pattern <= capacity:
        return capacity - capacity % pattern
    pieces = -(-len(keys) // capacity)
    return -(-len(keys) // pieces)


def period(keys: Sequence[Hashable]) -> int:
    """The least p with keys[n] == keys[n - p] for all n >= p (Knuth, Morris and Pratt, 1977)."""
    border = [0] * len(keys)
    for n in range(1, len(keys)):
        length = border[n - 1]
        while length and keys[n] != keys[length]:
            length = border[length - 1]
        border[n] = length + (keys[n] == keys[length])
    return len(keys) - border[-1] if keys else 0
