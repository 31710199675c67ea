"""Spaces: for each move, the arguments worth trying on a schedule.

    space(scheduled, machine, "tile")   →   tile({"i": 16, "j": 16}), tile({"i": 64, "j": 64}), …

Names are of loops, statements and tensors that there are, sizes follow from the machine's vectors
and caches. Whether a move is legal is not asked: whoever takes it is told. What a search walks
through, and what a person reads who wonders what could be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from itertools import combinations, pairwise, permutations
from typing import Any

from weft.ir.machine import Machine
from weft.ir.schedule_tree import Band, Leaf, Loop, Sequence, Tree, statements_below, walk
from weft.ir.scop import Statement
from weft.polyhedral.analysis.linear import moves
from weft.polyhedral.transform.nest import resized
from weft.polyhedral.transform.scheduled import Scheduled, loops_above, merge_bands

UNROLLED = (2, 4, 8)  # iterations that are written out
BLOCKS = (16, 64, 256)  # iterations of a cache tile
AHEAD = (0, 8, 24)  # cache lines that are prefetched

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class _On:
    """A schedule, and what moves are about."""

    scheduled: Scheduled
    machine: Machine

    @property
    def tree(self) -> Tree:
        return merge_bands(self.scheduled.tree)

    @property
    def bands(self) -> list[Band]:
        return [node for node in walk(self.tree) if isinstance(node, Band)]

    @property
    def innermost(self) -> list[tuple[Loop, ...]]:
        """The loops directly around one statement each."""
        return [band.loops for band in self.bands if isinstance(band.child, Leaf)]

    @property
    def loops(self) -> list[str]:
        return [loop.name for loop in self.scheduled.loops()]

    @property
    def statements(self) -> tuple[Statement, ...]:
        return self.scheduled.scop.statements

    @property
    def updates(self) -> list[Statement]:
        return [s for s in self.statements if s.update is not None]

    def tensors(self, *roles: str) -> list[str]:
        return [t.name for t in self.scheduled.scop.tensors if t.role in roles]

    @property
    def vector(self) -> int:
        """Elements of a vector, of the widest dtype that there is."""
        sizes = [t.dtype.itemsize for t in self.scheduled.scop.tensors]
        return max(1, self.machine.vector_bytes // max(sizes, default=1))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of tiles: a vector, a few, and blocks for the caches."""
        return tuple(dict.fromkeys((self.vector, 3 * self.vector, *BLOCKS)))

    def users(self, tensor: str, *, writes: bool) -> list[str]:
        """The statements that read it, or write it."""
        found = []
        for s in self.statements:
            accesses = s.writes if writes else s.reads
            if any(a.tensor == tensor for a in accesses):
                found.append(s.name)
        return found

    def around(self, statement: str) -> list[str]:
        """The loops around a statement, outermost first."""
        return [loop.name for loop in loops_above(self.scheduled.tree, statement)]


def space(scheduled: Scheduled, machine: Machine, move: str) -> Iterator[Arguments]:
    """The arguments, (positional, by name), with which ``move`` is worth trying on ``scheduled``
    for ``machine``. Raises ``KeyError`` for a move that Weft does not know."""
    return SPACES[move](_On(scheduled, machine))


def _call(*args: Any, **kwargs: Any) -> Arguments:
    return args, kwargs


def _nests(on: _On) -> Iterator[Arguments]:
    """Every nest with one of its tile sizes halved or doubled."""
    for band in on.bands:
        names = statements_below(band)
        for loops in resized(band.loops):
            yield _call(names[0] if len(names) == 1 else names, loops)


def _sequences(on: _On) -> Iterator[Arguments]:
    """Neighbours in a sequence exchanged."""
    found: list[tuple[str, Sequence]] = []
    if isinstance(on.tree, Sequence):
        found.append(("", on.tree))
    for band in on.bands:
        if isinstance(band.child, Sequence):
            found.append((band.loops[-1].name, band.child))
    for inside, node in found:
        groups = [list(statements_below(child)) for child in node.children]
        for k in range(len(groups) - 1):
            yield _call([*groups[:k], groups[k + 1], groups[k], *groups[k + 2 :]], inside)


def _tiles(on: _On) -> Iterator[Arguments]:
    for band in on.bands:
        for loops in (*pairwise(band.loops), *([band.loops] if len(band.loops) > 2 else [])):
            for size in on.sizes:
                yield _call({loop.name: size for loop in loops})


def _orders(on: _On) -> Iterator[Arguments]:
    for band in on.bands:
        for one, two in combinations([loop.name for loop in band.loops], 2):
            yield _call([two, one])


def _fusions(on: _On) -> Iterator[Arguments]:
    for node in walk(on.tree):
        if isinstance(node, Sequence):
            firsts = [c.loops[0].name for c in node.children if isinstance(c, Band)]
            for one, two in pairwise(firsts):
                for shift in (0, 1):
                    yield _call(one, two, shift=shift)


def _skews(on: _On) -> Iterator[Arguments]:
    for band in on.bands:
        for one, two in permutations([loop.name for loop in band.loops], 2):
            for factor in (1, 2):
                yield _call(one, two, factor)


def _shares(on: _On) -> Iterator[Arguments]:
    for node in walk(on.tree):
        if isinstance(node, Sequence):
            for one, two in pairwise(c for c in node.children if isinstance(c, Band)):
                names = [*statements_below(one), *statements_below(two)]
                at = {s: (one if s in one.loops[0].at else two).loops[0].name for s in names}
                yield _call({f"{one.loops[0].name}_both": at}, names)


def _cuts(on: _On) -> Iterator[Arguments]:
    for s in on.statements:
        for dim in s.dims:
            yield _call(s.name, [f"{dim} >= 1"])
        for size in on.scheduled.scop.parameters:
            yield _call(s.name, [f"{size} >= {BLOCKS[-1]}"])


def _register_tiles(on: _On) -> Iterator[Arguments]:
    """Marks on tiled innermost loops: streams, rows, lanes."""
    for loops in on.innermost:
        for streams in range(1, len(loops)):
            names = [loop.name for loop in loops[-streams - 2 :]]
            if len(names) > 1:
                for ahead in AHEAD:
                    yield _call(names[:streams], names[streams:-1], names[-1], ahead=ahead)


def _copies(on: _On, *, writes: bool) -> Iterator[Arguments]:
    for tensor in on.tensors("input", "inout", "output", "temp", "constant"):
        for statement in on.users(tensor, writes=writes):
            for loop in on.around(statement):
                yield _call(tensor, statement, loop)


def _packs(on: _On) -> Iterator[Arguments]:
    for s in on.statements:
        for number, read in enumerate(s.reads):
            for loop in ("", *on.around(s.name)):
                for dim in range(len(read.indices)):
                    order = [dim, *(d for d in range(len(read.indices)) if d != dim)]
                    for width in (on.vector, 3 * on.vector):
                        yield _call(
                            read.tensor, s.name, loop, {dim: width}, order=order, operand=number
                        )


def _precomputed(on: _On) -> Iterator[Arguments]:
    for s in on.updates:
        folded = list(s.update.dims) if s.update else []
        for dim in (d for d in s.dims if d not in folded):
            yield _call(s.name, [dim, *folded], folded)


def _operands(on: _On) -> Iterator[Arguments]:
    for s in on.updates:
        for number, read in enumerate(s.reads):
            moving = [d for d in s.dims if moves(read, d)]
            for last in moving:
                yield _call(s.name, number, [*(d for d in moving if d != last), last])


def _transpositions(on: _On) -> Iterator[Arguments]:
    for s in on.updates:
        for order in permutations(range(len(s.writes[0].indices))):
            if list(order) != sorted(order):
                yield _call(s.name, list(order))


def _shared_loops(on: _On, tensor: str) -> Seq[str]:
    """The loops around all uses of ``tensor``."""
    users = {*on.users(tensor, writes=False), *on.users(tensor, writes=True)}
    every = on.around(min(users)) if users else []
    return [name for name in every if users <= {*on.scheduled.below(name)}]


def _expansions(on: _On) -> Iterator[Arguments]:
    for tensor in on.tensors("temp"):
        around = _shared_loops(on, tensor)
        for depth in range(1, len(around) + 1):
            yield _call(tensor, around[:depth])


def _carried(on: _On) -> Iterator[Arguments]:
    for tensor in on.tensors("temp"):
        for loop in on.loops:
            yield _call(tensor, loop)


def _each(names: Seq[str]) -> Iterator[Arguments]:
    return (_call(name) for name in names)


SPACES: dict[str, Callable[[_On], Iterator[Arguments]]] = {
    "split": lambda on: (_call(loop, size) for loop in on.loops for size in on.sizes),
    "tile": _tiles,
    "reorder": _orders,
    "fuse": _fusions,
    "distribute": lambda on: _each(on.loops),
    "skew": _skews,
    "shift": lambda on: (
        _call(s.name, loop, by)
        for s in on.statements for loop in on.around(s.name) for by in (-1, 1)
    ),
    "reverse": lambda on: _each(on.loops),
    "share": _shares,
    "sink": lambda on: (_call([loop]) for loop in on.loops),
    "order": lambda on: iter([_call()]),
    "nest": _nests,
    "sequence": _sequences,
    "cut": _cuts,
    "parallel": lambda on: _each(on.loops),
    "vectorize": lambda on: (
        _call(loops[-1].name, width) for loops in on.innermost for width in (None, on.vector)
    ),
    "unroll": lambda on: (_call(loop, n) for loop in on.loops for n in UNROLLED),
    "unroll_and_jam": lambda on: (_call(loop, n) for loop in on.loops for n in UNROLLED),
    "tensorize": _register_tiles,
    "set_kinds": lambda on: (
        _call({loop: kind}) for loop in on.loops for kind in ("serial", "parallel", "vector")
    ),
    "stream": lambda on: _each(on.tensors("output", "inout", "temp")),
    "prefetch": lambda on: (
        _call(tensor, lines * on.machine.line)
        for tensor in on.tensors("input", "inout", "temp", "constant") for lines in AHEAD if lines
    ),
    "compute_at": lambda on: (
        _call(s.name, loop) for s in on.statements for loop in on.loops
        if s.name not in on.scheduled.below(loop)
    ),
    "inline": lambda on: _each([s.name for s in on.statements]),
    "cache_read": lambda on: _copies(on, writes=False),
    "cache_write": lambda on: _copies(on, writes=True),
    "pack": _packs,
    "double_buffer": lambda on: _each(on.tensors("temp")),
    "rfactor": lambda on: (_call(s.name, loop) for s in on.updates for loop in on.around(s.name)),
    "partials": lambda on: (
        _call(s.name, f"{d} % {on.vector}", on.vector)
        for s in on.updates for d in (s.update.dims if s.update else ())
    ),
    "recompute": lambda on: (
        _call(t, [s]) for t in on.tensors("temp") for s in on.users(t, writes=False)
    ),
    "expand": _expansions,
    "expand_carried": _carried,
    "privatize": lambda on: iter([_call()]),
    "separate": lambda on: _each(on.tensors("temp")),
    "detach": lambda on: _each(on.tensors("inout")),
    "private_result": lambda on: _each(on.tensors("inout", "output")),
    "split_node": lambda on: (
        _call(s.name, number) for s in on.statements for number in range(len(s.reads))
    ),
    "hoist": lambda on: _each([s.name for s in on.statements]),
    "precompute": _precomputed,
    "copy_operand": _operands,
    "transpose_sums": _transpositions,
    "panels": lambda on: (_call(s.name, size) for s in on.updates for size in BLOCKS),
    "contract": lambda on: _each(on.tensors("temp")),
    "alias": lambda on: (
        _call(t, r) for t in on.tensors("temp") for r in on.tensors("inout", "output")
    ),
    "promote": _expansions,
}  # fmt: skip
"""By move: the arguments worth trying."""
