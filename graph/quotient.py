"""An acyclic graph of clusters under merging, with its topological order kept up to date.

Merging a and b, a before b, closes a cycle exactly if another path leads from a to b. All nodes on
such a path lie between them in the order, so that only this region is searched, and only what is
found there is moved (Pearce and Kelly, "A dynamic topological sort algorithm for directed acyclic
graphs", 2006).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum


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
