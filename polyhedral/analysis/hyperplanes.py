"""Hyperplanes: loops that several statements can share without any dependence running backwards.

A hyperplane gives every statement of a group an expression of its dims (one dim, or a skewed sum of
two) and a constant shift, so that for every dependence the value at the sink is at least the value
at the source. Any set of hyperplanes is a permutable band: it may be tiled and put in any order.

The linear parts are chosen from a few candidates of each statement by search; the shifts then solve
difference constraints ``shift(sink) - shift(source) >= -min Δ``, by longest paths (Bellman-Ford).
This is the space of the Pluto algorithm (Bondhugula et al., PLDI 2008) with small coefficients,
without an integer program: only distances of dependences are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import networkx as nx

from weft.ir.scalar_expr import Expr
from weft.polyhedral.analysis.delta_box import Distances, Range
from weft.polyhedral.proof.dependences import Dependence

TRIES = 2_000  # combinations of candidates, parts of them included, that one search looks at


@dataclass(frozen=True, slots=True)
class Hyperplane:
    """``at``: statement → value of the loop; ``carries``: dependences that it satisfies strictly
    for every pair, by number; ``coincident``: no dependence crosses it at all."""

    at: dict[str, Expr]
    carries: frozenset[int]
    coincident: bool


@dataclass(slots=True)
class Hyperplanes:
    """Searches over the dependences of one group of statements."""

    active: Sequence[Distances]
    _by_statement: dict[str, list[int]] = field(default_factory=dict)

    @property
    def dependences(self) -> tuple[Dependence, ...]:
        return tuple(a.dependence for a in self.active)

    def distance(self, number: int, source: Expr, sink: Expr) -> Range:
        """(min, max) of ``sink - source`` over dependence ``number``; None: unbounded."""
        return self.active[number].between(source, sink)

    def inside(self, at: Mapping[str, Expr]) -> list[Distances]:
        """The dependences between instances with one value of the hyperplane ``at``."""
        found = [
            a.within(at[a.dependence.source.name], at[a.dependence.sink.name]) for a in self.active
        ]
        return [a for a in found if a is not None]

    def complete(
        self, fixed: Mapping[str, Expr], candidates: Mapping[str, Sequence[Expr]]
    ) -> Hyperplane | None:
        """A hyperplane with ``fixed`` values for some statements, ``candidates`` for the others.

        The first in the order of the candidates, shifted where it must be; None if there is none.
        """
        order = self._order(fixed, candidates)
        for at in self._assignments(dict(fixed), order, candidates):
            shifted = self._shifted(at)
            if shifted is not None:
                return shifted
        return None

    def valid(self, at: Mapping[str, Expr]) -> Hyperplane | None:
        """The hyperplane with exactly these values, if no dependence runs backwards."""
        carries: set[int] = set()
        coincident = True
        for number, d in enumerate(self.dependences):
            low, high = self.distance(number, at[d.source.name], at[d.sink.name])
            if low is None or low < 0:
                return None
            if low > 0:
                carries.add(number)
            coincident = coincident and low == high == 0
        return Hyperplane(dict(at), frozenset(carries), coincident)

    def _order(
        self, fixed: Mapping[str, Expr], candidates: Mapping[str, Sequence[Expr]]
    ) -> list[str]:
        """The other statements, each next to one that comes before it where possible."""
        neighbours: dict[str, set[str]] = {name: set() for name in (*fixed, *candidates)}
        for d in self.dependences:
            neighbours[d.source.name].add(d.sink.name)
            neighbours[d.sink.name].add(d.source.name)
        order: list[str] = []
        left = [name for name in candidates if name not in fixed]
        seen = set(fixed)
        while left:
            following = next((n for n in left if neighbours[n] & seen), left[0])
            left.remove(following)
            order.append(following)
            seen.add(following)
        return order

    def _assignments(
        self,
        fixed: dict[str, Expr],
        order: Sequence[str],
        candidates: Mapping[str, Sequence[Expr]],
    ) -> Iterator[dict[str, Expr]]:
        """Values for the statements in ``order``, depth first; at most ``TRIES`` values tried."""
        at, left = dict(fixed), TRIES
        if not self._bounded(at, set(at)):
            return
        if not order:
            yield at
            return
        open_ = [iter(candidates[order[0]])]
        while open_ and left:
            name = order[len(open_) - 1]
            at.pop(name, None)
            value = next(open_[-1], None)
            if value is None:
                open_.pop()
                continue
            left -= 1
            self._charge(len(self._of(name)))
            at[name] = value
            if not self._bounded(at, {name}):
                continue
            if len(open_) == len(order):
                yield dict(at)
            else:
                open_.append(iter(candidates[order[len(open_)]]))

    def _charge(self, steps: int) -> None:
        quota = self.active[0].quota if self.active else None
        if quota is not None:
            quota.spend(steps)

    def _of(self, statement: str) -> Sequence[int]:
        """The numbers of the dependences that ``statement`` takes part in."""
        if not self._by_statement:
            for number, d in enumerate(self.dependences):
                for name in {d.source.name: 0, d.sink.name: 0}:
                    self._by_statement.setdefault(name, []).append(number)
        return self._by_statement.get(statement, ())

    def _bounded(self, at: Mapping[str, Expr], changed: set[str]) -> bool:
        """Whether a shift might make every dependence that touches ``changed`` run forwards."""
        touched = sorted({number for name in changed for number in self._of(name)})
        for number in touched:
            d = self.active[number].dependence
            source, sink = d.source.name, d.sink.name
            if source not in at or sink not in at:
                continue
            low, _ = self.distance(number, at[source], at[sink])
            if low is None or (source == sink and low < 0):
                return False
        return True

    def _shifted(self, at: Mapping[str, Expr]) -> Hyperplane | None:
        shift = dict.fromkeys(at, 0)
        least: dict[tuple[str, str], int] = {}  # distance of all dependences of two statements
        for number, d in enumerate(self.dependences):
            source, sink = d.source.name, d.sink.name
            low, _ = self.distance(number, at[source], at[sink])
            assert low is not None
            least[source, sink] = min(low, least.get((source, sink), low))
        for _ in range(len(at) + 1):
            changed = False
            for (source, sink), low in least.items():
                needed = shift[source] - low
                if shift[sink] < needed:
                    shift[sink] = needed
                    changed = True
            if not changed:
                break
        else:
            return None  # a cycle runs backwards
        return self.valid({s: e + shift[s] if shift[s] else e for s, e in at.items()})


def components(names: Sequence[str], dependences: Sequence[Dependence]) -> list[tuple[str, ...]]:
    """Strongly connected groups of statements, sources first, else in the order of ``names``."""
    place = {name: k for k, name in enumerate(names)}
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(names)
    graph.add_edges_from(
        (d.source.name, d.sink.name)
        for d in dependences
        if d.source.name in place and d.sink.name in place
    )
    condensed = nx.condensation(graph)
    members = {
        c: tuple(sorted(data["members"], key=place.__getitem__))
        for c, data in condensed.nodes(data=True)
    }
    order = nx.lexicographical_topological_sort(condensed, key=lambda c: place[members[c][0]])
    return [members[c] for c in order]
